"""The protocol between two Hookline processes on a socket: each frame is a length and a msgpack value."""

from __future__ import annotations

import msgspec

LENGTH = 4  # bytes at the start of a frame that give the length of its body

encode = msgspec.msgpack.Encoder().encode


def frame(value: object) -> bytes:
    body = encode(value)
    return len(body).to_bytes(LENGTH, "little") + body


class Frames:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received data. Return the bodies of the frames that are now complete."""
        buffer = self._buffer
        buffer += data
        bodies, start = [], 0
        while len(buffer) - start >= LENGTH:
            end = start + LENGTH + int.from_bytes(buffer[start : start + LENGTH], "little")
            if len(buffer) < end:
                break
            bodies.append(bytes(buffer[start + LENGTH : end]))
            start = end
        del buffer[:start]
        return bodies
