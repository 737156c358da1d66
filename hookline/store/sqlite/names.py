"""What things are called, for pages that have their ids."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import Application, EndpointName
from hookline.store import names, rows
from hookline.store.protocols import Page, Walk
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.transaction import READ, Tx, texts


class Names(Base):
    async def application_names(self, org_id: str, app_ids: Iterable[str]) -> dict[str, str]:
        return await self._read(_application_names, org_id, list(app_ids))

    async def endpoint_names(self, endpoint_ids: Iterable[str]) -> dict[str, EndpointName]:
        return await self._read(_endpoint_names, list(endpoint_ids))

    async def applications_called(self, org_id: str, text: str, page: Page) -> Walk[Application]:
        return await self._read(_applications_called, org_id, text, page)


def _application_names(tx: Tx, org_id: str, app_ids: list[str]) -> dict[str, str]:
    return dict(tx.tuples("application_names", {"org_id": org_id, "ids": texts(app_ids)}))


def _endpoint_names(tx: Tx, endpoint_ids: list[str]) -> dict[str, EndpointName]:
    found = tx.rows("endpoint_names", {"ids": texts(endpoint_ids)})
    return {row["id"]: rows.endpoint_name(row) for row in found}


def _applications_called(tx: Tx, org_id: str, text: str, page: Page) -> Walk[Application]:
    params = {"org_id": org_id, "iterator": page.iterator or "", "looked": names.LOOKED}
    ids, end = names.matching(tx.rows("application_words", params), text, page.limit)
    found = tx.rows("applications_by_id", {"org_id": org_id, "ids": texts(ids)})
    return Walk(rows=sorted((rows.application(row, READ) for row in found), key=lambda app: app.id), end=end)
