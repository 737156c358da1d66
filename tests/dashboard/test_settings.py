"""The page of settings: every setting, no secrets, and only for the operators of the deployment."""

from __future__ import annotations

import pytest

from hookline import __version__, ids
from hookline.config import SETTINGS
from hookline.model.actors import Scope
from hookline.model.operators import Operator
from hookline.store import Store
from tests.api.conftest import JWT_SECRET
from tests.dashboard.conftest import Client, Enter
from tests.support import factory

TOKEN = "a token that nobody may ever see"
SLACK = "https://hooks.example.com/services/secret-of-slack"


@pytest.fixture
def settings() -> dict[str, str]:
    return {
        "HOOKLINE_METRICS_TOKEN": TOKEN.replace(" ", "-"),
        "HOOKLINE_ALERT_SLACK_URL": SLACK,
        "HOOKLINE_SMTP_URL": "smtp://postman:hunter2hunter2@mail.example.com:587",
        "HOOKLINE_ALERT_EMAIL": "ops@example.com",
        "HOOKLINE_LEASE": "90",
        "HOOKLINE_ALERT_BACKLOG": "off",
    }


async def test_every_setting_is_there_and_no_secret(chief: Client, database_url: str) -> None:
    shown = await chief.get("/settings")
    page = shown.page()
    rows = {row[0]: row for row in page.all("section")[-1].rows()}
    assert {f"HOOKLINE_{name}" for name in rows} == {setting.variable for setting in SETTINGS}
    for secret in (JWT_SECRET, TOKEN.replace(" ", "-"), "secret-of-slack", "hunter2", "postman", database_url):
        assert secret not in shown.text
    for setting in SETTINGS:
        if setting.secret:
            assert rows[setting.variable.removeprefix("HOOKLINE_")][1] in ("set", "not set")
    assert rows["SECRET_KEY"][1] == rows["JWT_SECRET"][1] == rows["SMTP_URL"][1] == "set"
    assert rows["ALERT_WEBHOOK_URL"][1] == "not set"


async def test_values_have_the_form_in_which_they_are_set(chief: Client) -> None:
    page = await chief.page("/settings")
    rows = {row[0]: row[1:3] for row in page.all("section")[-1].rows()}
    assert rows["LEASE"] == ["90s", "60s"]
    assert rows["ALERT_BACKLOG"] == ["off", "1000"]
    assert rows["ALLOW_NETS"] == ["127.0.0.0/8", ""]
    assert rows["MAX_PAYLOAD"][0] == "64KiB"
    assert rows["LANE_SHARE"] == ["0.25", "0.25"]
    assert rows["PUBLIC_URL"] == ["none", ""]
    bold = {each.text for each in page.all("b")}
    assert {"90s", "off", "64KiB"} <= bold
    assert "0.25" not in bold


async def test_version_engine_and_schema(chief: Client, store: Store) -> None:
    page = await chief.page("/settings")
    facts = dict(zip([each.text for each in page.all("dt")], [each.text for each in page.all("dd")], strict=True))
    assert facts["Version"] == __version__
    assert facts["Database"] == {"sqlite": "SQLite", "postgres": "PostgreSQL"}[store.engine]
    assert facts["Schema"] == str(await store.version())


async def test_operators_are_for_those_who_may_change_something(chief: Client, enter: Enter, store: Store) -> None:
    assert "hookline operators add" in (await chief.page("/settings")).text
    await store.access.create_operator(
        Operator(
            name="ada<b>",
            org_id=ids.DEFAULT_ORG,
            role=Scope.READ,
            password="scrypt$not-a-password",
            created_at=factory.instant(),
        )
    )
    shown = await chief.get("/settings")
    row = shown.page().all("section")[0].rows()[0]
    assert row[:2] == ["ada<b>", "read only"]
    assert "ada&lt;b&gt;" in shown.text
    assert "not-a-password" not in shown.text
    reader = await enter(org_id=ids.DEFAULT_ORG, scope=Scope.READ)
    # Not only "ada": the random token of a form has 64 hexadecimal digits, and 1 in 66 tokens contains these letters.
    assert "ada&lt;b&gt;" not in (await reader.get("/settings")).text


async def test_other_organizations_and_customers_do_not_see_them(operator: Client, portal: Client) -> None:
    assert (await operator.get("/settings")).status == 403
    assert (await portal.get("/portal/settings")).status == 404
    assert not (await operator.page("/")).has("a", href="/settings")
