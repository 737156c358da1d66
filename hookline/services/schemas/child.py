"""The process that checks schemas and payloads which may take long: one job at a time, over standard input's socket.

It may be killed at any moment, and kills itself: a timer counts the processor's time, not the clock's, so that a busy
machine refuses nothing that an idle one would take. It holds no secret and no database connection.
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
from hookline.model import EventType
from hookline.services.schemas import validate as schema_validation

CHUNK = 1 << 18
STDIN = 0
MAX_COMPILED = 64
MAX_MEMORY = 1 << 30  # bytes of its address space


# Schemas and payloads are JSON here too: msgpack has no integers beyond 64 bits.


class Save(Struct, frozen=True, tag=True):
    event_type: bytes


class Survey(Struct, frozen=True, tag=True):
    """Of a schema that is saved: how long it takes to compile."""

    event_type: str
    version: str
    schema: bytes


class Check(Struct, frozen=True, tag=True):
    event_type: str
    version: str
    schema: bytes
    payload: bytes


Job = Save | Survey | Check


class Order(Struct, frozen=True):
    job: Job
    seconds: float  # of the processor's time


class Answer(Struct, frozen=True):
    seconds: float  # that were used
    fault: str | None = None  # for the caller
    field: str = ""  # that the fault is about


decode_order = msgspec.msgpack.Decoder(Order).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def main() -> None:
    _bound()
    line = socket.socket(fileno=STDIN)
    frames = Frames()
    while data := line.recv(CHUNK):
        for each in frames.feed(data):
            line.sendall(frame(_answer(decode_order(each))))


def _bound() -> None:
    # They reach the whole process group or service; when to end is the server's to say.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends it, also within the library
    for limit, most in ((resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # lower already, or not of this system
            resource.setrlimit(limit, (most, most))


def _answer(order: Order) -> Answer:
    signal.setitimer(signal.ITIMER_PROF, order.seconds)
    began = time.process_time()
    fault, field = None, "payload" if isinstance(order.job, Check) else "schemas"
    try:
        _work(order.job)
    except InvalidInput as error:
        fault, field = error.words, error.field
    except MemoryError:
        fault = "validation needs too much memory"
    except BaseException as error:  # the library panics: it would do so again
        fault = f"cannot be validated: {type(error).__name__}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return Answer(time.process_time() - began, fault, field)


def _work(job: Job) -> None:
    match job:
        case Save():
            schema_validation.check_schemas(msgspec.json.decode(job.event_type, type=EventType))
        case Survey():
            _judge(job.event_type, job.version, job.schema)
        case Check():
            _judge(job.event_type, job.version, job.schema)(job.payload)


@lru_cache(MAX_COMPILED)
def _judge(event_type: str, version: str, text: bytes) -> schema_validation.Judge:
    return schema_validation.judge(event_type, version, msgspec.json.decode(text))


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the server is gone
        main()
    os._exit(0)
