"""What two processes of ours say to each other over a socket: frames of a length and a msgpack value."""

from __future__ import annotations

import msgspec

LENGTH = 4  # bytes

encode = msgspec.msgpack.Encoder().encode


def frame(value: object) -> bytes:
    body = encode(value)
    return len(body).to_bytes(LENGTH, "little") + body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        rest = self._rest
        rest += data
        found, start = [], 0
        while len(rest) - start >= LENGTH:
            end = start + LENGTH + int.from_bytes(rest[start : start + LENGTH], "little")
            if len(rest) < end:
                break
            found.append(bytes(rest[start + LENGTH : end]))
            start = end
        del rest[:start]
        return found
