"""The form that creates or edits an application."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from hookline.dashboard import components
from hookline.dashboard.draft_fields import DraftFields
from hookline.dashboard.page import Form, Page
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.draft import metadata, whole
from hookline.errors import HooklineError, InvalidInput
from hookline.model import Application, ApplicationChange, NewApplication
from hookline.services.errors import http_status
from hookline.web.html import Child, Safe, tag


class Draft(Struct, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    throttle_rate: str = ""
    metadata: str = ""  # JSON

    def new(self) -> NewApplication:
        return NewApplication(
            name=self.name,
            uid=self.uid or None,
            throttle_rate=whole("throttle_rate", self.throttle_rate),
            metadata=metadata(self.metadata),
        )

    def change(self) -> ApplicationChange:
        return ApplicationChange(**asdict(self.new()))


def of(app: Application) -> Draft:
    return Draft(
        name=app.name,
        uid=app.uid or "",
        throttle_rate="" if app.throttle_rate is None else str(app.throttle_rate),
        metadata=msgspec.json.encode(app.metadata).decode() if app.metadata else "",
    )


def read_draft(form: Form) -> Draft:
    return Draft(**{name: form.text(name) for name in Draft.__struct_fields__})


def page(
    context: PageContext, title: str, to: str, press: str, draft: Draft, error: HooklineError | None, back: Safe
) -> Page:
    """Return the page with the form. `to` is the path that the form posts to."""
    form = components.form(
        context,
        context.link(to),
        *_fields(draft, error),
        components.actions(tag("button", press, class_="button main")),
        class_="fill",
    )
    return Page(title=title, body=[form], aside=back, status=http_status(error))


def _fields(draft: Draft, error: HooklineError | None) -> list[Child]:
    """Return the fields. An error is shown beside its field, or above all fields if it is about none of them."""
    fields = Draft.__struct_fields__
    faults = {error.field: error.words} if isinstance(error, InvalidInput) and error.field in fields else {}
    field = DraftFields(draft, faults)
    return [
        components.verdict("dead", str(error)) if error and not faults else None,
        field("name", "Name", required=True, maxlength="1024"),
        field("uid", "Uid", hint="Your own id for this customer, for use in the API."),
        field("throttle_rate", "Maximum requests per second, for all endpoints together", inputmode="numeric"),
        field("metadata", "Metadata (JSON)", type_="textarea", rows="2"),
    ]
