"""Random streams of HTTP requests, made from a seed. A stream comes with the requests that a server must run."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

# Bodies that would do harm if a server read them as the head of a request.
_HARMFUL = (
    b"\r\nupgrade: h2c\r\n",
    b"\r\nUpgrade:",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b"0\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    b"DELETE /smuggled HTTP/1.1\r\nhost: a\r\ncontent-length: 60\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    b"\x00\xff",
    b"a plain text",
)
_OFFERS: tuple[tuple[bytes, ...], ...] = (
    (b"Connection: Upgrade", b"Upgrade: h2c"),
    (b"Upgrade: h2c", b"Connection: upgrade"),
    (b"connection: keep-alive, uPgRaDe, HTTP2-Settings", b"HTTP2-Settings: AAEAAEAAAAIAAAAA", b"UPGRADE: h2c, foo/2"),
    (b"Connection: upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    (b"Upgrade: h2c",),
    (b"Connection: upgrade",),
)
_BODILESS: tuple[list[bytes], ...] = ([], [], [b"Content-Length: 0"], [b"content-length: 00 "])
_TRAILERS = (
    b"",
    b"x-late: y\r\n",
    b"host: elsewhere\r\nauthorization: Bearer stolen\r\n",
    b"x-empty:\r\n",
    b"x-empty:\r\nx-two:  \r\n",
)
_EXTENSIONS = (b"", b"", b";a", b";a=b", b';a="b c"', b";upgrade=h2c;x=y")
_METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

# Invalid requests. The server answers each with 400, closes the connection and ignores the bytes that follow.
BROKEN: dict[str, bytes] = {
    "no request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n",
    "CONNECT with a body": b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\ncontent-length: 3\r\n\r\nabc",
    "CONNECT to a path": b"CONNECT /a HTTP/1.1\r\nhost: a\r\n\r\n",
    "no such method": b"BREW / HTTP/1.1\r\nhost: a\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "the same Host twice": b"GET / HTTP/1.1\r\nhost: a\r\nHOST: a\r\n\r\n",
    "two Hosts in HTTP/1.0": b"GET / HTTP/1.0\r\nhost: a\r\nhost: a\r\n\r\n",
    "an empty Host": b"GET / HTTP/1.1\r\nhost:\r\n\r\n",
    "a Host of two": b"GET / HTTP/1.1\r\nhost: a, b\r\n\r\n",
    "a Host with a tab": b"GET / HTTP/1.1\r\nhost: a\tb\r\n\r\n",
    "a Host with a path": b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
    "a Host with a user": b"GET / HTTP/1.1\r\nhost: u@a\r\n\r\n",
    "a Host with an odd port": b"GET / HTTP/1.1\r\nhost: a:8x\r\n\r\n",
    "a Host that is no text": b"GET / HTTP/1.1\r\nhost: \xff\r\n\r\n",
    "a Host with an open bracket": b"GET / HTTP/1.1\r\nhost: [::1\r\n\r\n",
    "a target elsewhere": b"GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target at another port": b"GET http://a:81/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target with a user": b"GET http://u@a/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target without a path": b"GET http://a HTTP/1.1\r\nhost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n",
    "length and encoding": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "encoding and length": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "the same length twice": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
    "a length that is a list": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 1\r\n\r\na",
    "a length with a sign": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na",
    "a length below nothing": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\na",
    "a length in hex": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x1\r\n\r\na",
    "a length of two words": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1 1\r\n\r\na",
    "a length without end": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\na",
    "an empty length": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\na",
    "identity": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\na",
    "chunked, identity": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "identity, chunked": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "gzip, chunked": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two encodings": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "xchunked": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "quoted chunked": b'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "chunked with a vertical tab": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "an empty encoding": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n\r\na",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity behind an offer": b"POST / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    b"transfer-encoding: identity\r\n\r\na",
    "length and encoding behind an offer": b"POST / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n z\r\n\r\n",
    "a folded encoding": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the first header": b"GET / HTTP/1.1\r\n host: a\r\n\r\n",
    "a space before the colon": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length : 1\r\n\r\na",
    "a tab before the colon": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a line without a colon": b"GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nhost: a\r\n: x\r\n\r\n",
    "a bare LF": b"GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
    "nothing but LF": b"GET / HTTP/1.1\nhost: a\n\n",
    "a bare CR": b"GET / HTTP/1.1\r\nhost: a\rx: y\r\n\r\n",
    "a CR in a value": b"GET / HTTP/1.1\r\nhost: a\r\nx: a\rtransfer-encoding: chunked\r\n\r\n",
    "a NUL in a name": b"GET / HTTP/1.1\r\nhost: a\r\nx\x00: y\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n",
    "a NUL in the target": b"GET /\x00 HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target that is no text": b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
}
_CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
# The head is valid, the body is not. The application may have started, and learns that its client is gone.
BROKEN_BODIES: dict[str, bytes] = {
    "a size in words": _CHUNKED + b"g\r\na\r\n0\r\n\r\n",
    "a size with a sign": _CHUNKED + b"+1\r\na\r\n0\r\n\r\n",
    "a size below nothing": _CHUNKED + b"-1\r\na\r\n0\r\n\r\n",
    "a size with a prefix": _CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    "a size with a space": _CHUNKED + b"1 \r\na\r\n0\r\n\r\n",
    "an empty size": _CHUNKED + b"\r\na\r\n0\r\n\r\n",
    "a size without end": _CHUNKED + b"fffffffffffffffff\r\na\r\n0\r\n\r\n",
    "a size with LF alone": _CHUNKED + b"1\na\r\n0\r\n\r\n",
    "an extension with LF alone": _CHUNKED + b"1;x\na\r\n0\r\n\r\n",
    "an extension with a NUL": _CHUNKED + b"1;x\x00\r\na\r\n0\r\n\r\n",
    "a chunk longer than its size": _CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "a chunk that LF ends": _CHUNKED + b"1\r\na\n0\r\n\r\n",
    "a chunk that nothing ends": _CHUNKED + b"1\r\na0\r\n\r\n",
    "a trailer with a NUL": _CHUNKED + b"0\r\nx: \x00\r\n\r\n",
    "a trailer without a colon": _CHUNKED + b"0\r\nx\r\n\r\n",
    "a trailer with a length": _CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n",
    "a trailer with an encoding": _CHUNKED + b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "a trailer that closes": _CHUNKED + b"0\r\nConnection: close\r\n\r\n",
    "a trailer that closes, for a proxy": _CHUNKED + b"0\r\nproxy-connection: close\r\n\r\n",
    "a trailer that offers": _CHUNKED + b"0\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "a trailer that offers first": _CHUNKED + b"0\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    "a bad size behind an offer": _CHUNKED.replace(b"host", b"connection: upgrade\r\nupgrade: h2c\r\nhost")
    + b"1\r\nab\r\n0\r\n\r\n",
}


class Request(NamedTuple):
    method: str
    path: str
    body: bytes
    headers: frozenset[tuple[bytes, bytes]] = frozenset()


class Stream(NamedTuple):
    sent: bytes
    requests: list[Request]  # requests that must run
    refused: bool  # whether a 400 follows
    ends: bool  # whether the server closes the connection
    half: bool = False  # whether the last request may have started although it was refused


def stream(chance: random.Random, *, limit: int = 5) -> Stream:
    """Return a few requests. Sometimes one of them ends the connection, and the requests after it must not run."""
    sent, requests = b"", []
    for number in range(chance.randint(1, limit)):
        if chance.random() < 0.06:
            return _broken(chance, sent, requests)
        raw, request, last = _request(chance, number)
        sent += b"\r\n" * (chance.random() < 0.1) + raw
        requests.append(request)
        if last:
            return Stream(sent + _behind(chance), requests, refused=False, ends=True)
    return Stream(sent, requests, refused=False, ends=False)


def _broken(chance: random.Random, sent: bytes, requests: list[Request]) -> Stream:
    half = chance.random() < 0.3
    raw = chance.choice([*(BROKEN_BODIES if half else BROKEN).values()])
    return Stream(sent + raw + _behind(chance), requests, refused=True, ends=True, half=half)


def _behind(chance: random.Random) -> bytes:
    return chance.choice([b"", b"\r\n", *_HARMFUL])


def _request(chance: random.Random, number: int) -> tuple[bytes, Request, bool]:
    old = chance.random() < 0.05
    method = chance.choice(_METHODS)
    path = f"/{'early' if chance.random() < 0.15 else 'late'}/{number}"
    headers, body, raw = _framed(chance, old=old)
    closes = chance.random() < 0.05
    if closes:
        headers.append(b"Connection: close")
    elif chance.random() < 0.4:
        headers += chance.choice(_OFFERS)
    if raw and not old and chance.random() < 0.2:
        headers.append(b"Expect: 100-continue")
    headers += [b"x-more: %s" % bytes(chance.randrange(97, 123) for _ in range(chance.randrange(40)))]
    headers.append(b"Host: a")
    chance.shuffle(headers)
    target = f"http://A:80{path}" if chance.random() < 0.05 else path
    line = f"{method} {target} HTTP/1.{0 if old else 1}".encode()
    request = Request(method, path, body, frozenset(map(_named, headers)))
    return b"\r\n".join([line, *headers, b"", raw]), request, closes or old


def _named(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.lower(), value.strip()


def _framed(chance: random.Random, *, old: bool) -> tuple[list[bytes], bytes, bytes]:
    """Return the headers, the body, and the body as it is sent."""
    if chance.random() < 0.35:
        return [*chance.choice(_BODILESS)], b"", b""
    parts = [chance.choice(_HARMFUL) for _ in range(chance.randrange(4))]
    body = b"".join(parts)
    if old or chance.random() < 0.5:
        return [b"Content-Length: %d" % len(body)], body, body
    raw = b"".join(b"%x%s\r\n%s\r\n" % (len(part), chance.choice(_EXTENSIONS), part) for part in parts)
    ended = b"0" + chance.choice(_EXTENSIONS) + b"\r\n" + chance.choice(_TRAILERS) + b"\r\n"
    name = chance.choice([b"Transfer-Encoding: chunked", b"transfer-encoding:  Chunked "])
    return [name], body, raw + ended


_ODD = b"\r\n\x00 :,;\t0aAf-+\xff\x0b/"
_PUT_IN = (
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"0\r\n\r\n", b" "),
    *(b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n"),
)


def marred(chance: random.Random, sent: bytes) -> bytes:
    """Change, drop, insert or repeat a few bytes at random. Which requests are still valid is then unknown."""
    made = bytearray(sent)
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(made)), chance.randrange(len(made))
        match chance.randrange(4):
            case 0:
                made[at] = chance.choice(_ODD)
            case 1:
                del made[at : at + chance.randint(1, 3)]
            case 2:
                made[at:at] = chance.choice(_PUT_IN)
            case _:
                made[at:at] = made[other : other + chance.randint(1, 30)]
    return bytes(made)


def cut(chance: random.Random, sent: bytes) -> list[bytes]:
    """Cut the bytes at random places, often inside a line ending."""
    ends = [at + by for at in range(len(sent)) if sent[at : at + 1] == b"\r" for by in (0, 1, 2)]
    wanted = chance.choice([1, 2, 4, len(sent)])
    places = {
        chance.choice(ends) if ends and chance.random() < 0.6 else chance.randrange(len(sent)) for _ in range(wanted)
    }
    edges = [0, *sorted(places - {0, len(sent)}), len(sent)]
    return [sent[start:end] for start, end in pairwise(edges)]
