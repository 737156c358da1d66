"""The rules against guessing passwords, without a database: free guesses, waiting times and expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.operators import Guesses
from hookline.security import lockout
from hookline.security.lockout import ADDRESS, BROWSER, NAME, PAIR, TOKENS, Rule

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY = b"k" * 32
KEPT = "scrypt$15$8$3$salt$key"
RULES = st.sampled_from([PAIR, NAME, BROWSER, ADDRESS, TOKENS])


def guess(rule: Rule, times: int, known: Guesses | None = None, now: datetime = NOW) -> Guesses:
    for _ in range(times):
        known = rule.lock(known, now)
    assert known is not None
    return known


@given(RULES)
def test_the_last_free_guess_locks_and_no_earlier_one(rule: Rule) -> None:
    assert guess(rule, rule.free - 1).locked_until is None
    assert guess(rule, rule.free).locked_until == NOW + timedelta(seconds=rule.first)


@given(RULES, st.integers(0, 500))
def test_each_further_guess_waits_longer_up_to_a_limit(rule: Rule, more: int) -> None:
    before, after = guess(rule, rule.free + more), guess(rule, rule.free + more + 1)
    assert before.locked_until is not None
    assert after.locked_until is not None
    assert before.locked_until <= after.locked_until <= NOW + timedelta(seconds=rule.longest)


@given(RULES)
def test_after_a_lock_ends_only_one_guess_is_free(rule: Rule) -> None:
    locked = guess(rule, rule.free)
    assert locked.locked_until is not None
    again = rule.lock(locked, locked.locked_until)
    assert again.locked_until is not None
    assert again.locked_until - locked.locked_until >= timedelta(seconds=rule.first)
    assert again.failures == rule.free + 1


@given(RULES)
def test_guesses_expire(rule: Rule) -> None:
    locked = guess(rule, rule.free + 3)
    assert locked.locked_until is not None
    later = locked.locked_until + timedelta(seconds=rule.window)
    assert rule.lock(locked, later - timedelta(microseconds=1)).failures == rule.free + 4
    assert rule.lock(locked, later) == Guesses(failures=1, since=later)


def test_a_day_of_guessing_one_name_gets_nowhere() -> None:
    """At any speed from one address, the number of guesses stays far below what the weakest allowed password needs."""
    known, now, taken = None, NOW, 0
    while now < NOW + timedelta(days=1):
        known = PAIR.lock(known, now)
        taken += 1
        now = max(now + timedelta(seconds=0.01), known.locked_until or now)
    assert taken < 150


def test_a_right_password_resets_the_name_and_not_the_address() -> None:
    mine, others = lockout.password(KEY, "ada", "192.0.2.1"), lockout.password(KEY, "bob", "192.0.2.1")
    shared = set(mine.rules) & set(others.rules)
    assert len(mine.rules) == 3
    assert len(shared) == 1
    assert shared.isdisjoint(mine.forgiven)
    assert set(mine.forgiven) | shared == set(mine.rules)


def test_names_count_from_everywhere_together() -> None:
    here, there = lockout.password(KEY, "ada", "192.0.2.1"), lockout.password(KEY, "ada", "192.0.2.2")
    assert len(set(here.rules) & set(there.rules)) == 1


def test_a_known_browser_is_counted_separately() -> None:
    mark = lockout.mark(KEY, "ada", KEPT, "chance")
    known = lockout.password(KEY, "ada", "192.0.2.1", mark, KEPT)
    usual = lockout.password(KEY, "ada", "192.0.2.1", "", KEPT)
    assert set(known.rules).isdisjoint(usual.rules)
    assert known.forgiven == tuple(known.rules)
    assert (known.marked, usual.marked) == (True, False)
    elsewhere = lockout.password(KEY, "ada", "192.0.2.2", mark, KEPT)
    assert elsewhere.rules.keys() == known.rules.keys()
    other = lockout.password(KEY, "ada", "192.0.2.1", lockout.mark(KEY, "ada", KEPT, "another"), KEPT)
    assert set(other.rules).isdisjoint(known.rules)


@pytest.mark.parametrize(
    "mark",
    [
        "",
        ".",
        "chance",
        "chance.",
        "chance.00",
        "é.ü",
        lockout.mark(KEY, "bob", KEPT, "chance"),
        lockout.mark(KEY, "ada", "another password", "chance"),
        lockout.mark(KEY, "ada", "", "chance"),
        lockout.mark(b"x" * 32, "ada", KEPT, "chance"),
        lockout.mark(KEY, "ada", KEPT, "chance") + "0",
        lockout.mark(KEY, "ada", KEPT, "chance").upper(),
        "x" + lockout.mark(KEY, "ada", KEPT, "chance"),
    ],
)
def test_an_invalid_browser_cookie_is_ignored(mark: str) -> None:
    usual = lockout.password(KEY, "ada", "192.0.2.1", "", KEPT)
    assert lockout.password(KEY, "ada", "192.0.2.1", mark, KEPT).rules.keys() == usual.rules.keys()


def test_keys_and_passwords_are_counted_apart() -> None:
    password = lockout.password(KEY, "ada", "192.0.2.1")
    assert set(lockout.token(KEY, "192.0.2.1").rules).isdisjoint(password.rules)


def test_stored_counters_do_not_reveal_what_was_typed() -> None:
    """Users may type a password into the name field. Without the key, nobody can find it from the stored hash."""
    one, other = lockout.password(KEY, "hunter2", "192.0.2.1"), lockout.password(b"x" * 32, "hunter2", "192.0.2.1")
    assert set(one.rules).isdisjoint(other.rules)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "elsewhere"),
        ("unix:", "elsewhere"),
    ],
)
def test_addresses_of_one_network_count_as_one(address: str, network: str) -> None:
    assert lockout.network(address) == network


@given(st.text(), st.text())
def test_any_text_is_counted(name: str, address: str) -> None:
    assert len(lockout.password(KEY, name, address).rules) == 3


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "1 second"),
        (1, "1 second"),
        (30, "30 seconds"),
        (99, "99 seconds"),
        (100, "2 minutes"),
        (900, "15 minutes"),
    ],
)
def test_waiting_times_in_words(seconds: float, words: str) -> None:
    assert lockout.wait(NOW + timedelta(seconds=seconds), NOW) == words
