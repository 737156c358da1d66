"""The types of the data that the worker and the sender process exchange. `engine/frames.py` encodes it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec import Struct

from hookline.model.attempts import Sent

SPARE_FILES = 128  # descriptors for look-ups of names, libraries, and connections that are being closed


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the sender's process, sent in the first frame. They contain no secret."""

    allow_nets: tuple[str, ...] = ()
    allow_ports: tuple[int, ...] = ()
    slots: int
    body_limit: int
    connect_timeout: float
    ca_bundle: str | None = None
    dns_servers: tuple[str, ...] = ()


class Request(Struct, frozen=True, kw_only=True, array_like=True):
    ref: Any  # chosen by the caller; the sender returns it with the result
    url: str  # in the normal form that the guard has checked
    headers: list[str]  # complete lines "name: value", including the signature
    body: bytes
    deadline: float  # seconds for DNS, connect, TLS, headers and body together
    fresh: bool = False  # whether to open a new connection
    silent: bool = False  # the endpoint does not answer, or is new: requests to other endpoints are started first
    start_before: float = math.inf  # time of the monotonic clock; the request is not sent after this time


Results = list[tuple[Any, Sent]]  # the `ref` of each request, and its result

decode_settings = msgspec.msgpack.Decoder(Settings).decode
# To the sender: a list of requests, each with a number as its `ref`; or a number of seconds. The seconds tell the
# sender to exit, and are the time that it has to finish the requests in flight.
decode_orders = msgspec.msgpack.Decoder(list[Request] | float).decode
# From the sender: results, or a line for the worker's log.
decode_reports = msgspec.msgpack.Decoder(Results | str).decode
