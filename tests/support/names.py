"""A small real name server on loopback: names that answer, change their answer, do not exist, or never answer."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from types import TracebackType
from typing import Self

A, AAAA = 1, 28


class NameServer:
    """A name server over UDP. A name that the test did not add does not exist."""

    def __init__(self) -> None:
        # The questions that arrived. A question that a client repeats, because it got no answer, is listed once.
        self.queries: list[tuple[str, int]] = []
        self._seen: dict[bytes, int] = {}  # number of earlier questions for the same name and type
        self._lost: set[tuple[str, int]] = set()
        # answers by name; an empty list: questions for the name get no answer
        self._zone: dict[str, list[tuple[str, ...]]] = {}
        self._ttl: dict[str, int] = {}
        self._news = threading.Condition()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="name-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bell:
            bell.sendto(b"", self._socket.getsockname())
        self._thread.join(10)
        self._socket.close()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def answer(self, name: str, *addresses: str, ttl: int = 30) -> None:
        self._zone[name], self._ttl[name] = [addresses], ttl

    def rebind(self, name: str, *answers: tuple[str, ...]) -> None:
        """Give the next of these answers for each lookup, with a TTL of zero. The last answer is repeated."""
        self._zone[name], self._ttl[name] = list(answers), 0

    def lose_first(self, name: str, *addresses: str) -> None:
        """Leave the first question for `name` without an answer, as if the packet was lost; then give `addresses`."""
        self.answer(name, *addresses)
        self._lost |= {(name, A), (name, AAAA)}

    def silence(self, name: str) -> None:
        self._zone[name] = []

    def forget(self, name: str) -> None:
        """Answer that the name does not exist."""
        self._zone.pop(name, None)

    def asked(self, name: str) -> int:
        """Return the number of lookups of this name. The questions for A and AAAA count as one lookup."""
        return sum(1 for asked, kind in self.queries if asked == name and kind == A)

    def wait_for(self, name: str, timeout: float = 60.0) -> None:
        with self._news:
            if not self._news.wait_for(lambda: self.asked(name) > 0, timeout):
                raise TimeoutError(f"nobody asked for {name} in {timeout} s")

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4_096)
            if not query:
                return
            reply = self._reply(query)
            if reply is not None:
                self._socket.sendto(reply, client)

    def _reply(self, query: bytes) -> bytes | None:
        name, kind, end = _question(query)
        earlier = self._noted(query, name, kind)
        answers = self._zone.get(name)
        if answers is None:
            return query[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + query[12:end]
        if not answers or (name, kind) in self._lost:
            self._lost.discard((name, kind))
            return None
        addresses = answers[min(earlier, len(answers) - 1)]
        records = [record for address in addresses if (record := _record(address, kind, self._ttl[name]))]
        head = struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        return query[:2] + head + query[12:end] + b"".join(records)

    def _noted(self, query: bytes, name: str, kind: int) -> int:
        """Return the number of earlier lookups of this type. A repeated question keeps its number."""
        with self._news:
            if query not in self._seen:
                self._seen[query] = self.queries.count((name, kind))
                self.queries.append((name, kind))
                self._news.notify_all()
            return self._seen[query]


def _question(query: bytes) -> tuple[str, int, int]:
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii").lower())
        at += 1 + query[at]
    (kind,) = struct.unpack_from(">H", query, at + 1)
    return ".".join(labels), kind, at + 5


def _record(address: str, kind: int, ttl: int) -> bytes | None:
    packed = ipaddress.ip_address(address).packed
    if kind != (A if len(packed) == 4 else AAAA):
        return None
    return struct.pack(">HHHIH", 0xC00C, kind, 1, ttl, len(packed)) + packed
