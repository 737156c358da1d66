"""The stored form of keys and responses."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.receive.idempotency.keys import (
    KeyStoreUnavailable,
    StoredResponse,
    decode,
    encode,
    key_of,
)

DONE = StoredResponse(200, ((b"content-type", b"text/plain"),), b"done")


RESPONSES = st.builds(
    StoredResponse,
    st.integers(100, 599),
    st.lists(st.tuples(st.binary(), st.binary())).map(tuple),
    st.binary(),
)


@given(RESPONSES)
def test_a_response_is_read_as_it_was_written(response: StoredResponse) -> None:
    assert decode(encode(response)) == response


@given(st.binary() | st.binary().map(lambda rest: b"\x01" + rest))
def test_an_unreadable_response_raises_one_kind_of_error(raw: bytes) -> None:
    with suppress(KeyStoreUnavailable):
        decode(raw)


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x02" + encode(DONE)[1:], encode(DONE)[:-1], encode(DONE) + b"\0"])
def test_a_response_stored_by_another_release_is_refused(raw: bytes) -> None:
    with pytest.raises(KeyStoreUnavailable):
        decode(raw)


@given(st.lists(st.text()), st.text())
def test_another_scope_is_another_key(scope: list[str], given_key: str) -> None:
    key = key_of(scope, given_key)
    assert len(key) == 32
    assert key == key_of([part.encode() for part in scope], given_key.encode())
    assert key != key_of([*scope, given_key], "")
    assert key != key_of([*scope, ""], given_key)


LOADED = """
import sys
import hookline.receive.stores.sqlite, hookline.receive.stores.postgres, hookline.receive.stores.redis
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_a_store_imports_only_its_own_driver() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert {"psycopg", "psycopg_pool", "asyncpg", "redis", "starlette", "django"}.isdisjoint(done.stdout.split())
