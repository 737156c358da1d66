"""Passwords: which ones are accepted, and that only the right one matches the stored hash."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest

from hookline import clock
from hookline.errors import InvalidInput
from hookline.model.actors import Scope
from hookline.model.operators import Operator, operator_name
from hookline.security import passwords

RIGHT = "correct horse battery staple"


def test_only_the_right_one_matches() -> None:
    kept = passwords.hashed(RIGHT)
    assert passwords.matches(RIGHT, kept)
    for wrong in ("", RIGHT + " ", RIGHT.upper(), "x" * 10_000):
        assert not passwords.matches(wrong, kept)
    assert RIGHT not in kept


def test_each_has_a_salt_of_its_own() -> None:
    assert passwords.hashed(RIGHT) != passwords.hashed(RIGHT)


def test_an_unknown_name_matches_no_password() -> None:
    assert not passwords.matches(RIGHT, None)


def test_an_unknown_name_costs_the_same_work_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test compares the parameters of scrypt, not the time, because the time depends on how busy the machine is."""
    kept = passwords.hashed(RIGHT)
    asked: list[dict[str, object]] = []
    scrypt = hashlib.scrypt

    def watched(password: bytes, **cost: object) -> bytes:
        asked.append({name: value for name, value in cost.items() if name != "salt"})
        return scrypt(password, **cost)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "scrypt", watched)
    passwords.matches("wrong", kept)
    passwords.matches("wrong", None)
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert int(str(asked[0]["n"])) * int(str(asked[0]["r"])) * int(str(asked[0]["p"])) >= 2**15 * 8 * 3


def test_a_hash_with_another_cost_still_matches() -> None:
    salt = b"0123456789abcdef"
    key = hashlib.scrypt(RIGHT.encode(), salt=salt, n=2**12, r=8, p=1, dklen=32)
    kept = f"scrypt$12$8$1${b64encode(salt).decode()}${b64encode(key).decode()}"
    assert passwords.matches(RIGHT, kept)
    assert not passwords.matches("another one", kept)


def test_unicode_normalization_makes_equal_letters_match() -> None:
    assert passwords.matches("cafe\u0301 au lait noir", passwords.hashed("caf\u00e9 au lait noir"))


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "plain",
        "scrypt$99$8$3$AAAA$AAAA",
        "scrypt$15$8$3$AAAA$AAAA",
        "scrypt$x$8$3$AAAA$AAAA",
        "argon2$15$8$3$AAAA$" + "A" * 43 + "=",
        "scrypt$15$8$3$\u00e9$AAAA",
    ],
)
def test_a_stored_hash_of_unknown_form_matches_nothing(kept: str) -> None:
    with pytest.raises(InvalidInput):
        passwords.matches("", kept)


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("", "at least 12"),
        ("elevenchars", "at least 12"),
        ("x" * 257, "at most 256"),
        ("with a line\nend", "control"),
        ("with a nul\x00 in it", "control"),
        ("\ud800 lone surrogate", "control"),
        ("I am Ada, Queen", "name"),
        ("aaaaaaaaaaaaab", "different"),
    ],
)
def test_weak_passwords_are_refused(password: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as found:
        passwords.check(password, "ada")
    assert not password or password not in str(found.value)


def test_strong_passwords_are_accepted() -> None:
    for password in (RIGHT, "p4ssw0rd-p4ssw0rd", "пароль из слов", "x" * 20 + "abcd", " spaces around "):
        assert passwords.check(password, "ada") == password


def test_an_operators_password_is_in_no_repr() -> None:
    kept = passwords.hashed(RIGHT)
    someone = Operator(name="ada", org_id="org_1", role=Scope.READ, password=kept, created_at=clock.EPOCH)
    assert kept not in repr(someone)


@pytest.mark.parametrize("typed", ["ada", " Ada ", "ADA"])
def test_a_name_is_one_name_however_it_is_typed(typed: str) -> None:
    assert operator_name(typed) == "ada"


@pytest.mark.parametrize("typed", ["", " ", "-ada", "ada-", "a da", "ad\u00e0", "a" * 101, "<b>", "a\nda", "a\x00"])
def test_invalid_names_are_refused(typed: str) -> None:
    with pytest.raises(InvalidInput):
        operator_name(typed)
