"""A receiver on loopback as a customer would write it. It verifies with the SDK and answers as the check demands."""

from __future__ import annotations

import json
import queue
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from svix.webhooks import Webhook, WebhookVerificationError

PATIENCE = 60.0


class Arrival(NamedTuple):
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    def verified_by(self, secret: str) -> bool:
        try:
            Webhook(secret).verify(self.body, self.headers)
        except WebhookVerificationError:
            return False
        return True


class Receiver:
    def __init__(self) -> None:
        self._arrivals: defaultdict[str, queue.Queue[Arrival]] = defaultdict(queue.Queue)
        self._answers: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(lambda: [(200, b"thanks")])
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def answer(self, path: str, *answers: tuple[int, bytes]) -> None:
        """Set the answers to the next requests for `path`, in order. The last answer stays."""
        self._answers[path] = list(answers)

    def next(self, path: str) -> Arrival:
        """Wait for the next request for this path and return it."""
        try:
            return self._arrivals[path].get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"nothing arrived at {path} in {PATIENCE:.0f} s") from None

    def nothing_more(self, path: str) -> bool:
        return self._arrivals[path].empty()

    def _received(self, path: str, arrival: Arrival) -> tuple[int, bytes]:
        self._arrivals[path].put(arrival)
        answers = self._answers[path]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        received = self._received

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, answer = received(self.path, Arrival(headers, body))
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        return Handler
