"""The database file is deleted while a process has it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.errors import StoreUnavailable
from hookline.security.vault import Vault, new_key
from hookline.store import StoreOptions, open_store
from tests.support import factory


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
async def test_nothing_is_acknowledged_after_the_file_is_deleted(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "hookline.db"
    store = await open_store(f"sqlite:///{path}", vault=Vault([new_key()]), options=StoreOptions())
    await store.migrate()
    organization = await store.catalogue.save_organization(factory.organization())
    path.rename(tmp_path / "elsewhere.db")
    if replaced:
        path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await store.catalogue.create_application(organization.id, factory.new_application())
    await store.close()
