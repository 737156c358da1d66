"""Keys, tokens and answers of the API are found by an index. With sequential scans off, one shows only where none would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest

from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import explain, indexes, scanned
from tests.support.scene import Scene

ENDS = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "args", "index"),
    [
        ("api_keys", ("org_1", "", 10), "api_key_list"),
        ("api_keys_back", ("org_1", "key_9", 10), "api_key_list"),
        ("api_key_by_hash", (b"h",), "api_key_hash_key"),
        ("api_key_touch", ("key_1",), "api_key_pkey"),
        ("token_revoked", (b"h",), "revoked_token_pkey"),
        ("answer", (b"k",), "answer_pkey"),
        ("answer_keep", (b"k", 1, 200, b"r", 60.0), "answer_pkey"),
        ("answer_drop", (b"k", 1), "answer_pkey"),
        ("retire_answer", (10,), "answer_age"),
        ("retire_token", (10,), "revoked_token_age"),
    ],
)
async def test_an_index_is_used(scene: Scene, name: str, args: tuple[object, ...], index: str) -> None:
    store = scene.store
    await store.revoke_token(b"h", ENDS)
    await store.hold_answer(b"k", b"r", 30)
    plan = await explain(cast(PostgresStore, store), name, *args)
    assert index in indexes(plan), plan
    assert scanned(plan) <= {"application"}
