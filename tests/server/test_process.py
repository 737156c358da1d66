"""Checks that a process makes before it starts to work."""

from __future__ import annotations

import pytest

from hookline.errors import VaultError
from hookline.security.vault import Vault, new_key
from hookline.server.process import check_keys
from hookline.store import StoreOptions, open_store
from tests.support.scene import Scene


async def test_a_worker_with_the_wrong_key_does_not_start(scene: Scene, database_url: str) -> None:
    """A worker with the wrong key would turn all waiting deliveries into dead letters."""
    await scene.endpoint()
    await check_keys(scene.store)
    stranger = await open_store(database_url, vault=Vault([new_key()]), options=StoreOptions(pool_size=2))
    with pytest.raises(VaultError, match="HOOKLINE_SECRET_KEY"):
        await check_keys(stranger)
    await stranger.close()


async def test_a_database_without_endpoints_needs_no_key(scene: Scene) -> None:
    await check_keys(scene.store)
