"""Operators, their sessions, and failed logins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import asdict

from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.model.actors import Scope
from hookline.model.audit import Note
from hookline.model.operators import Guesses, Lock, NewSession, Operator, Session
from hookline.store.bounds import IDLE
from hookline.store.pages import Page
from hookline.store.plans.plan import Batch, Plan, Plans, Step, by_text, changes, noted, reads, row, value
from hookline.store.rows.documents import storable

GUESSES_KEPT = 2 * 86_400  # seconds to keep a counter after its latest failed login; longer than any lockout


class Operators(Plans):
    """Store dashboard operators, their sessions and failed logins."""

    @changes
    def create_operator(self, new: Operator, *, note: Note[Operator] | None = None) -> Plan[Operator]:
        """Create an operator; the database sets `created_at`. Raises `Conflict` if the name is taken, `NotFound` if
        the organization does not exist."""
        if not storable(new.name, new.org_id, new.password):
            raise InvalidInput("the name or the password has a character that cannot be stored")
        made = yield from row("operator_insert", name=new.name, org_id=new.org_id, role=new.role, password=new.password)
        if made is not None:
            return (yield from noted(note, self._reading.struct(Operator, made)))
        if not (yield Step("organization", org_id=new.org_id)):
            raise NotFound("no such organization")
        raise Conflict(f"there is an operator {new.name!r} already")

    @reads
    def operator(self, name: str) -> Plan[Operator | None]:
        found = (yield from row("operator", name=name)) if storable(name) else None
        return None if found is None else self._reading.struct(Operator, found)

    @reads
    def operators(self, org_id: str | None, page: Page) -> Plan[list[Operator]]:
        """Return a page of operators ordered by name. The iterator of `page` is the name of an operator. Without
        `org_id`, return the operators of all organizations."""
        found = yield from by_text("operators", page, org_id=org_id)
        return [self._reading.struct(Operator, each) for each in found]

    @changes
    def change_operator(
        self,
        name: str,
        *,
        role: Scope | None = None,
        password: str | None = None,
        note: Note[Operator] | None = None,
    ) -> Plan[Operator]:
        """Change the role or the password. A new password ends all sessions of the operator. Raises
        `NotFound` if there is no such operator."""
        changed = yield from row("operator_change", name=name, role=role, password=password)
        if changed is None:
            raise NotFound(f"no operator {name!r}")
        if password is not None:
            yield Step("sessions_end", operator=name)
        return (yield from noted(note, self._reading.struct(Operator, changed)))

    @changes
    def delete_operator(self, name: str, *, note: Note[None] | None = None) -> Plan[None]:
        """Delete the operator and all of the operator's sessions. Raises `NotFound` if there is no such operator."""
        if not (yield Step("operator_delete", name=name)):
            raise NotFound(f"no operator {name!r}")
        yield Step("sessions_end", operator=name)
        yield from noted(note, None)

    # ── sessions ──

    @changes
    def add_session(self, new: NewSession, *, note: Note[None] | None = None) -> Plan[None]:
        """Store a session. Raises `NotFound` if a password hash is given and the operator was deleted or has another
        password now."""
        if new.password is not None:
            known = yield Step("operator_password_is", operator=new.operator, org_id=new.org_id, password=new.password)
            if not known:
                raise NotFound("the operator was deleted or has a new password")
        made = yield Step("session_insert", **asdict(new) | {"lifetime": timedelta(seconds=new.lifetime)})
        if not made:
            raise InvalidInput("there is a session with this hash already")
        yield from noted(note, None)

    @reads
    def session(self, hashed: bytes) -> Plan[Session | None]:
        """Return the session. None: it ended, is unknown, was idle for `IDLE` seconds, or its owner is no longer valid
        (deleted operator, revoked or expired API key, revoked token, deleted application). Change nothing."""
        found = yield from row("session", hash=hashed, idle=timedelta(seconds=IDLE))
        return None if found is None else self._reading.struct(Session, found)

    @changes
    def touch_session(self, hashed: bytes) -> Plan[None]:
        """Set the session's last use to now. The value is written at most once a minute."""
        yield Step("session_touch", hash=hashed)

    @changes
    def end_session(self, hashed: bytes, *, note: Note[None] | None = None) -> Plan[None]:
        yield Step("session_end", hash=hashed)
        yield from noted(note, None)

    @changes
    def end_sessions(self, operator: str, *, note: Note[int] | None = None) -> Plan[int]:
        """End all sessions of the operator and return their number."""
        ended = yield Step("sessions_end", operator=operator)
        return (yield from noted(note, len(ended)))

    # ── failed logins ──

    @changes
    def take_guess(self, rules: Mapping[bytes, Lock]) -> Plan[datetime | None]:
        """Count a login attempt for each subject: a hash that stands for a name, a network, both, or a name and a
        browser. The attempt is counted before the password is checked. Otherwise parallel attempts would bypass the
        limit.

        If a subject is locked out, count nothing and return the time at which its lockout ends. The caller must not
        check the password then. `rules` has a pure function for each subject, which returns its new count and lockout.
        Lockouts are first read without row locks, so that a locked-out user who keeps trying costs little and writes
        nothing.
        """
        subjects = sorted(rules)  # sorted, so that two concurrent logins lock subjects in one order
        for subject in subjects:
            until = yield from value("guess_locked", subject=subject)
            if until is not None:
                return self._reading.instant(until)
        held = []
        for subject in subjects:
            held += yield Step("guess_hold", subject=subject)
        now = max(self._reading.instant(each["now"]) for each in held)
        known = {each["subject"]: self._reading.struct(Guesses, each) for each in held if each["failures"]}
        until = _locked(known, now)
        if until is None:
            counted = {subject: rules[subject](known.get(subject), now) for subject in subjects}
            yield Batch("guess_save", [{"subject": subject, **asdict(each)} for subject, each in counted.items()])
        return until

    @changes
    def forgive(self, subjects: Sequence[bytes]) -> Plan[None]:
        """Delete these counters of failed logins, after a correct password. A subject is a hash that identifies one
        counter (see `security/lockout.py`)."""
        yield Batch("guess_forgive", [{"subject": subject} for subject in sorted(subjects)])


def _locked(known: Mapping[bytes, Guesses], now: datetime) -> datetime | None:
    """Return the latest end of the lockouts that still last; None if no subject is locked out."""
    ends = [each.locked_until for each in known.values() if each.locked_until is not None]
    return max((end for end in ends if end > now), default=None)
