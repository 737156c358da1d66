"""What the worker and its sender's process say to each other."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hookline.engine.sender.loop import Request
from hookline.model import Sent

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


decode_settings = msgspec.msgpack.Decoder(Settings).decode
# To the sender: requests whose `ref` is a number, or how many seconds are left to finish what is under way.
decode_orders = msgspec.msgpack.Decoder(list[Request] | float).decode
# From the sender: results, or a line for the log.
decode_reports = msgspec.msgpack.Decoder(Reports | str).decode
