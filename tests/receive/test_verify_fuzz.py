"""The verifier under fire; `tests/receive/fuzz.py` says with what, and runs for longer by hand."""

from __future__ import annotations

from hookline.receive import VerificationCode
from tests.receive import fuzz
from tests.receive.senders import SENDERS


def test_a_webhook_or_the_one_error() -> None:
    found = fuzz.run(1500)
    assert {
        scheme for scheme, outcome in found if outcome == "accepted"
    } == SENDERS.keys()  # it gets all the way through
    assert {outcome for _, outcome in found} == {"accepted", "invalid_input", *VerificationCode}
