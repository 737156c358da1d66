"""Messages for people who search: by which way they are found, and how far one look goes. Pure; both engines do as it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from hookline.model import Found, FoundFilter, Message
from hookline.states import OPEN, DeliveryState
from hookline.store import walk
from hookline.store.base import Page, Walk
from hookline.store.rows import Row, storable

FEW = 50  # applications of one organization, walked one by one; more are walked with everybody's together
FIRST = 500  # rows that the first look goes over, where others may follow
HELD = 10_000  # open deliveries, or dead letters, that the second one does
MOST_OF_EVENT = 1_000  # messages of one event id, in as many applications

HELD_BACK = "held"  # as `story.standing` calls it: waiting, in a lane that keeps it
_NAMES = {state.value: state.name.lower() for state in DeliveryState}
_OPEN = frozenset({HELD_BACK, *(state.name.lower() for state in OPEN)})


class Way(StrEnum):
    """The value is the name of the statements."""

    APPS = "found"  # through the messages of these applications
    ALL = "found_all"  # through everybody's
    OPEN = "found_open"  # through open deliveries: they are few beside all messages
    DEAD = "found_dead"  # through dead letters that nobody has resolved: likewise


class Look(Struct, frozen=True):
    way: Way
    stride: int  # rows that it goes over; by the way of applications, of each
    bounded: bool = True  # False: every row matches, so that it ends by itself


def looks(where: FoundFilter, apps: Sequence[int], page: Page) -> tuple[Look, ...]:
    """One after the other, until one fills the page or comes to the end. `apps` are those that are asked for, or the
    organization's: up to one more than a few."""
    match where.state:
        case "open":
            return Look(Way.OPEN, FIRST), Look(Way.OPEN, HELD)
        case "dead":
            return Look(Way.DEAD, FIRST), Look(Way.DEAD, HELD)
    several = Look(Way.APPS, max(walk.STRIDE // max(1, len(apps)), page.limit), walk.rare(where))
    if len(apps) <= 1:
        return (several,)
    # Mostly one organization has them all, and needs no other look.
    return Look(Way.ALL, FIRST), several if len(apps) <= FEW else Look(Way.ALL, walk.STRIDE)


def possible(where: FoundFilter) -> bool:
    """Whether anything like it can be stored."""
    given = (where.ref, where.channel, where.tag, *(where.event_types or ()))
    return all(storable(text) for text in given if text is not None)


def states(found: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By message, and by the word for where each delivery is."""
    made: dict[str, dict[str, int]] = {}
    for row in found:
        counted = made.setdefault(row["message_id"], {})
        word = HELD_BACK if row["held"] else _NAMES[row["state"]]
        counted[word] = counted.get(word, 0) + row["number"]
    return made


def state_of(word: str | None) -> tuple[int | None, bool | None]:
    """The state, and whether its lane keeps it, of a delivery with this word; None: any."""
    if word is None:
        return None, None
    return (None, True) if word == HELD_BACK else (DeliveryState[word.upper()].value, False)


def joined(messages: Sequence[Message], counted: Mapping[str, dict[str, int]]) -> list[Found]:
    return [Found(message=message, states=counted.get(message.id, {})) for message in messages]


def named(found: Sequence[Found], where: FoundFilter, page: Page) -> Walk[Found]:
    """What a page has of those that have the id that was asked for: they are few, and all of them are here."""
    matching = sorted((each for each in found if _matches(each, where)), key=lambda each: each.message.id, reverse=True)
    start = page.iterator
    if page.backwards:
        newer = [each for each in matching if start is None or each.message.id > start]
        return Walk(rows=newer[-page.limit :])
    return Walk(rows=[each for each in matching if start is None or each.message.id < start][: page.limit])


def _matches(found: Found, where: FoundFilter) -> bool:
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
    """As a filter names them."""
    if not states:
        return {"none"}
    found = {"delivered"} if set(states) == {"delivered"} else set()
    if not _OPEN.isdisjoint(states):
        found.add("open")
    if "dead" in states:
        found.add("dead")
    return found
