"""`hookline demo` starts within seconds, listens on loopback only and leaves no files."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hookline.cli.demo import command as demos
from hookline.cli.demo import scenario
from hookline.cli.demo.scenario import CUSTOMERS, EVENT_TYPES, Request
from hookline.cli.demo.traffic import Api
from tests.support.ports import free_port
from tests.support.processes import environment


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run `hookline demo` while the settings name another deployment. The demo must not use that deployment."""
    env = environment("postgresql://127.0.0.1:1/mine", TMPDIR=str(directory))
    command = [sys.executable, "-m", "hookline", "demo", "--json", "--port", "0", "--rate", "50", *arguments]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def call(shown: dict[str, Any], path: str) -> Any:
    with closing(http.client.HTTPConnection(urlsplit(shown["address"]).netloc, timeout=60)) as connection:
        connection.request("GET", f"/api/v1{path}", headers={"authorization": f"Bearer {shown['token']}"})
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())


def test_the_demo_delivers_and_leaves_no_files(tmp_path: Path) -> None:
    with demo(tmp_path) as (process, shown):
        assert [each["uid"] for each in call(shown, "/app")["data"]] == [each.uid for each in CUSTOMERS]
        assert urlsplit(shown["dashboard"]).fragment.startswith("token=hk_")
        assert urlsplit(shown["portal"]).fragment.startswith("key=")
        for customer in CUSTOMERS:
            for endpoint in call(shown, f"/app/{customer.uid}/endpoint")["data"]:
                assert urlsplit(endpoint["url"]).hostname == "127.0.0.1"
        while not call(shown, "/dead-letter/stats")["dead"]:
            assert process.poll() is None
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0
        assert "Fatal" not in said
    assert list(tmp_path.iterdir()) == []


def test_the_server_ends_with_the_demo(tmp_path: Path) -> None:
    with demo(tmp_path) as (process, shown):
        process.kill()
        host, port = urlsplit(shown["address"]).netloc.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
            except ConnectionError:  # The connection is refused, or the server closed it because it is stopping.
                break
            time.sleep(0.05)  # The server is not a child of this process, so the test has to poll.


def test_the_demo_ends_after_the_given_time(tmp_path: Path) -> None:
    with demo(tmp_path, "--for", "1s") as (process, _shown):
        assert process.wait(120) == 0
    assert list(tmp_path.iterdir()) == []


def test_another_port_is_taken_if_the_given_one_is_in_use() -> None:
    with demos.bind(port := int(free_port())) as first, demos.bind(port) as second:
        assert first.getsockname()[1] == port
        assert second.getsockname()[1] not in (0, port)


async def test_a_connection_that_the_server_closed_while_idle_is_replaced() -> None:
    """A server closes a connection after some idle seconds, for example between two messages or while the machine is
    suspended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_once_a_connection, args=(listener, 2), daemon=True)
        server.start()
        api = Api(f"http://127.0.0.1:{listener.getsockname()[1]}", "hk_token")
        assert [await api.post("/app"), await api.post("/app")] == [{}, {}]
        server.join(60)


def answer_once_a_connection(listener: socket.socket, connections: int) -> None:
    for _ in range(connections):
        connection, _ = listener.accept()
        with connection:
            received = b""
            while not received.endswith(b"\r\n\r\n{}"):
                received += connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


def a_request(**fields: Any) -> Request:
    given = {"elapsed": 7.0, "recent": 1, "event_type": "order.paid", "chance": random.Random(3)}
    return Request(**(given | fields))


def test_the_behaviour_of_each_receiver() -> None:
    assert scenario.behaves(a_request()).status == 200
    assert scenario.is_slow(a_request()).after > 0.5
    assert scenario.hangs(a_request()).after == scenario.HANGS
    assert [scenario.throttles(a_request(recent=many)).status for many in (1, 2)] == [200, 429]
    assert scenario.refuses_invoices(a_request()).status == 200
    assert scenario.refuses_invoices(a_request(event_type="invoice.created")).status == 422
    assert scenario.has_gone(a_request()).status == 410
    over_time = [scenario.recovers(a_request(elapsed=at)).status for at in (0.0, 179.0, 181.0, 361.0)]
    assert over_time == [503, 503, 200, 503]
    chance = random.Random(5)
    assert {scenario.flickers(a_request(chance=chance)).status for _ in range(50)} == {200, 500}


def test_each_event_matches_its_schema() -> None:
    import jsonschema_rs

    for what in EVENT_TYPES:
        validator = jsonschema_rs.validator_for(what.schema)
        for number in range(20):
            validator.validate(what.make(random.Random(number), number))


def test_events_are_spread_over_customers() -> None:
    chance = random.Random(1)
    assert {scenario.choose(chance, CUSTOMERS).uid for _ in range(200)} == {each.uid for each in CUSTOMERS}
