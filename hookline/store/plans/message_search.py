"""Search messages: which rows a search reads, and how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict

from hookline import ids
from hookline.model.messages import FoundMessage, Message, MessageSearch
from hookline.model.states import OPEN, DeliveryState
from hookline.store.pages import Page, Walk
from hookline.store.plans import listing
from hookline.store.plans.message_by_id import ANY_TIME, made_within
from hookline.store.plans.plan import Plan, Plans, Step, in_direction, reads, value
from hookline.store.rows import Row
from hookline.store.rows.documents import storable

# The second scan of a search of all applications (see `scans`) scans each application separately if the organization
# has at most this many. Otherwise it scans the messages of all applications together.
FEW = 50
# Some searches run two scans (see `scans`): the first reads few rows, and the second more rows, if the first does not
# fill the page.
FIRST = 500  # maximum rows that the first of two scans reads
HELD = 10_000  # maximum rows that the second scan reads, if the search is for messages with open or dead deliveries
MAX_OF_EVENT = 1_000  # maximum messages that a search by event id returns: at most one of each application

HELD_BACK = "held"  # the state word of a delivery that waits in a lane which is held back
_NAMES = {state.value: state.name.lower() for state in DeliveryState}
_OPEN = frozenset({HELD_BACK, *(state.name.lower() for state in OPEN)})


class MessageSearches(Plans):
    @reads
    def search_messages(self, org_id: str, where: MessageSearch, page: Page) -> Plan[Walk[FoundMessage]]:
        """Search messages of one application or of all, newest first. The result has the states of their deliveries,
        and no payloads.

        If the filter may match only few messages, one call reads a limited number of messages and returns where to
        continue.
        """
        if not storable(where.ref, where.channel, where.tag, *(where.event_types or ())):
            return Walk(rows=[])  # no message contains a text that the database cannot store
        if where.ref is not None:
            found = yield from self._by_ref(org_id, where.ref, where)
            return named((yield from self._with_states(found)), where, page)
        found, end = yield from self._scanned(org_id, where, page)
        return listing.walked((yield from self._with_states(found)), page, end)

    def _by_ref(self, org_id: str, ref: str, where: MessageSearch) -> Plan[list[Row]]:
        """Find messages by id, otherwise by event id. Ids are searched around the time in them, then everywhere,
        because the clock that made them may have been wrong."""
        for since, until in (made_within(ref), ANY_TIME):
            found = yield Step("search_by_id", org_id=org_id, app_no=where.app_no, ref=ref, since=since, until=until)
            if found:
                return found
        return (yield Step("search_by_event_id", org_id=org_id, app_no=where.app_no, ref=ref, max_rows=MAX_OF_EVENT))

    def _scanned(self, org_id: str, where: MessageSearch, page: Page) -> Plan[tuple[list[Row], str | None]]:
        apps = yield from self._apps(org_id, where)
        asked = _parameters(org_id, apps, where, page)
        found: list[Row] = []
        end: str | None = None
        for scan in scans(where, apps, page):
            given = asked | {"stride": scan.stride}
            end = (yield from value(in_direction(f"{scan.way}_end", page), **given)) if scan.bounded else None
            found = yield Step(in_direction(scan.way, page), **given | ({} if end is None else {"far": end}))
            if end is None or len(found) == page.limit:
                break
        return found, end

    def _apps(self, org_id: str, where: MessageSearch) -> Plan[list[int]]:
        """Return the requested application, if the organization has it. If the search is for all applications, return
        the organization's first `FEW` + 1 applications."""
        if where.app_no is None:
            return [each["no"] for each in (yield Step("search_apps", org_id=org_id, max_rows=FEW + 1))]
        known = yield Step("search_app", org_id=org_id, app_no=where.app_no)
        return [where.app_no] if known else []

    def _with_states(self, found: Sequence[Row]) -> Plan[list[FoundMessage]]:
        messages = [self._reading.struct(Message, each) for each in found]
        counted = yield from states_of(messages)
        return [FoundMessage(message=message, states=counted.get(message.id, {})) for message in messages]


def states_of(messages: Sequence[Message]) -> Plan[dict[str, dict[str, int]]]:
    """Return for each message how many of its deliveries are in each state."""
    if not messages:
        return {}
    given = [message.id for message in messages], [message.created_at for message in messages]
    return states((yield Step("search_states", ids=given[0], instants=given[1])))


def _parameters(org_id: str, apps: list[int], where: MessageSearch, page: Page) -> dict[str, object]:
    span = asdict(listing.span(ids.MESSAGE, where, page))
    return asdict(where) | span | {"org_id": org_id, "apps": apps, "limit": page.limit}


class Way(StrEnum):
    """Which rows a scan reads. The value is the prefix of the names of its SQL statements."""

    APPS = "search"  # scan the messages of each chosen application separately
    ALL = "search_all"  # scan the messages of all applications
    OPEN = "search_open"  # scan open deliveries, which are few compared with all messages
    DEAD = "search_dead"  # scan unresolved dead letters, which are few compared with all messages


class Scan(Struct, frozen=True):
    way: Way
    stride: int  # maximum rows that the scan reads; with APPS, of each application
    bounded: bool = True  # False: every row matches, so the page's limit ends the scan


def scans(where: MessageSearch, apps: Sequence[int], page: Page) -> tuple[Scan, ...]:
    """Return the scans to run in order, until one fills the page or reaches the end.

    `apps` has the requested application. If the search is for all applications, `apps` has the organization's first
    applications, up to `FEW` + 1 of them: one more than `FEW` shows that the organization has many.
    """
    match where.state:
        case "open":
            return Scan(Way.OPEN, FIRST), Scan(Way.OPEN, HELD)
        case "dead":
            return Scan(Way.DEAD, FIRST), Scan(Way.DEAD, HELD)
    several = Scan(Way.APPS, max(listing.STRIDE // max(1, len(apps)), page.limit), listing.rare(where))
    if len(apps) <= 1:
        return (several,)
    # The first scan reads messages of all organizations. It is usually enough, because most messages of a deployment
    # usually belong to the organization that searches.
    return Scan(Way.ALL, FIRST), several if len(apps) <= FEW else Scan(Way.ALL, listing.STRIDE)


def states(found: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Count the deliveries of each message by state word (`pending`, `held` and so on)."""
    made: dict[str, dict[str, int]] = {}
    for row in found:
        counted = made.setdefault(row["message_id"], {})
        word = HELD_BACK if row["held"] else _NAMES[row["state"]]
        counted[word] = counted.get(word, 0) + row["number"]
    return made


def state_of(word: str | None) -> tuple[int | None, bool | None]:
    """Return the filter that this state word stands for: a delivery state, and whether the delivery's lane is held
    back. None in either place matches every delivery."""
    if word is None:
        return None, None
    return (None, True) if word == HELD_BACK else (DeliveryState[word.upper()].value, False)


def named(found: Sequence[FoundMessage], where: MessageSearch, page: Page) -> Walk[FoundMessage]:
    """Return a page of the messages with the requested id or event id. `found` has all of them, because they are
    few."""
    matching = sorted((each for each in found if _matches(each, where)), key=lambda each: each.message.id, reverse=True)
    start = page.iterator
    if page.backwards:
        newer = [each for each in matching if start is None or each.message.id > start]
        return Walk(rows=newer[-page.limit :])
    return Walk(rows=[each for each in matching if start is None or each.message.id < start][: page.limit])


def _matches(found: FoundMessage, where: MessageSearch) -> bool:
    message = found.message
    return (
        (where.event_types is None or message.event_type in where.event_types)
        and (where.channel is None or where.channel in (message.channels or ()))
        and (where.tag is None or where.tag in (message.tags or ()))
        and (where.after is None or message.created_at > where.after)
        and (where.before is None or message.created_at < where.before)
        and (where.state is None or where.state in _states(found.states))
    )


def _states(states: Mapping[str, int]) -> set[str]:
    """Return the values of the filter's `state` that match a message with these deliveries."""
    if not states:
        return {"none"}
    found = {"delivered"} if set(states) == {"delivered"} else set()
    if not _OPEN.isdisjoint(states):
        found.add("open")
    if "dead" in states:
        found.add("dead")
    return found
