"""What the worker and its sender's process say to each other: frames of a length and a msgpack value."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hookline.flow.send import Request
from hookline.model import Sent

_LENGTH = 4  # bytes

Reports = list[tuple[int, Sent]]  # by the number that the request came with


class Settings(Struct, frozen=True, kw_only=True):
    """The first frame: what the sender's process needs to know. There is no secret in it."""

    allow_nets: tuple[str, ...] = ()
    allow_ports: tuple[int, ...] = ()
    slots: int
    body_limit: int
    connect_timeout: float
    ca_bundle: str | None = None
    dns_servers: tuple[str, ...] = ()


encode = msgspec.msgpack.Encoder().encode
decode_settings = msgspec.msgpack.Decoder(Settings).decode
# To the sender: requests whose `ref` is a number, or how many seconds are left to finish what is under way.
decode_orders = msgspec.msgpack.Decoder(list[Request] | float).decode
# From the sender: results, or a line for the log.
decode_reports = msgspec.msgpack.Decoder(Reports | str).decode


def frame(value: object) -> bytes:
    body = encode(value)
    return len(body).to_bytes(_LENGTH, "little") + body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        rest = self._rest
        rest += data
        found, start = [], 0
        while len(rest) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(rest[start : start + _LENGTH], "little")
            if len(rest) < end:
                break
            found.append(bytes(rest[start + _LENGTH : end]))
            start = end
        del rest[:start]
        return found
