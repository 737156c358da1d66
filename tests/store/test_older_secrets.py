"""When a token of a secret that signs no more was last used."""

from __future__ import annotations

from tests.support.scene import Scene

FIRST, SECOND, THIRD = b"1111", b"2222", b"3333"


async def test_older_secrets_are_watched_from_when_they_sign_no_more(scene: Scene) -> None:
    store = scene.store
    await store.watch_secrets(SECOND, [FIRST])
    (watched,) = await store.older_secrets()
    assert (watched.id, watched.seen_at) == (FIRST, None)
    await scene.age(100)
    await store.watch_secrets(SECOND, [FIRST])  # by another process, later
    (known,) = await store.older_secrets()
    assert known.since < watched.since

    await store.secret_seen(FIRST)
    (seen,) = await store.older_secrets()
    assert (seen.since, seen.seen_at is None) == (known.since, False)
    await store.secret_seen(FIRST)
    assert await store.older_secrets() == [seen]  # at most once a minute

    await store.watch_secrets(FIRST, [SECOND, THIRD])  # back again: what it signs from now on is not watched
    assert {each.id: each.seen_at for each in await store.older_secrets()} == {SECOND: None, THIRD: None}
    await store.secret_seen(FIRST)  # by a process that has it as an older one
    assert {each.id for each in await store.older_secrets() if each.seen_at} == {FIRST}
