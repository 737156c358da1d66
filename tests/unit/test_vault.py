"""An encrypted value opens only in its own row, with its own key, and unchanged."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import ConfigError, VaultError
from hookline.security.vault import Vault, new_key

OLD, NEW, STRANGER = (base64.b64encode(bytes([letter]) * 32).decode() for letter in b"onx")
PLAIN, ROW = b'["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]', "ep_2y7XqmB0cVtP4nSdLwRk9uEfGhJ"

rows = st.text(max_size=40)


@given(plain=st.binary(max_size=300), row=rows)
def test_a_sealed_value_opens_again(plain: bytes, row: str) -> None:
    vault = Vault([NEW])
    assert vault.open(vault.seal(plain, row), row) == plain


def test_the_format_is_version_key_id_nonce_ciphertext_and_tag() -> None:
    first, second = (Vault([NEW]).seal(PLAIN, ROW) for _ in range(2))
    other_key = Vault([OLD]).seal(PLAIN, ROW)
    assert len(first) == 1 + 4 + 12 + len(PLAIN) + 16
    assert first[0] == second[0] == other_key[0] == 1
    assert first[1:5] == second[1:5] != other_key[1:5]
    assert first[5:17] != second[5:17]
    assert first[17:] != second[17:]
    assert PLAIN[:8] not in first


def test_a_changed_bit_is_detected() -> None:
    vault = Vault([NEW, OLD])
    sealed = vault.seal(PLAIN, ROW)
    for place in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[place] ^= 1 << bit
            with pytest.raises(VaultError):
                vault.open(bytes(changed), ROW)


def test_a_changed_length_is_detected() -> None:
    vault = Vault([NEW])
    sealed = vault.seal(PLAIN, ROW)
    for length in range(len(sealed)):
        with pytest.raises(VaultError):
            vault.open(sealed[:length], ROW)
    with pytest.raises(VaultError):
        vault.open(sealed + b"\x00", ROW)


@given(row=rows)
def test_it_does_not_open_in_another_row(row: str) -> None:
    vault = Vault([NEW])
    sealed = vault.seal(PLAIN, ROW)
    if row != ROW:
        with pytest.raises(VaultError, match="belongs to another row"):
            vault.open(sealed, row)


def test_it_does_not_open_under_the_name_of_another_key() -> None:
    """Both keys are configured. The relabelled text finds a key, and that key does not open it."""
    vault = Vault([NEW, OLD])
    by_new, by_old = vault.seal(PLAIN, ROW), Vault([OLD]).seal(PLAIN, ROW)
    with pytest.raises(VaultError, match="was changed"):
        vault.open(by_old[:5] + by_new[5:], ROW)


def test_a_value_sealed_by_another_release_has_its_own_error() -> None:
    vault = Vault([NEW])
    with pytest.raises(VaultError, match="not sealed by this release"):
        vault.open(b"\x02" + vault.seal(PLAIN, ROW)[1:], ROW)


@given(sealed=st.binary(max_size=80) | st.binary(max_size=80).map(Vault([NEW]).seal(b"", "")[:5].__add__))
def test_garbage_is_a_vault_error_and_nothing_else(sealed: bytes) -> None:
    with pytest.raises(VaultError):
        Vault([NEW]).open(sealed, ROW)


def test_rotation_the_first_key_seals_and_every_key_opens() -> None:
    before, during, after = Vault([OLD]), Vault([NEW, OLD]), Vault([NEW])
    sealed_before = before.seal(b"before", "row 1")
    assert during.open(sealed_before, "row 1") == b"before"
    sealed_during = during.seal(b"during", "row 2")
    assert after.open(sealed_during, "row 2") == b"during"
    with pytest.raises(VaultError, match="key that is not configured"):
        before.open(sealed_during, "row 2")
    with pytest.raises(VaultError, match="key that is not configured"):
        after.open(sealed_before, "row 1")


def test_new_keys_are_good_and_different() -> None:
    made = [new_key() for _ in range(20)]
    assert len(set(made)) == 20
    vault = Vault(made)
    assert vault.open(Vault(made[-1:]).seal(PLAIN, ROW), ROW) == PLAIN


def test_the_line_that_openssl_prints_is_taken_as_it_is() -> None:
    sealed = Vault([f" {NEW}\n"]).seal(PLAIN, ROW)
    assert Vault([NEW]).open(sealed, ROW) == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "é" * 44,
        NEW[:-1],
        NEW + "AAAA",
        "ab" * 32,  # hexadecimal, which is also valid base64 of 48 bytes
        base64.b64encode(bytes(16)).decode(),
        base64.b64encode(bytes(31)).decode(),
        base64.b64encode(bytes(33)).decode(),
    ],
)
def test_bad_keys_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="32 bytes in base64") as caught:
        Vault([NEW, text])
    assert not text or text not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_are_required_and_unique() -> None:
    with pytest.raises(ConfigError, match="no secret key"):
        Vault([])
    with pytest.raises(ConfigError, match="twice") as caught:
        Vault([NEW, OLD, NEW])
    assert NEW not in str(caught.value)


def test_neither_repr_nor_errors_show_a_key_or_the_plain_text() -> None:
    vault = Vault([NEW, OLD])
    with pytest.raises(VaultError) as changed:
        vault.open(vault.seal(PLAIN, ROW), "ep_another")
    with pytest.raises(VaultError) as unknown:
        vault.open(Vault([STRANGER]).seal(PLAIN, ROW), ROW)
    for text in (repr(vault), str(vault), repr(changed.value), repr(unknown.value)):
        for hidden in (NEW, OLD, STRANGER, "n" * 32, "o" * 32, "MfKQ9r8GKYqr"):
            assert hidden not in text
