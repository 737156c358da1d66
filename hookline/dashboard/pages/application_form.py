"""An application as it stands in a form. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.page import Form
from hookline.errors import InvalidInput
from hookline.model import Application, ApplicationChange, NewApplication
from hookline.rules.checks.text import shown
from hookline.web.html import Child


class Draft(Struct, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    throttle_rate: str = ""
    metadata: str = ""  # JSON

    def new(self) -> NewApplication:
        return NewApplication(
            name=self.name, uid=self.uid or None, throttle_rate=self._rate(), metadata=self._metadata()
        )

    def change(self) -> ApplicationChange:
        return ApplicationChange(
            name=self.name, uid=self.uid or None, throttle_rate=self._rate(), metadata=self._metadata()
        )

    def _rate(self) -> int | None:
        if not self.throttle_rate:
            return None
        if not (self.throttle_rate.isascii() and self.throttle_rate.isdigit() and len(self.throttle_rate) < 10):
            raise InvalidInput(f"{shown(self.throttle_rate)} is not a whole number", field="throttle_rate")
        return int(self.throttle_rate)

    def _metadata(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self.metadata, type=dict[str, str]) if self.metadata else {}
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            raise InvalidInput('is not a JSON object of texts, such as {"plan": "gold"}', field="metadata") from None


def of(app: Application) -> Draft:
    return Draft(
        name=app.name,
        uid=app.uid or "",
        throttle_rate="" if app.throttle_rate is None else str(app.throttle_rate),
        metadata=msgspec.json.encode(app.metadata).decode() if app.metadata else "",
    )


def read_draft(form: Form) -> Draft:
    return Draft(**{name: form.text(name) for name in Draft.__struct_fields__})


def fields(draft: Draft, error: str | None) -> list[Child]:
    """With what is wrong beside the field that it is about, or above them all."""
    name, colon, words = (error or "").partition(": ")
    faults = {name: words} if colon and name in Draft.__struct_fields__ else {}
    return [
        components.verdict("dead", error) if error and not faults else None,
        components.field("name", "Name", draft.name, error=faults.get("name"), required=True, maxlength="1024"),
        components.field(
            "uid", "Uid", draft.uid, hint="Your own name for this customer, in the API.", error=faults.get("uid")
        ),
        components.field(
            "throttle_rate",
            "Requests a second at most, to all of its endpoints together",
            draft.throttle_rate,
            error=faults.get("throttle_rate"),
            inputmode="numeric",
        ),
        components.field(
            "metadata", "Metadata, as JSON", draft.metadata, error=faults.get("metadata"), type_="textarea", rows="2"
        ),
    ]
