"""What things are called, for pages that have their ids."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import Application, EndpointName
from hookline.store import names, rows
from hookline.store.postgres.base import READ, Part
from hookline.store.protocols import Page, Walk


class Names(Part):
    async def application_names(self, org_id: str, app_ids: Iterable[str]) -> dict[str, str]:
        found = await self._db.fetch("application_names", org_id, list(app_ids))
        return {row["id"]: row["name"] for row in found}

    async def endpoint_names(self, endpoint_ids: Iterable[str]) -> dict[str, EndpointName]:
        found = await self._db.fetch("endpoint_names", list(endpoint_ids))
        return {row["id"]: rows.endpoint_name(row) for row in found}

    async def applications_called(self, org_id: str, text: str, page: Page) -> Walk[Application]:
        looked = await self._db.fetch("application_words", org_id, page.iterator or "", names.LOOKED)
        ids, end = names.matching(looked, text, page.limit)
        found = await self._db.fetch("applications_by_id", org_id, ids)
        return Walk(rows=[rows.application(row, READ) for row in found], end=end)
