"""What one program of a job queue does. Needs only the standard library, because the programs import it too."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    url: str
    secret: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    url: str  # of the database or of Redis
    endpoints: list[Endpoint]  # get the messages in turn
    messages: int
    body: str
    rate: int = 0  # messages per second of the flow
    concurrency: int = 256  # requests in flight

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**found | {"endpoints": [Endpoint(**each) for each in found["endpoints"]]})
