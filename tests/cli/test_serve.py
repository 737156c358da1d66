"""`hookline serve`, `hookline worker` and `hookline listen` as processes, and the example of the README."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import sys
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest

from hookline.cli.listen_server import Behaviour, command
from hookline.errors import ConfigError, InvalidInput
from hookline.server.supervise import Supervisor
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.scene import Scene


@both_engines
async def test_a_webhook_arrives_verified_in_two_terminals(cli: Cli) -> None:
    served = cli.using(HOOKLINE_PORT=free_port())
    async with served.running("serve", "--json") as server:
        banner = await server.json_line()
        async with cli.running("listen", "--port", "0", "--register", "demo", "--ping", "--json") as listener:
            shown = await listener.json_line()
            control = shown["control"]
            assert shown["verifies"]
            ping = await listener.json_line()
            assert (ping["eventType"], ping["verified"], ping["status"]) == ("hookline.ping", True, 200)

            sent = await cli.json("send", "demo", "order.paid", "--data", '{"id": 7}', "--wait", "60")
            assert [each["state"] for each in sent["states"]] == ["delivered"]
            arrival = await listener.json_line()
            assert (arrival["webhookId"], arrival["body"], arrival["verified"]) == (sent["id"], '{"id": 7}', True)

            listener.type("status 404")
            while await asyncio.to_thread(_behaviour, control) != 404:
                await asyncio.sleep(0.05)  # The process of the listener reads the typed command.
            rejected = await cli("send", "demo", "order.paid", "--wait", "60", "--json")
            assert rejected.code == 1, rejected
            assert (await listener.json_line())["status"] == 404
        assert banner["address"].startswith("http://127.0.0.1:")
        stopped = await server.stop(signal.SIGTERM)
        assert stopped.code == 0, stopped


async def test_the_printed_example_command_works(cli: Cli) -> None:
    served = cli.using(HOOKLINE_PORT=free_port())
    async with served.running("serve") as server:
        line = (await server.line_with("  try  ")).strip().removeprefix("try").strip()
        for _ in range(2):
            tried = await asyncio.create_subprocess_shell(
                f"{line} --silent --fail", stdout=asyncio.subprocess.PIPE, env=cli.environment, cwd=cli.directory
            )
            out, _err = await tried.communicate()
            assert tried.returncode == 0
            assert b'"uid":"demo"' in out


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_links_ignore_the_host_header_of_the_request(cli: Cli, scene: Scene, host: str) -> None:
    async with cli.using(HOOKLINE_PORT=free_port(), HOOKLINE_HOST=host).running("serve", "--json") as server:
        address = (await server.json_line())["address"]
        token = (await cli("token")).out.strip()
        found = await asyncio.to_thread(_portal_link, address, scene.app.id, token)
    assert found[0] == 409
    assert b"evil.example" not in found[1]
    assert b"HOOKLINE_PUBLIC_URL" in found[1]


def _portal_link(address: str, app: str, token: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)) as connection:
        headers = {"authorization": f"Bearer {token}", "host": "evil.example"}
        connection.request("POST", f"/api/v1/auth/app-portal-access/{app}", b"", headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


async def test_a_port_in_use_gives_a_one_line_error(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        (await cli.using(HOOKLINE_PORT=port)("serve")).refused(2, port, "in use")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_worker_ends_cleanly(cli: Cli, scene: Scene, number: signal.Signals) -> None:
    async with cli.running(
        "listen", "--port", "0", "--register", scene.app.id, "--ping", "--count", "1", "--json"
    ) as listener:
        await listener.json_line()
        async with cli.running("worker") as worker:
            assert (await listener.json_line())["verified"]  # A webhook has arrived, so the worker is running.
            stopped = await worker.stop(number)
    assert stopped.code == 0, stopped
    assert "Traceback" not in stopped.err


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_several_processes_deliver_and_stop_together(cli: Cli, scene: Scene) -> None:
    async with cli.using(HOOKLINE_PORT=free_port()).running("serve", "--processes", "2", "--json") as server:
        assert (await server.json_line())["processes"] == 2
        async with cli.running("listen", "--port", "0", "--register", scene.app.id, "--ping", "--json") as listener:
            await listener.json_line()
            assert (await listener.json_line())["verified"]
        stopped = await server.stop(signal.SIGTERM)
        assert stopped.code == 0, stopped


# ── supervision, with scripts in place of workers ─────────────────────────────────────────────────────────────────


async def test_a_process_that_exits_is_started_again(tmp_path: Path) -> None:
    """The script exits at its first start and keeps running at its second. It connects to a socket of the test each
    time it starts."""
    born: asyncio.Queue[None] = asyncio.Queue()
    server = await asyncio.start_server(lambda _r, w: (born.put_nowait(None), w.close()), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = f"""
import pathlib, signal, socket, sys
socket.create_connection(("127.0.0.1", {port})).close()
mark = pathlib.Path({str(tmp_path / "died")!r})
if not mark.exists():
    mark.touch()
    sys.exit(1)
signal.sigwait([signal.SIGTERM])
"""
    stop = asyncio.Event()
    running = asyncio.create_task(Supervisor(1, grace=5, command=(sys.executable, "-c", script)).run(stop))
    await born.get()
    await born.get()
    stop.set()
    await running
    server.close()


async def test_a_process_that_refuses_its_configuration_ends_the_supervisor(tmp_path: Path) -> None:
    supervisor = Supervisor(2, grace=5, command=(sys.executable, "-c", "import sys; sys.exit(2)"))
    with pytest.raises(ExceptionGroup) as caught:
        await supervisor.run(asyncio.Event())
    assert caught.group_contains(ConfigError)


# ── listen ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_listen_reports_whether_a_signature_is_valid(cli: Cli, scene: Scene) -> None:
    async with cli.running("listen", "--port", "0", "--secret", "whsec_" + "A" * 32, "--json") as listener:
        address = (await listener.json_line())["listening"].removeprefix("http://")
        headers = {"webhook-id": "msg_1", "webhook-timestamp": "1700000000", "webhook-signature": "v1,Zm9yZ2Vk"}
        status = await asyncio.to_thread(_post, address, "/hooks", b'{"id": 1}', headers)

        arrival = await listener.json_line()
        assert status == 200
        assert arrival["verified"] is False
        assert arrival["problem"]


async def test_the_answers_of_listen_can_be_changed_while_it_runs(cli: Cli) -> None:
    async with cli.running("listen", "--port", "0", "--status", "503", "--json") as listener:
        address = (await listener.json_line())["listening"].removeprefix("http://")
        assert await asyncio.to_thread(_post, address, "/", b"{}", {}) == 503
        assert await asyncio.to_thread(_post, address, "/_hookline/behaviour", b'{"failRate": 1}', {}) == 200
        assert await asyncio.to_thread(_post, address, "/", b"{}", {}) == 500
        assert await asyncio.to_thread(_post, address, "/_hookline/behaviour", b'{"status": 99}', {}) == 422
        for page in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert await asyncio.to_thread(_post, address, "/_hookline/behaviour", b'{"status": 404}', page) == 403
        assert await asyncio.to_thread(_post, address, "/", b"{}", {}) == 500
        arrivals = [await listener.json_line() for _ in range(3)]
        assert [each["status"] for each in arrivals] == [503, 500, 500]
        stopped = await listener.stop(signal.SIGINT)
    assert stopped.code == 0, stopped
    assert "Traceback" not in stopped.err


def _behaviour(control: str) -> int:
    """Ask the URL `control` for the status that the receiver answers with from now on."""
    with urlopen(control, timeout=60) as answer:
        status: int = msgspec.json.decode(answer.read())["status"]
    return status


def _post(address: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_commands_that_listen_reads() -> None:
    behaviour = command(command(Behaviour(), "status 503"), "delay 0.5")
    assert behaviour == Behaviour(status=503, delay=0.5)
    assert command(behaviour, "fail 0.25").fail_rate == 0.25
    assert command(behaviour, "ok") == Behaviour()
    for line in ("status abc", "status 99", "fail 2", "delay -1", "dance"):
        with pytest.raises(InvalidInput):
            command(behaviour, line)
