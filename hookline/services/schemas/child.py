"""The process that checks schemas and payloads whose check may take long. It reads jobs from a socket on standard
input, one at a time.

The process can be killed at any moment. A timer also kills it when a job uses too much CPU time. The timer does not
count wall-clock time, because then a busy machine would refuse a payload that an idle machine accepts. The process has
no secrets and no database connection.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import time
from functools import lru_cache

import msgspec
from msgspec import Struct

from hookline.engine.frames import Frames, frame
from hookline.errors import InvalidInput
from hookline.model.catalogue import EventType
from hookline.services.schemas import validate as schema_validation

CHUNK = 1 << 18
STDIN = 0
MAX_COMPILED = 64
MAX_MEMORY = 1 << 30  # limit of the address space in bytes


# Schemas and payloads are sent as JSON, because msgpack has no integers beyond 64 bits.


class Save(Struct, frozen=True, tag=True):
    event_type: bytes


class Check(Struct, frozen=True, tag=True):
    event_type: str
    version: str
    schema: bytes
    payload: bytes | None = None  # None: only compile the schema, to measure how long that takes


Job = Save | Check


class Order(Struct, frozen=True):
    job: Job
    seconds: float  # maximum CPU time


class Answer(Struct, frozen=True):
    seconds: float  # CPU time used
    fault: str | None = None  # error text for the caller
    field: str = ""  # the field that the error is about


decode_order = msgspec.msgpack.Decoder(Order).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def main() -> None:
    _limit_resources()
    line = socket.socket(fileno=STDIN)
    frames = Frames()
    while data := line.recv(CHUNK):
        for each in frames.feed(data):
            line.sendall(frame(_answer(decode_order(each))))


def _limit_resources() -> None:
    # These signals reach the whole process group. Ignore them, because the server decides when this process ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # SIGPROF ends the process, even while the library runs
    for limit, most in ((resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # a lower limit is set already, or the system lacks this limit
            resource.setrlimit(limit, (most, most))


def _answer(order: Order) -> Answer:
    signal.setitimer(signal.ITIMER_PROF, order.seconds)
    began = time.process_time()
    fault, field = None, "payload" if isinstance(order.job, Check) and order.job.payload is not None else "schemas"
    try:
        _work(order.job)
    except InvalidInput as error:
        fault, field = error.words, error.field
    except MemoryError:
        fault = "validation needs too much memory"
    except BaseException as error:  # such as a panic in the library: refuse the input, because a retry would fail too
        fault = f"cannot be validated: {type(error).__name__}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return Answer(time.process_time() - began, fault, field)


def _work(job: Job) -> None:
    match job:
        case Save():
            schema_validation.check_schemas(msgspec.json.decode(job.event_type, type=EventType))
        case Check():
            compiled = _compile(job.event_type, job.version, job.schema)
            if job.payload is not None:
                compiled(job.payload)


@lru_cache(MAX_COMPILED)
def _compile(event_type: str, version: str, text: bytes) -> schema_validation.CompiledSchema:
    return schema_validation.compile_schema(event_type, version, msgspec.json.decode(text))


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the server process has ended
        main()
    os._exit(0)
