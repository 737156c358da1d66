"""The messages between the worker and the sender's process."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hookline.engine.sender.loop import Request
from hookline.model import Sent

Reports = list[tuple[int, Sent]]  # the number of each request and its result


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the sender's process, sent in the first frame. They contain no secret."""

    allow_nets: tuple[str, ...] = ()
    allow_ports: tuple[int, ...] = ()
    slots: int
    body_limit: int
    connect_timeout: float
    ca_bundle: str | None = None
    dns_servers: tuple[str, ...] = ()


decode_settings = msgspec.msgpack.Decoder(Settings).decode
# To the sender: requests whose `ref` is a number, or the number of seconds to finish the requests in flight before it exits.
decode_orders = msgspec.msgpack.Decoder(list[Request] | float).decode
# From the sender: results, or a line for the worker's log.
decode_reports = msgspec.msgpack.Decoder(Reports | str).decode
