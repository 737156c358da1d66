"""A fixture that reads the metrics of one process over a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.measured import Measured, measuring
from tests.support.receiver import Receiver
from tests.support.scene import Scene


@pytest.fixture
async def measured(scene: Scene) -> AsyncIterator[Measured]:
    async with measuring(scene) as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found
