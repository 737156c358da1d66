"""Texts of alerts. Code, configuration and documentation have the same rules and defaults, and a tenant's text cannot
inject markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hookline import config, ids
from hookline.model.alerts import OTHERS, Alert, AlertName, Notice, Severity
from hookline.rules.alerts import wording
from hookline.rules.alerts.conditions import RULES, Thresholds
from hookline.rules.alerts.wording import Channels

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "alerts.md"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def alert(name: str = "circuit_open", subject: str = "ep_17", text: str = "text") -> Alert:
    return Alert(
        id=1,
        name=name,
        subject=subject,
        severity=Severity.WARNING,
        began_at=AT,
        fired_at=AT,
        value=1,
        threshold=0,
        text=text,
    )


def test_the_documentation_lists_exactly_the_existing_alerts() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("<!-- alerts -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"^\|(.*?)\| .* \| `(HOOKLINE_\w+)` \| (\S+) \|$", table, re.MULTILINE)
    assert {name.split("`")[1] for name, _, _ in rows if name.strip()} == set(AlertName)
    documented = {setting: default for _, setting, default in rows}
    of_rules = {
        setting.variable: setting.default
        for setting in config.SETTINGS
        if setting.field.removeprefix("alert_") in Thresholds.__struct_fields__
    }
    assert documented == of_rules


def test_every_rule_names_a_command_to_investigate() -> None:
    assert set(RULES) == set(AlertName)
    for name in AlertName:
        assert re.fullmatch(r"hookline [a-z ]+( ep_17| --all-orgs)?", wording.command(alert(name.value)))
        assert wording.command(alert(name.value, OTHERS)) == "hookline top"
    assert wording.command(alert("a rule of tomorrow")) == "hookline doctor"


def test_the_command_to_investigate_names_an_organization_other_than_the_default() -> None:
    assert wording.command(replace(alert(), org_id=ids.DEFAULT_ORG)) == "hookline endpoints show ep_17"
    elsewhere = replace(alert(), org_id="org_9")
    assert wording.command(elsewhere) == "hookline endpoints show ep_17 --org org_9"
    assert wording.command(replace(elsewhere, subject=OTHERS)) == "hookline top"
    said = wording.lines(Notice(alert=elsewhere, at=AT), None)[1]
    assert said.endswith("Details: hookline endpoints show ep_17 --org org_9")


def test_slack_gets_plain_text_without_markup() -> None:
    notice = Notice(alert=alert(text="<!channel> & <https://evil.example|click>"), at=AT)
    (sent,) = wording.outgoing(notice, Channels(slack_url="https://s.example.com/x"))
    said = msgspec.json.decode(sent.payload)["text"]
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;" in said
    assert "<" not in said


@pytest.mark.parametrize("subject", ["ep_17\r\nBcc: all@example.com", "ep_17\nBcc: all@example.com"])
def test_no_subject_can_add_a_mail_header(subject: str) -> None:
    channels = Channels(emails=("a@example.com",), email_from="b@example.com")
    with pytest.raises(ValueError, match="Header values may not contain"):
        wording.mail(Notice(alert=alert(subject=subject), at=AT), channels)


def test_the_repr_of_channels_hides_their_addresses() -> None:
    channels = Channels(
        webhook_url="https://w.example.com/hunter2",
        slack_url="https://s.example.com/hunter2",
        emails=("a@example.com",),
        smtp_url="smtp://u:hunter2@mail",
    )
    assert repr(channels) == "Channels(webhook, slack, email)"
    assert repr(Channels()) == "Channels(log)"


def test_each_change_of_an_alert_is_a_separate_message() -> None:
    """An alert that is critical, then a warning, then critical again sends two critical messages. The second is no
    duplicate."""
    channels = Channels(webhook_url="https://w.example.com/x")
    turns = [
        Notice(alert=replace(alert(), severity=Severity.CRITICAL), at=AT + timedelta(hours=hour)) for hour in (0, 2)
    ]
    assert len({wording.outgoing(turn, channels)[0].event_id for turn in turns}) == 2
