"""One delivery of a message as HTML: its state, the next step, buttons, a chart of its time, and its attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from msgspec import Struct

from hookline import ids
from hookline.dashboard import components, request_response
from hookline.dashboard.charts import circuit_band, figures
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page_context import PageContext
from hookline.model.attempts import Attempt
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent
from hookline.model.messages import Message
from hookline.model.states import OPEN, DeliveryState, EndpointStatus
from hookline.services import explain
from hookline.services.explain import DeliveryHistory, Happening, NextStep, Part, Phase
from hookline.web.html import Child, Safe, join, tag

SHOWN_BODY = 1024  # bytes of the last response body on the page
SHOWN = 15  # attempts and lane events in the table; `?all=1` shows all of them

SHADES = {Part.WAITING: "queue", Part.HELD: "held", Part.FAILED: "dead", Part.DELIVERED: "delivered"}
# Colour and text of each phase.
PHASES = {
    Phase.DNS: ("dns", "DNS"),
    Phase.CONNECT: ("connect", "connect"),
    Phase.TLS: ("tls", "TLS"),
    Phase.ANSWER: ("wait", "waiting for the answer"),
    Phase.BODY: ("body", "body"),
}
OUTCOMES = {"delivered": "delivered", "retry": "scheduled", "dead": "dead"}

RANKS = ("dead", "held", "scheduled", "queued", "pending", "delivering", "resolved", "delivered")


class DeliveryView(Struct, frozen=True, kw_only=True):
    """The history of one delivery, with the other data that its section shows."""

    history: DeliveryHistory
    message: Message
    now: datetime
    endpoint: Endpoint | None  # None: retention has deleted the endpoint
    last: Attempt | None  # the last attempt, with its response

    @property
    def state(self) -> str:
        return explain.current_state(self.history, self.now)

    @property
    def rank(self) -> int:
        """Position in the page: deliveries that need attention come first."""
        return RANKS.index(self.state)

    @property
    def gone(self) -> bool:
        return self.endpoint is None or self.endpoint.status == EndpointStatus.DELETED

    @property
    def anchor(self) -> str:
        return f"delivery-{self.history.delivery.id}"


def section(context: PageContext, view: DeliveryView, *, alone: bool) -> Safe:
    """Return the section of one delivery. If it succeeded, its details are collapsed, unless it is the only delivery
    (`alone`)."""
    history, delivery = view.history, view.history.delivery
    where = None if view.gone else context.link(f"/endpoints/{delivery.endpoint_id}")
    url = history.url or (view.endpoint.url if view.endpoint else delivery.endpoint_id)
    return components.section(
        join(components.state(view.state), " ", components.ident(url, href=where, most=70)),
        *(tag("p", next_step_sentence(each, view.now)) for each in explain.next_steps(history, view.now)),
        _remedy(context, view),
        _folded(context, view) if view.state == "delivered" and not alone else _details(context, view),
        aside=_actions(context, view),
        id_=view.anchor,
    )


def _details(context: PageContext, view: DeliveryView) -> Safe:
    history = view.history
    return join(
        _facts(view),
        timeline(history, view.now),
        phases(history.attempts, history.delivery.accepted_at),
        event_table(context, view),
        _last_attempt(context, view),
    )


def _folded(context: PageContext, view: DeliveryView) -> Safe:
    """Fold the details of a successful delivery, so that failed ones are easier to see."""
    delivery = view.history.delivery
    words = f"{components.count(delivery.sent, 'attempt')}, {length(_age(delivery, view.now))} after it was accepted"
    return tag("details", tag("summary", words), _details(context, view))


def _age(delivery: Delivery, now: datetime) -> float:
    return max(0.0, ((delivery.finished_at or now) - delivery.accepted_at).total_seconds())


# ── next step ────────────────────────────────────────────────────────────────────────────────────────────────────


def next_step_sentence(each: NextStep, now: datetime, *, sentence: bool = True) -> Safe:
    words = f"{each.words[:1].upper()}{each.words[1:]}".rstrip(". :") if sentence else each.words
    if each.at is None:
        return join(words, ".")
    ago = components.ago(each.at, now)
    at = join(components.clock(each.at), " (", ago, ")") if each.exact else ago
    return join(words, " ", at, each.after, ".")


def _remedy(context: PageContext, view: DeliveryView) -> Safe | None:
    """Return advice on what the viewer can do about the delivery. The matching buttons are beside the title."""
    found = explain.remedy(view.history, view.now)
    if found is None:
        return None
    if context.viewer.portal:
        return tag("p", _customer_advice(view) if found.operators_only else found.sentences)
    commands = components.code("\n".join(found.commands), name="command")
    by_hand = tag("details", tag("summary", "On the command line"), commands)
    return tag("div", tag("p", found.sentences), by_hand, class_="remedy")


def _customer_advice(view: DeliveryView) -> str:
    if view.history.delivery.state == DeliveryState.DEAD:
        return "Only the sender of these webhooks can fix this. Give them the id of this message."
    return "This delivery is late."


def _actions(context: PageContext, view: DeliveryView) -> Safe | None:
    delivery, message = view.history.delivery, view.message
    name = f"to {view.history.url or delivery.endpoint_id}"
    found: list[Child] = []
    if delivery.state == DeliveryState.DEAD:
        if not view.gone:
            path, hidden = context.link(f"/messages/{message.id}/replay"), {"dead": str(delivery.id)}
            found.append(components.button(context, path, "Replay", kind="main", hidden=hidden, label=f"Replay {name}"))
        found.append(_resolve(context, view, name))
    elif not view.gone and delivery.state in _RESENDABLE and view.state != "held" and message.payload is not None:
        path, hidden = context.link(f"/messages/{message.id}/resend"), {"endpoint": delivery.endpoint_id}
        found.append(components.button(context, path, "Resend", hidden=hidden, label=f"Resend {name}"))
    if view.history.lane is not None and view.state == "held":
        endpoint = context.link(f"/endpoints/{delivery.endpoint_id}")
        found.append(components.link_button(endpoint, "Open the endpoint", kind="main"))
    if not view.gone:
        found.append(as_curl(context, message, delivery.endpoint_id, label=f"Copy the request {name} as curl"))
    return components.actions(*found)


def as_curl(context: PageContext, message: Message, endpoint_id: str, label: str | None = None) -> Safe:
    path = context.link(f"/messages/{message.id}/curl/{endpoint_id}")
    return components.link_button(path, "Copy as curl", aria_label=label)


def _resolve(context: PageContext, view: DeliveryView, name: str) -> Safe | None:
    """Link to the page that resolves the dead letter. The link names the application of the message if another
    application is selected."""
    other = None if context.app_no in (None, view.message.app_no) else view.message.app_id
    query = {"id": f"{ids.DEAD_LETTER}{view.history.delivery.id}", **({"app": other} if other else {})}
    where = context.link("/dead-letters/resolve", **query)
    return components.link_button(where, "Resolve", aria_label=f"Resolve {name}") if context.may_change else None


_RESENDABLE = (DeliveryState.DELIVERED, DeliveryState.RESOLVED, DeliveryState.SCHEDULED)


def _facts(view: DeliveryView) -> Safe:
    delivery, now, ended, gives_up = view.history.delivery, view.now, None, None
    if delivery.finished_at is not None:
        ended = join(components.clock(delivery.finished_at), f", after {length(_age(delivery, now))}")
    if delivery.state in OPEN and delivery.expires_at is not None:
        gives_up = components.ago(delivery.expires_at, now)
    rows: list[tuple[str, Child]] = [
        ("Endpoint", components.ident(delivery.endpoint_id)),
        ("Attempts", f"{delivery.sent:,}"),
        ("Ended", ended),
        ("Gives up", gives_up),
        ("Description", (view.endpoint.description or None) if view.endpoint else None),
    ]
    return components.fields(rows)


# ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def timeline(history: DeliveryHistory, now: datetime) -> Safe | None:
    """Draw the time from the acceptance of the message to the end of the delivery, or until now.

    Return None if the first attempt ended the delivery and the lane was never held until then, because the chart of
    the attempt's phases shows the same time.
    """
    found = explain.stretches(history, now)
    ended_at_once = len(history.attempts) == 1 and history.delivery.state not in OPEN
    if not found or (ended_at_once and all(each.part != Part.HELD for each in found)):
        return None
    drawn = [
        figures.Stretch(shade=SHADES[each.part], words=each.part.value, since=each.since, until=each.until)
        for each in found
    ]
    return figures.band("Time since acceptance", drawn, found[0].since, found[-1].until)


def phases(attempts: Sequence[Attempt], accepted_at: datetime) -> Safe | None:
    """Draw the phases of the attempts on one scale.

    If the delivery had only one attempt, the chart also shows the wait before it, unless the wait took 20 times as long
    as the attempt or longer.
    """
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
        shade, words = PHASES[phase]
        yield figures.Stretch(shade=shade, words=words, since=at, until=until)
        at = until


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────


def event_table(context: PageContext, view: DeliveryView) -> Safe | None:
    found = explain.happenings(view.history)
    if not found:
        return None
    listed = found if context.param("all") else found[-SHOWN:]
    rows = [
        _event(each.what) if isinstance(each.what, LaneEvent) else _attempt(context, view.message, each, each.what)
        for each in listed
    ]
    columns = [(name, itemgetter(at)) for at, name in enumerate(("Event", "Time", "Waited", "Duration", "Detail"))]
    table = components.table(rows, columns, caption="Attempts and lane events", numeric=("Waited", "Duration"))
    if len(listed) == len(found):
        return table
    words = f"Show {len(found) - len(listed):,} earlier events"
    return join(tag("p", tag("a", words, href=context.here(all=1)), class_="more"), table)


def _attempt(context: PageContext, message: Message, each: Happening, attempt: Attempt) -> list[Child]:
    kind = " · probe" if attempt.probe else (" · manual" if attempt.trigger else "")
    name = context.anchor(f"Attempt {attempt.number}", f"/messages/{message.id}/attempts/{attempt.id}")
    return [
        join(name, " ", outcome(attempt), tag("span", kind, class_="quiet") if kind else None),
        components.clock(attempt.started_at),
        length(each.waited.total_seconds()),
        length(attempt.timing.total / 1e6),
        request_response.text(attempt.detail.encode(errors="replace")),
    ]


def outcome(attempt: Attempt) -> Safe:
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "no response")
    return components.state(OUTCOMES.get(attempt.outcome, "scheduled"), f"{result} {attempt.outcome}")


def _event(event: LaneEvent) -> list[Child]:
    return [components.state(*circuit_band.EVENTS[event.kind]), components.clock(event.at), None, None, event.cause]


def _last_attempt(context: PageContext, view: DeliveryView) -> Safe | None:
    attempt = view.last
    if attempt is None:
        return None
    endpoint = None if view.gone else view.endpoint
    link = context.anchor("Show everything", f"/messages/{view.message.id}/attempts/{attempt.id}")
    sides = request_response.sides(endpoint, view.message, attempt, most=SHOWN_BODY, more=link)
    title = tag("summary", f"Request and response of attempt {attempt.number}")
    return tag("details", title, sides, open=attempt.outcome != "delivered")
