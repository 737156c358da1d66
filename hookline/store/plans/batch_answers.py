"""Encode and replay the answer to a batch that has an idempotency key. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hookline.errors import NotFound
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch


class _Kept(Struct, frozen=True, kw_only=True, array_like=True):
    answers: tuple[Accepted, ...]
    faults: dict[int, str]


_decoder = msgspec.json.Decoder(_Kept)


def keep(accepted: BatchAccepted) -> bytes:
    return msgspec.json.encode(_Kept(answers=accepted.answers, faults=accepted.faults))


def accepted(batch: NewBatch, answers: Sequence[Accepted]) -> BatchAccepted:
    """Build the answer to a batch. Raises `NotFound` if the application does not exist."""
    if any(answer.status == IngestStatus.NO_APPLICATION for answer in answers):
        raise NotFound("the application was deleted")
    return BatchAccepted(status=IngestStatus.ACCEPTED, answers=tuple(answers), faults=batch.faults)


def again(batch: NewBatch, body: bytes, kept: bytes) -> BatchAccepted:
    """Return the stored answer to a repeated request. If the request's body differs, the status is KEY_REUSED."""
    if body != (batch.idempotency_body or b""):
        return BatchAccepted(status=IngestStatus.KEY_REUSED)
    found = _decoder.decode(kept)
    return BatchAccepted(status=IngestStatus.REPLAYED, answers=found.answers, faults=found.faults)
