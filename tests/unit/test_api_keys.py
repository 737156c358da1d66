"""API keys: their format, their checksum and their hash."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import SignatureError
from hookline.security import api_keys


def test_the_format_matches_secret_scanners() -> None:
    made = {api_keys.make() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"hk_[0-9A-Za-z]{38}", key) for key in made)
    assert all(api_keys.check(key) == key for key in made)


def test_a_key_of_an_earlier_release_still_fits() -> None:
    assert api_keys.check("hk_0123456789abcdefghijklmnopqrstuv2CRUDD")


@given(st.integers(3, 40), st.sampled_from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
def test_one_wrong_character_fails_the_checksum(position: int, letter: str) -> None:
    key = api_keys.make()
    wrong = key[:position] + letter + key[position + 1 :]
    if wrong != key:
        with pytest.raises(SignatureError, match="mistyped"):
            api_keys.check(wrong)


@given(st.text())
def test_other_text_is_not_a_key(text: str) -> None:
    for wrong in (text, f"hk_{text}"):
        with pytest.raises(SignatureError):
            api_keys.check(wrong)


def test_hash_and_hint() -> None:
    key = api_keys.make()
    assert len(api_keys.hashed(key)) == 32
    assert api_keys.hashed(key) == api_keys.hashed(str(key))
    assert api_keys.hashed(key) != api_keys.hashed(api_keys.make())
    assert key.endswith(api_keys.hint(key))
    assert len(api_keys.hint(key)) == 4
