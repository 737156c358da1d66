"""For how long the connections of a receiver are not reused."""

from __future__ import annotations

from hookline.engine.sender.no_reuse import FIRST, LONGEST, MAX_RECEIVERS, NoReuse


def test_a_receiver_that_broke_a_connection_gets_new_ones_for_a_while() -> None:
    no_reuse = NoReuse()
    assert not no_reuse.applies("a", 100.0)
    no_reuse.add("a", 100.0)
    no_reuse.add("a", 100.1)  # another connection that broke at the same time
    assert no_reuse.applies("a", 100.0 + FIRST - 0.01)
    assert not no_reuse.applies("a", 100.0 + FIRST)
    assert not no_reuse.applies("b", 100.0)


def test_the_time_doubles_if_it_breaks_one_again_and_starts_anew_after_a_long_time() -> None:
    no_reuse, now, terms = NoReuse(), 7.0, []
    for _ in range(10):
        no_reuse.add("a", now)
        terms.append(term(no_reuse, now))
        now += terms[-1]
    assert terms == [min(LONGEST, FIRST * 2**number) for number in range(10)]
    no_reuse.add("a", now + LONGEST)
    assert term(no_reuse, now + LONGEST) == FIRST


def term(no_reuse: NoReuse, now: float) -> float:
    return next(seconds for seconds in range(10_000) if not no_reuse.applies("a", now + seconds))


def test_the_oldest_receiver_is_forgotten_first() -> None:
    no_reuse = NoReuse()
    no_reuse.add(-1, 0.0)
    no_reuse.add(-2, 0.0)
    no_reuse.add(-1, FIRST)
    for number in range(MAX_RECEIVERS - 1):
        no_reuse.add(number, FIRST + 1.0)
    assert no_reuse.applies(-1, FIRST + 2.0)
    no_reuse.add("one more", FIRST + 1.0)
    assert not no_reuse.applies(-1, FIRST + 2.0)
    assert no_reuse.applies(0, FIRST + 2.0)
