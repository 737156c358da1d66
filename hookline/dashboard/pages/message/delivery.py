"""One delivery of a message as HTML: how it stands, what comes next and the button, its time drawn, its attempts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline import ids
from hookline.dashboard import components, request_preview, request_response
from hookline.dashboard.charts import circuit_band, figures
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page_context import PageContext
from hookline.model import Attempt, Delivery, Endpoint, LaneEvent, Message
from hookline.model.states import OPEN, DeliveryState, EndpointStatus
from hookline.services import explain
from hookline.services.explain import DeliveryHistory, Happening, NextStep, Part, Phase
from hookline.web.html import Child, Safe, join, tag

SHOWN_BODY = 1024  # bytes of the last answer
SHOWN = 15  # attempts and changes of the lane; `?all=1` shows the others too

SHADES = {Part.WAITING: "queue", Part.HELD: "held", Part.FAILED: "dead", Part.DELIVERED: "delivered"}
PHASES = {Phase.DNS: "dns", Phase.CONNECT: "connect", Phase.TLS: "tls", Phase.ANSWER: "wait", Phase.BODY: "body"}
OUTCOMES = {"delivered": "delivered", "retry": "scheduled", "dead": "dead"}

RANKS = ("dead", "held", "scheduled", "queued", "pending", "delivering", "resolved", "delivered")


class Shown(Struct, frozen=True, kw_only=True):
    """A way, and what the page has looked up beside it."""

    way: DeliveryHistory
    message: Message
    now: datetime
    endpoint: Endpoint | None  # None: retention has taken it
    last: Attempt | None  # with what was answered

    @property
    def state(self) -> str:
        return explain.current_state(self.way, self.now)

    @property
    def rank(self) -> int:
        """Those that need somebody come first."""
        return RANKS.index(self.state)

    @property
    def gone(self) -> bool:
        return self.endpoint is None or self.endpoint.status == EndpointStatus.DELETED

    @property
    def anchor(self) -> str:
        return f"delivery-{self.way.delivery.id}"


def section(context: PageContext, shown: Shown, *, alone: bool) -> Safe:
    """`alone`: there is no other, so that nothing of it is folded away."""
    way, delivery = shown.way, shown.way.delivery
    where = None if shown.gone else context.link(f"/endpoints/{delivery.endpoint_id}")
    url = way.url or (shown.endpoint.url if shown.endpoint else delivery.endpoint_id)
    return components.section(
        join(components.state(shown.state), " ", components.ident(url, href=where, most=70)),
        *(tag("p", prospect(each, shown.now)) for each in explain.next_steps(way, shown.now)),
        _remedy(context, shown),
        _folded(context, shown) if shown.state == "delivered" and not alone else _told(context, shown),
        aside=_actions(context, shown),
        id_=shown.anchor,
    )


def _told(context: PageContext, shown: Shown) -> Safe:
    way = shown.way
    return join(
        _facts(shown),
        life(way, shown.now),
        phases(way.attempts, way.delivery.accepted_at),
        happenings(context, shown),
        _last(context, shown),
    )


def _folded(context: PageContext, shown: Shown) -> Safe:
    """What went well does not hide what did not."""
    delivery = shown.way.delivery
    words = f"{components.count(delivery.sent, 'attempt')}, {length(_taken(delivery, shown.now))} after it was accepted"
    return tag("details", tag("summary", words), _told(context, shown))


def _taken(delivery: Delivery, now: datetime) -> float:
    return max(0.0, ((delivery.finished_at or now) - delivery.accepted_at).total_seconds())


# ── what comes next ───────────────────────────────────────────────────────────────────────────────────────────────


def prospect(each: NextStep, now: datetime, *, sentence: bool = True) -> Safe:
    words = _sentence(each.words) if sentence else each.words
    if each.at is None:
        return join(words, ".")
    at = (
        join(components.clock(each.at), " (", components.ago(each.at, now), ")")
        if each.exact
        else components.ago(each.at, now)
    )
    return join(words, " ", at, each.after, ".")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}".rstrip(". :")


def _remedy(context: PageContext, shown: Shown) -> Safe | None:
    """What to do: the button that does it is beside."""
    found = explain.remedy(shown.way, shown.now)
    if found is None:
        return None
    if context.viewer.portal:
        return tag("p", _for_others(shown) if found.operators_only else found.sentences)
    commands = components.code("\n".join(found.commands), name="command")
    by_hand = tag("details", tag("summary", "On the command line"), commands)
    return tag("div", tag("p", found.sentences), by_hand, class_="remedy")


def _for_others(shown: Shown) -> str:
    if shown.way.delivery.state == DeliveryState.DEAD:
        return "This is for whoever sends you these webhooks to mend: tell them the id of this message."
    return "It should have been sent by now."


def _actions(context: PageContext, shown: Shown) -> Safe | None:
    delivery, message = shown.way.delivery, shown.message
    name = f"to {shown.way.url or delivery.endpoint_id}"
    found: list[Child] = []
    if delivery.state == DeliveryState.DEAD:
        if not shown.gone:
            path, hidden = context.link(f"/messages/{message.id}/replay"), {"dead": str(delivery.id)}
            found.append(components.button(context, path, "Replay", kind="main", hidden=hidden, label=f"Replay {name}"))
        found.append(_resolve(context, shown, name))
    elif not shown.gone and delivery.state in _RESENT and shown.state != "held" and message.payload is not None:
        path, hidden = context.link(f"/messages/{message.id}/resend"), {"endpoint": delivery.endpoint_id}
        found.append(components.button(context, path, "Resend", hidden=hidden, label=f"Resend {name}"))
    if shown.way.lane is not None and shown.state == "held":
        found.append(
            components.link_button(context.link(f"/endpoints/{delivery.endpoint_id}"), "Open the endpoint", kind="main")
        )
    if not shown.gone:
        curl = context.link(f"/messages/{message.id}/curl/{delivery.endpoint_id}")
        found.append(components.link_button(curl, "Copy as curl", aria_label=f"Copy the request {name} as curl"))
    return components.actions(*found)


def _resolve(context: PageContext, shown: Shown, name: str) -> Safe | None:
    """The page that asks for the note, of the dead letter's own application."""
    other = None if context.app_no in (None, shown.message.app_no) else shown.message.app_id
    query = {"id": f"{ids.DEAD_LETTER}{shown.way.delivery.id}", **({"app": other} if other else {})}
    where = context.link("/dead-letters/resolve", **query)
    return components.link_button(where, "Resolve", aria_label=f"Resolve {name}") if context.may_change else None


_RESENT = (DeliveryState.DELIVERED, DeliveryState.RESOLVED, DeliveryState.SCHEDULED)


def _facts(shown: Shown) -> Safe:
    delivery, now = shown.way.delivery, shown.now
    pairs: list[tuple[str, Child]] = [
        ("Endpoint", components.ident(delivery.endpoint_id)),
        ("Attempts", f"{delivery.sent:,}"),
    ]
    if delivery.finished_at is not None:
        pairs.append(
            ("Ended", join(components.clock(delivery.finished_at), f", after {length(_taken(delivery, now))}"))
        )
    if delivery.state in OPEN and delivery.expires_at is not None:
        pairs.append(("Gives up", components.ago(delivery.expires_at, now)))
    if shown.endpoint is not None and shown.endpoint.description:
        pairs.append(("Description", shown.endpoint.description))
    return components.fields(pairs)


# ── its time ──────────────────────────────────────────────────────────────────────────────────────────────────────


def life(way: DeliveryHistory, now: datetime) -> Safe | None:
    """From acceptance to its end; one that ended with its first attempt is seen whole in its phases."""
    found = explain.stretches(way, now)
    at_once = (
        len(way.attempts) == 1 and way.delivery.state not in OPEN and Part.HELD not in {each.part for each in found}
    )
    if not found or at_once:
        return None
    drawn = [
        figures.Stretch(shade=SHADES[each.part], words=each.part.value, since=each.since, until=each.until)
        for each in found
    ]
    return figures.band("Its time, from acceptance on", drawn, found[0].since, found[-1].until)


def phases(attempts: Sequence[Attempt], accepted_at: datetime) -> Safe | None:
    """Each attempt from its own start, all to one scale; a single one with the wait before it, where that is not most of it."""
    shown = attempts[-SHOWN:]
    if not shown:
        return None
    origin = shown[0].started_at
    longest = timedelta(microseconds=max(1, *(each.timing.total for each in shown)))
    rows = [figures.Row(name=f"Attempt {each.number}", stretches=list(_phases(each, origin))) for each in shown]
    waited = origin - accepted_at
    if len(attempts) == 1 and shown[0].number == 1 and timedelta(0) < waited < 20 * longest:
        queue = figures.Stretch(shade="queue", words="waiting in the lane", since=accepted_at, until=origin)
        rows = [figures.Row(name="Attempt 1", stretches=[queue, *rows[0].stretches])]
        return figures.waterfall("Phases of the attempt", rows, accepted_at, origin + longest)
    label = "Phases of the attempt" if len(rows) == 1 else "Phases of the attempts, each from its start"
    return figures.waterfall(label, rows, origin, origin + longest)


def _phases(attempt: Attempt, origin: datetime) -> Iterator[figures.Stretch]:
    at = origin
    for phase, micros in explain.phases(attempt):
        until = at + timedelta(microseconds=micros)
        yield figures.Stretch(shade=PHASES[phase], words=figures.PHASES[PHASES[phase]], since=at, until=until)
        at = until


# ── what happened ─────────────────────────────────────────────────────────────────────────────────────────────────


def happenings(context: PageContext, shown: Shown) -> Safe | None:
    found = explain.happenings(shown.way)
    if not found:
        return None
    listed = found if context.param("all") else found[-SHOWN:]
    rows = [
        _event(each.what) if isinstance(each.what, LaneEvent) else _attempt(context, shown.message, each, each.what)
        for each in listed
    ]
    before = len(found) - len(listed)
    return join(
        tag("p", tag("a", f"Show the {before:,} before these", href=context.here(all=1)), class_="more")
        if before
        else None,
        components.table(
            ("What", "At", "Waited", "Took", "Detail"),
            rows,
            caption="Attempts, and what happened to the lane",
            numeric=(2, 3),
        ),
    )


def _attempt(context: PageContext, message: Message, each: Happening, attempt: Attempt) -> list[Child]:
    kind = " · probe" if attempt.probe else (" · by hand" if attempt.trigger else "")
    name = tag("a", f"Attempt {attempt.number}", href=context.link(f"/messages/{message.id}/attempts/{attempt.id}"))
    return [
        join(name, " ", outcome(attempt), tag("span", kind, class_="quiet") if kind else None),
        components.clock(attempt.started_at),
        length(each.waited.total_seconds()),
        length(attempt.timing.total / 1e6),
        request_response.text(attempt.detail.encode(errors="replace")),
    ]


def outcome(attempt: Attempt) -> Safe:
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "no answer")
    return components.state(OUTCOMES.get(attempt.outcome, "scheduled"), f"{result} {attempt.outcome}")


def _event(event: LaneEvent) -> list[Child]:
    return [
        components.state(circuit_band.EVENT_SHADES[event.kind], circuit_band.EVENTS[event.kind]),
        components.clock(event.at),
        None,
        None,
        event.cause,
    ]


def _last(context: PageContext, shown: Shown) -> Safe | None:
    attempt, endpoint = shown.last, shown.endpoint
    if attempt is None:
        return None
    request = None
    if endpoint is not None and not shown.gone:
        request = request_preview.request(endpoint, shown.message, number=attempt.number, at=attempt.started_at)
    changed = endpoint is not None and endpoint.updated_at > attempt.started_at
    link = tag("a", "All of it", href=context.link(f"/messages/{shown.message.id}/attempts/{attempt.id}"))
    sides = request_response.sides(request, attempt, most=SHOWN_BODY, changed=changed, more=link)
    return tag(
        "details", tag("summary", f"Request and response of attempt {attempt.number}"), sides, open=_failed(attempt)
    )


def _failed(attempt: Attempt) -> bool:
    return attempt.outcome != "delivered"
