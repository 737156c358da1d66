"""A short run of the fuzz test in `tests/receive/fuzz.py`."""

from __future__ import annotations

from hookline.receive import VerificationCode
from tests.receive import fuzz
from tests.receive.senders import SENDERS


def test_a_webhook_or_the_one_error() -> None:
    found = fuzz.run(1500)
    assert {
        scheme for scheme, outcome in found if outcome == "accepted"
    } == SENDERS.keys()  # Some cases reach the end of the verification.
    assert {outcome for _, outcome in found} == {"accepted", "invalid_input", *VerificationCode}
