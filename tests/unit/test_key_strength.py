"""Keys that could be guessed are refused everywhere. Random keys are never refused."""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline import config, signing
from hookline.errors import ConfigError, InvalidInput
from hookline.model.endpoints import EndpointChange, NewEndpoint, Scheme, Secret
from hookline.rules.checks import catalogue
from hookline.rules.guard import Guard
from hookline.security.vault import new_key
from hookline.signing.key_strength import weakness, weakness_of_text
from tests.unit.test_catalogue import CURRENT

GUARD = Guard()
VECTORS = json.loads((Path(__file__).parents[1] / "data" / "signing.json").read_text())
WEAK = {
    "zeros": bytes(32),
    "one character": b"B" * 32,
    "two by turns": b"ab" * 16,
    "a short pattern": b"secret" * 5,
    "a longer pattern": b"0123456789abXY" * 3,
    "a pattern that is cut off": (b"correct horse" * 4)[:32],
    "counting up": bytes(range(32)),
    "counting down": bytes(range(255, 223, -1)),
    "counting by threes": bytes(range(0, 96, 3)),
    "counting over the end": bytes(each % 256 for each in range(240, 272)),
    "the alphabet": b"abcdefghijklmnopqrstuvwxyz",
    "digits and letters": b"0123456789abcdefghijklmnopqrstuv",
    "mostly one byte": b"x" * 26 + b"passwd",
}
weak = pytest.mark.parametrize("key", WEAK.values(), ids=WEAK)


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def new(key: str, scheme: Scheme = Scheme.STANDARD) -> NewEndpoint:
    return NewEndpoint(url="https://hooks.example.com/", secrets=(Secret(key=key),), scheme=scheme)


@weak
def test_a_weak_endpoint_secret_is_refused(key: bytes) -> None:
    with pytest.raises(InvalidInput, match="can be guessed"):
        catalogue.check_endpoint(new(f"whsec_{encoded(key)}"), GUARD)


@weak
def test_a_weak_rotated_secret_is_refused(key: bytes) -> None:
    current = CURRENT
    change = EndpointChange(secrets=(Secret(key=f"whsec_{encoded(key)}"), *current.secrets))
    with pytest.raises(InvalidInput, match="can be guessed"):
        catalogue.check_change(change, current, GUARD)


def test_a_weak_signing_key_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for seed in (bytes(32), bytes(range(32))):
        public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        with pytest.raises(InvalidInput, match="can be guessed"):
            catalogue.check_endpoint(new(f"whsk_{encoded(seed + public)}"), GUARD)


@pytest.mark.parametrize("scheme", [Scheme.HEX, Scheme.GITHUB, Scheme.STRIPE])
@pytest.mark.parametrize(
    "key", ["a" * 16, "0123456789abcdef", "abab" * 8, "password1" * 3, "whsec_" + "A" * 32, bytes(range(16)).hex()]
)
def test_a_weak_text_secret_is_refused(scheme: Scheme, key: str) -> None:
    with pytest.raises(InvalidInput, match="can be guessed"):
        catalogue.check_endpoint(new(key, scheme), GUARD)


def test_a_weak_secret_from_before_can_be_rotated_away() -> None:
    old = Secret(key=f"whsec_{encoded(bytes(32))}")
    current = replace(CURRENT, secrets=(old,))
    retired = Secret(key=old.key, expires_at=datetime.now(UTC) + timedelta(days=1))
    change = EndpointChange(secrets=(Secret(key=signing.new_secret()), retired))
    assert catalogue.check_change(change, current, GUARD) == change
    assert catalogue.check_change(EndpointChange(scheme=Scheme.SVIX), current, GUARD)


@weak
def test_weak_keys_of_the_deployment_are_refused(key: bytes) -> None:
    given = {
        "HOOKLINE_DATABASE_URL": "postgresql://db.example/hooks",
        "HOOKLINE_JWT_SECRET": encoded(random.Random(3).randbytes(32)),
    }
    strong = new_key()
    for setting in ("JWT_SECRET", "METRICS_TOKEN"):
        for text in (key.hex(), encoded(key)):
            with pytest.raises(ConfigError, match=f"HOOKLINE_{setting}: .*nobody can guess") as refused:
                config.load(given | {"HOOKLINE_SECRET_KEY": strong, f"HOOKLINE_{setting}": text})
            assert text not in str(refused.value)
    if len(key) == 32:
        with pytest.raises(ConfigError, match=r"HOOKLINE_SECRET_KEY: .*can be guessed"):
            config.load(given | {"HOOKLINE_SECRET_KEY": encoded(key)})
        assert config.load(given | {"HOOKLINE_SECRET_KEY": f"{strong},{encoded(key)}"})  # a weak old key may decrypt


# ── what is not refused ───────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 2**64), st.integers(24, 64))
def test_no_random_key_is_refused(seed: int, size: int) -> None:
    key = random.Random(seed).randbytes(size)
    assert weakness(key) is None
    assert weakness_of_text(key.hex()) is None
    assert weakness_of_text(encoded(key)) is None


def test_a_random_key_is_practically_never_refused() -> None:
    """Fewer than one in 10^22 of the shortest random keys has fewer than 8 different bytes or differences."""
    for size in (23, 24, 32):
        chances = [1.0]
        for _ in range(size):
            more = [*(chance * (256 - count) / 256 for count, chance in enumerate(chances))]
            same = [*(chance * count / 256 for count, chance in enumerate(chances)), 0.0]
            chances = [stay + come for stay, come in zip(same, [0.0, *more], strict=True)]
        assert sum(chances[:8]) < 1e-22


def test_no_published_test_key_is_refused() -> None:
    """The published test keys of Standard Webhooks and Svix can be set and verified with."""
    found = {text for text in _strings(VECTORS) if text.startswith("whsec_")}
    assert found
    for key in found:
        if 24 <= len(base64.b64decode(key.removeprefix("whsec_") + "==")) <= 64:
            catalogue.check_endpoint(new(key), GUARD)


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) else []
