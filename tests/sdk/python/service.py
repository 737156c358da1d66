from __future__ import annotations

from world import World


def healthy(world: World) -> None:
    assert world.svix.health.get() is None


CHECKS = (healthy,)
