"""The decisions of a claim that both engines share. Pure; the engines ask under the lanes' locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hookline.flow.lane import Admission, admit
from hookline.model import CircuitPolicy, Lane


def fair_quota(want: int, lanes: int) -> int:
    """One lane's part of what is wanted when `lanes` of them share it: rounded up, so that no slot stays empty."""
    return -(-want // lanes) if lanes > 0 else 0


def admissions(
    lanes: Sequence[Lane],
    *,
    now: datetime,
    want: int,
    held: Mapping[int, int],
    share: int,
    policy: CircuitPolicy,
) -> list[Admission]:
    """One admission per lane, in order, together at most `want`. What a lane may not take goes to those after it."""
    admitted = []
    left = want
    for index, lane in enumerate(lanes):
        part = fair_quota(left, len(lanes) - index)
        crowded = share - held.get(lane.endpoint_no, 0)
        admission = admit(lane, now=now, want=part, crowded=crowded, policy=policy)
        left -= admission.quota
        admitted.append(admission)
    return admitted
