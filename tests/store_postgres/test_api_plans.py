"""The API finds keys, tokens and kept answers by an index. Sequential scans are off, so one occurs only without an
index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import explain, indexes, scanned
from tests.support.scene import Scene

ENDS = datetime(2999, 1, 1, tzinfo=UTC)
VALUES: dict[str, object] = {
    "org_id": "org_1",
    "key_id": "key_1",
    "iterator": "key_5",
    "limit": 10,
    "hash": b"h",
    "key": b"k",
    "claim": 1,
    "status": 200,
    "response": b"r",
    "kept": timedelta(hours=1),
    "far": timedelta(hours=2),
}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("api_keys", "api_key_list"),
        ("api_keys_back", "api_key_list"),
        ("api_key_by_hash", "api_key_hash_key"),
        ("api_key_touch", "api_key_pkey"),
        ("token_revoked", "revoked_token_pkey"),
        ("answer", "answer_pkey"),
        ("answer_keep", "answer_pkey"),
        ("answer_drop", "answer_pkey"),
        ("retire_answer", "answer_age"),
        ("retire_token", "revoked_token_age"),
    ],
)
async def test_an_index_is_used(scene: Scene, name: str, index: str) -> None:
    store = scene.store
    await store.access.revoke_token(b"h", ENDS)
    await store.access.hold_answer(b"k", b"r", 30)
    args = (10,) if name.startswith("retire") else ()
    plan = await explain(cast(PostgresStore, store), name, *args, **VALUES)
    assert index in indexes(plan), plan
    assert scanned(plan) <= {"application"}
