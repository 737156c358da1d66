"""The settings section of the endpoint page: subscription, limits, retries, headers and secret."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from hookline.dashboard import components
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.controls import path
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint, OnDeath, Ordering, Scheme
from hookline.model.policy import PolicyOverride, RetryPolicy
from hookline.rules.checks.text import lasting
from hookline.rules.redaction import is_sensitive
from hookline.web.html import Child, Safe, join, tag

ORDERINGS = {
    Ordering.NONE: "None: ordering keys are ignored",
    Ordering.KEY: "By key: messages with the same ordering key are sent one at a time",
    Ordering.FIFO: "FIFO: all messages are sent one at a time, in the order of acceptance",
}
AFTER_DEAD_LETTER = {
    OnDeath.SKIP: "Skip: the deliveries behind a dead letter continue",
    OnDeath.BLOCK: "Block: the deliveries behind a dead letter wait until it is replayed or resolved",
}
SCHEMES = {
    Scheme.STANDARD: "Standard Webhooks",
    Scheme.SVIX: "Svix header names",
    Scheme.HEX: "Hex: v1=<hex> over timestamp.body",
    Scheme.GITHUB: "GitHub style",
    Scheme.STRIPE: "Stripe style",
}
OVERLAPS = {"86400": "for 1 day", "3600": "for 1 hour", "604800": "for 7 days", "0": "not at all"}

_SECONDS = ("base", "cap", "max_age", "retry_after_cap")


def section(context: PageContext, found: Endpoint, app: Application) -> Safe:
    application: Child = None
    if not context.viewer.portal:
        application = tag("a", app.name, href=context.link(f"/applications/{app.id}"))
    rows: list[tuple[str, Child]] = [
        ("URL", components.ident(found.url, most=100)),
        ("Id", components.ident(found.id)),
        ("Uid", None if found.uid is None else components.ident(found.uid)),
        ("Application", application),
        ("Event types", _types(context, found.event_types)),
        ("Channels", ", ".join(found.channels) if found.channels else "all messages"),
        ("Throttle", "none" if found.throttle_rate is None else f"{found.throttle_rate:g} requests per second"),
        ("Requests in flight", "no own limit" if found.concurrency is None else f"at most {found.concurrency:,}"),
        ("Order", ORDERINGS[found.ordering]),
        ("After a dead letter", None if found.ordering == Ordering.NONE else AFTER_DEAD_LETTER[found.on_death]),
        ("Retries", retries(found.policy, context.services.retry)),
        ("Headers", _headers(found)),
        ("Metadata", _pairs(found.metadata) if found.metadata else None),
        ("Created", components.clock(found.created_at)),
        ("Changed", components.clock(found.updated_at)),
    ]
    edit = None
    if context.may_change:
        edit = components.actions(
            components.link_button(context.link(path(found, "/edit")), "Edit"),
            components.link_button(context.link(path(found, "/headers")), "Headers"),
        )
    return components.section("Settings", components.fields(rows), aside=edit, id_="settings")


def _types(context: PageContext, chosen: Sequence[str] | None) -> Safe | str:
    if chosen is None:
        return "all"
    links: list[Child] = []
    for name in chosen:
        links += [", " if links else None, tag("a", name, href=context.link(f"/event-types/{name}"))]
    return join(*links)


def retries(override: PolicyOverride | None, deployed: RetryPolicy) -> str:
    """Describe the retries of this endpoint: attempts and time limit, then the other settings that it overrides."""
    given = {} if override is None else {name: value for name, value in asdict(override).items() if value is not None}
    attempts = given.pop("max_attempts", deployed.max_attempts)
    age = given.pop("max_age", deployed.max_age)
    words = f"up to {components.count(attempts, 'attempt')} in {_duration(age)}"
    return ", ".join([words, *(_setting(name, value) for name, value in given.items())])


def _setting(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if name == "schedule" and isinstance(value, tuple):
        return f"{words} {', '.join(_duration(each) for each in value)}"
    if name in _SECONDS and isinstance(value, float | int):
        return f"{words} {_duration(value)}"
    return f"{words} {value:g}" if isinstance(value, float) else f"{words} {value}"


def _duration(seconds: float) -> str:
    """Format a duration. Below one minute, fractions of a second are shown too."""
    return f"{seconds:g} s" if seconds < 60 else lasting(seconds)


def _headers(found: Endpoint) -> Safe | str:
    if not found.headers:
        return "none"
    return _pairs({name: "(not shown)" if is_sensitive(name) else value for name, value in found.headers.items()})


def _pairs(found: dict[str, str]) -> Safe:
    return join(*(tag("div", tag("code", f"{name}: {value}")) for name, value in found.items()))


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


def secret_section(context: PageContext, found: Endpoint) -> Safe:
    lines: list[Child] = [tag("p", "Signing scheme: ", tag("b", SCHEMES[found.scheme]), ".")]
    if not found.secrets:
        words = f"The secrets of this endpoint cannot be decrypted: {found.status_reason or ''} Rotate the secret."
        lines.append(components.verdict("dead", words))
    older = components.state("scheduled", "An older secret also signs")
    lines += [
        tag("p", older, " until ", components.clock(each.expires_at), ".")
        for each in found.secrets[1:]
        if each.expires_at is not None and each.expires_at > context.now
    ]
    if context.may_change:
        reveal = components.button(context, context.link(path(found, "/secret")), "Reveal the secret")
        lines.append(components.actions(reveal if found.secrets else None, _rotate(context, found)))
    else:
        lines.append(tag("p", "With read-only access you cannot see the secret.", class_="quiet"))
    return components.section("Secret", *lines, id_="secret")


def _rotate(context: PageContext, found: Endpoint) -> Safe:
    return components.form(
        context,
        context.link(path(found, "/secret/rotate")),
        tag("input", type="hidden", name="revision", value=str(found.revision)),
        tag("label", "The old secret also signs ", for_="field-overlap"),
        components.select("overlap", OVERLAPS.items()),
        tag("button", "Rotate the secret", class_="button"),
        class_="inline",
    )
