"""The last use of a token that was signed with an older secret."""

from __future__ import annotations

from tests.support.scene import Scene

FIRST, SECOND, THIRD = b"1111", b"2222", b"3333"


async def test_the_use_of_a_secret_is_recorded_after_it_stops_signing(scene: Scene) -> None:
    store = scene.store
    await store.access.watch_secrets(SECOND, [FIRST])
    (watched,) = await store.access.older_secrets()
    assert (watched.id, watched.seen_at) == (FIRST, None)
    await scene.age(100)
    await store.access.watch_secrets(SECOND, [FIRST])  # another process does the same later
    (known,) = await store.access.older_secrets()
    assert known.since < watched.since

    await store.access.secret_seen(FIRST)
    (seen,) = await store.access.older_secrets()
    assert (seen.since, seen.seen_at is None) == (known.since, False)
    await store.access.secret_seen(FIRST)
    assert await store.access.older_secrets() == [seen]  # the time is written at most once a minute

    await store.access.watch_secrets(FIRST, [SECOND, THIRD])  # the first secret signs again, so its use is not recorded
    assert {each.id: each.seen_at for each in await store.access.older_secrets()} == {SECOND: None, THIRD: None}
    await store.access.secret_seen(FIRST)  # reported by a process that still treats it as an older secret
    assert {each.id for each in await store.access.older_secrets() if each.seen_at} == {FIRST}
