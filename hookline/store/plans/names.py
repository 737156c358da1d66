"""Names of applications and endpoints by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import normalize

from hookline.model.catalogue import Application
from hookline.model.endpoints import EndpointName
from hookline.store.pages import Page, Walk
from hookline.store.plans.plan import Plan, Plans, Step, reads
from hookline.store.rows import Row

MAX_SEARCHED = 2_000  # maximum applications that one search reads, because no index finds a part of a name


class Names(Plans):
    """Look up the names of applications and endpoints by id, many at once. Ids that do not exist are missing in the
    result."""

    @reads
    def application_names(self, org_id: str, app_ids: Iterable[str]) -> Plan[dict[str, str]]:
        """Return the names of these applications by id."""
        found = yield Step("application_names", org_id=org_id, ids=list(app_ids))
        return {each["id"]: each["name"] for each in found}

    @reads
    def endpoint_names(self, endpoint_ids: Iterable[str]) -> Plan[dict[str, EndpointName]]:
        """Return the names of these endpoints by id, in any organization. Deleted endpoints are included until they
        are removed."""
        found = yield Step("endpoint_names", ids=list(endpoint_ids))
        return {each["id"]: self._reading.struct(EndpointName, each) for each in found}

    @reads
    def applications_called(self, org_id: str, text: str, page: Page) -> Plan[Walk[Application]]:
        """Return applications with the text in their name or uid, ordered by id. One call searches a limited number of
        applications and returns where to continue."""
        looked = yield Step("application_words", org_id=org_id, iterator=page.iterator or "", looked=MAX_SEARCHED)
        ids, end = matching(looked, text, page.limit)
        found = yield Step("applications_by_id", org_id=org_id, ids=ids)
        return Walk(rows=[self._reading.struct(Application, each) for each in found], end=end)


def matching(found: Sequence[Row], text: str, limit: int) -> tuple[list[str], str | None]:
    """Return the ids of rows with the text in their name or uid, ignoring case. If these ids do not fill a
    page and there may be rows after `found`, also return the id after which to continue."""
    wanted = _folded(text)
    ids = [
        row["id"]
        for row in found
        if wanted in _folded(row["name"]) or (row["uid"] is not None and wanted in _folded(row["uid"]))
    ]
    if len(ids) >= limit:
        return ids[:limit], None
    return ids, found[-1]["id"] if len(found) == MAX_SEARCHED else None


def _folded(text: str) -> str:
    """Remove case differences and use one Unicode form for letters with accents."""
    return text.casefold() if text.isascii() else normalize("NFKC", text).casefold()
