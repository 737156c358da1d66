"""Organizations. Most deployments have only the default one."""

from __future__ import annotations

from datetime import datetime

from hookline import ids
from hookline.errors import NoSuch
from hookline.model.catalogue import Organization
from hookline.store import Store


async def open_or_create(store: Store, org_id: str, now: datetime) -> Organization:
    """Return the organization with this id. If the default organization does not exist, create it. If another
    organization does not exist, raise `NoSuch`."""
    found = await store.catalogue.organization(org_id)
    if found is not None:
        return found
    if org_id != ids.DEFAULT_ORG:
        raise NoSuch("organization", org_id)
    return await store.catalogue.save_organization(Organization(id=org_id, name="default", created_at=now))


async def check(store: Store, org_id: str) -> None:
    """Check that the organization exists. The default organization always passes, because it is created on first
    use."""
    if org_id != ids.DEFAULT_ORG and await store.catalogue.organization(org_id) is None:
        raise NoSuch("organization", org_id)
