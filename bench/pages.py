"""Response times of every page of the dashboard and the portal, with a million messages in the store and with a thousand.

Two servers run with `serve --role api`, so that no data changes, and answer in turn. The server with a million
messages should be slower only if a page has more to show. The goal is met if the median of every page is below 100 ms.

python -m bench.pages [--messages N] [--rounds N] [--engines sqlite postgres] [--only TEXT]
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.ground import database, opened
from bench.history import Past, load
from hookline import clock, ids
from hookline.dashboard import pages
from hookline.dashboard.page_context import PORTAL
from hookline.model.actors import Scope
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.security import tokens
from hookline.store import Store
from tests.dashboard.client import Client
from tests.support.ports import free_port
from tests.support.processes import environment, running
from tests.support.services import add_key
from tests.support.serving import announced

FEW = 1_000
MOST = 0.100  # largest allowed median in seconds

# Pages that are not measured, because they download a file or redirect.
LEFT_OUT = {
    "/dead-letters/export",
    "/dead-letters/{dead_letter_id}",
    "/messages/{message_id}/payload",
    "/endpoints/{endpoint_id}/secret",
    "/endpoints/{endpoint_id}/secret/rotate",
    "/applications/{app_id}/portal-link",
}

# Query parameters that a page requires.
NEEDED: dict[str, dict[str, str]] = {
    "/dead-letters/replay": {"all": "1"},
    "/dead-letters/resolve": {"all": "1"},
}

# Typical filters of pages, and filters with few results.
QUERIES: dict[str, list[dict[str, str]]] = {
    "/": [{"range": "7d"}, {"app": "{app_id}"}],
    "/messages": [
        {"app": "{app_id}"},
        {"app": "{app_id}", "state": "dead"},
        {"app": "{app_id}", "state": "open"},
        {"state": "none"},
        {"type": "invoice.created"},
        {"app": "{app_id}", "tag": "vip"},
        {"channel": "shop-3"},
        {"q": "{event_id}", "app": "{app_id}"},
    ],
    "/dead-letters": [
        {"app": "{app_id}"},
        {"endpoint": "{endpoint_id}"},
        {"reason": "permanent_failure"},
        {"state": "all"},
    ],
    "/endpoints": [{"app": "{app_id}"}, {"state": "held"}, {"range": "7d"}],
    "/endpoints/{endpoint_id}": [{"range": "7d"}],
}


class Site(Struct):
    """One server, with the cookies of a signed-in user."""

    address: str
    names: dict[str, str]  # values of path parameters, by name
    cookies: dict[bool, str]  # True: for the portal, False: for the dashboard
    connection: http.client.HTTPConnection

    def path(self, asked: Asked) -> str:
        query = {name: value.format(**self.names) for name, value in asked.query.items()}
        return asked.path.format(**self.names) + (f"?{urlencode(query)}" if query else "")

    def time(self, asked: Asked) -> tuple[float, int]:
        """Request a page and return the seconds that it took and its size in bytes."""
        began = clock.monotonic()
        self.connection.request("GET", self.path(asked), headers={"cookie": self.cookies[asked.portal]})
        answer = self.connection.getresponse()
        body = answer.read()
        seconds = clock.monotonic() - began
        if answer.status != 200:
            sys.exit(f"{self.path(asked)}: {answer.status} {body[:300]!r}")
        return seconds, len(body)


class Asked(Struct, frozen=True, kw_only=True):
    path: str
    query: dict[str, str] = {}
    portal: bool = False

    @property
    def words(self) -> str:
        return self.path + (
            "?" + "&".join(f"{name}={value}" for name, value in self.query.items()) if self.query else ""
        )


def every_page() -> list[Asked]:
    found = []
    for view in pages.VIEWS:
        if view.path in LEFT_OUT:
            continue
        needed = NEEDED.get(view.path, {})
        found += [Asked(path=view.path, query=needed | query) for query in ({}, *QUERIES.get(view.path, []))]
        if view.portal:
            found.append(Asked(path=PORTAL + view.path.rstrip("/"), query=needed, portal=True))
    return found


def main() -> None:
    options = _options()
    console = Console(width=130)
    asked = [each for each in every_page() if options.only in each.words]
    slow = False
    for engine in options.engines:
        with ExitStack() as stack:
            sizes = (FEW, options.messages)
            sites = [uvloop.run(_site(stack, engine, size, console)) for size in sizes]
            slow |= _measure(engine, sites, asked, options.rounds, console)
    console.print("NOT MET" if slow else "met", f": every page in less than {MOST * 1000:.0f} ms", sep="")
    sys.exit(int(slow))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages in the larger store (1,000,000)")
    parser.add_argument("--rounds", type=int, default=15, help="requests of every page, interleaved (15)")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--only", default="", help="only pages whose path contains this text")
    return parser.parse_args()


async def _site(stack: ExitStack, engine: str, messages: int, console: Console) -> Site:
    url = stack.enter_context(database(engine))
    env = environment(url, HOOKLINE_PORT=free_port())
    store = await opened(url, env)
    try:
        past = await load(store, url, messages, console)
        names = await _names(store, past)
    finally:
        await store.close()
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    process = stack.enter_context(running(["serve", "--role", "api", "--json"], env, directory / "log"))
    address = announced(process).removeprefix("http://")
    cookies = {portal: await _signed_in(address, env, past, portal=portal) for portal in (False, True)}
    return Site(address, names, cookies, http.client.HTTPConnection(address, timeout=60))


async def _names(store: Store, past: Past) -> dict[str, str]:
    key, _ = await add_key(store, ids.DEFAULT_ORG, name="checkout", scope=Scope.PUBLISH, app=None, expires_at=None)
    task = await store.repair.add_task(
        NewTask(org_id=ids.DEFAULT_ORG, app_no=past.app.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())
    )
    attempt, *_ = await store.history.attempts(past.message_id)
    return {
        "app_id": past.app.id,
        "endpoint_id": past.endpoint.id,
        "message_id": past.message_id,
        "attempt_id": attempt.id,
        "event_id": past.event_id,
        "name": "order.paid",
        "task_id": task.id,
        "key_id": key.id,
    }


async def _signed_in(address: str, env: dict[str, str], past: Past, *, portal: bool) -> str:
    app_id = past.app.id if portal else None
    token = tokens.issue(env["HOOKLINE_JWT_SECRET"], ids.DEFAULT_ORG, app_id=app_id, now=clock.wall())
    client = Client(address, portal=portal)
    await client.sign_in(token=token)
    return "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())


def _measure(engine: str, sites: list[Site], asked: list[Asked], rounds: int, console: Console) -> bool:
    times: dict[tuple[str, int], list[float]] = {}
    sizes: dict[str, int] = {}
    for round_ in range(rounds + 1):
        for each in asked:
            for at, site in enumerate(sites):
                seconds, sizes[each.words] = site.time(each)
                if round_:  # the first round is a warm-up
                    times.setdefault((each.words, at), []).append(seconds)
    table = Table("page", "KB", "few: median ms", "many: median ms", "most ms", title=f"{engine}, {rounds} rounds")
    slow = False
    for each in asked:
        few, many = (statistics.median(times[each.words, at]) for at in (0, 1))
        slow |= many >= MOST
        mark = " ✕" if many >= MOST else ""
        most = max(times[each.words, 1])
        table.add_row(
            each.words,
            *(f"{value:.1f}" for value in (sizes[each.words] / 1000, few * 1000)),
            f"{many * 1000:.1f}{mark}",
            f"{most * 1000:.1f}",
        )
    console.print(table)
    return slow


if __name__ == "__main__":
    main()
