"""The sign-in pages of operators and customers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.layout import document
from hookline.dashboard.static import url
from hookline.web.context import Brand
from hookline.web.html import Child, Safe, join, tag

LOGO = "/portal/logo"

_HINT = components.with_code(
    "`hookline token` prints a token, `hookline token --link` a link that signs you in once, and "
    "`hookline operators add NAME` lets you set a password."
)


class SignInForm(Struct, frozen=True, kw_only=True):
    """The texts of the sign-in page, and the values that were typed."""

    proof: str = ""  # CSRF token
    onward: str = ""  # path to open after sign-in
    name: str = ""
    wrong: str | None = None  # error text
    news: str | None = None  # other text for the user, such as "You have signed out."
    inside: str | None = None  # name of the viewer who is already signed in
    by_token: bool = False  # the user tried a key or token, not a password
    # A page of another origin opened this page, by a link, a form or a script. Another origin of the same site counts
    # too.
    strange: bool = False
    key: str = ""  # key of a portal link that the user must confirm


def operators(form: SignInForm) -> Safe:
    name = _field(
        "name",
        "Name",
        form.name,
        type_="text",
        autocomplete="username",
        autocapitalize="none",
        spellcheck="false",
        maxlength="200",
        autofocus=not form.name and not form.by_token,
    )
    known = bool(form.name)
    password = _field("password", "Password", autocomplete="current-password", maxlength="256", autofocus=known)
    token = _field("token", "API key or token", maxlength="4096", hint=_HINT, autofocus=form.by_token)
    return _document(
        "Sign in",
        tag("h1", "Sign in to Hookline"),
        _messages(form),
        _already_signed_in(form),
        _foreign_link_warning() if form.strange else None,
        _form("/login", form, name, password, words="Sign in"),
        tag("p", "or", class_="or quiet"),
        _form("/login", form, token, words="Sign in with it", kind="button"),
    )


def customers(form: SignInForm, brand: Brand) -> Safe:
    words = (
        "Open this page with the link that you received. It signs you in. Links expire; get a new one from the page that "
        "gave you the last one."
    )
    return _document(
        "Sign in",
        tag("img", src=LOGO, alt="", class_="logo") if brand.logo else None,
        tag("h1", brand.name),
        _messages(form),
        tag("p", words, class_="quiet"),
        _form("/portal/login", form, _field("key", "Or paste the link here", form.key, maxlength="8192"), words="Open"),
        brand=brand,
    )


def _field(name: str, label: str, value: str = "", *, autocomplete: str = "off", **attributes: Any) -> Safe:
    """Return a required field. It is a password field, unless `type_` says otherwise."""
    given = {"type_": "password", **attributes}
    return components.field(name, label, value, autocomplete=autocomplete, required=True, **given)


def refused(title: str, words: str, back: str, *, brand: Brand | None = None) -> Safe:
    """Return an error page without a form, for errors that the user cannot correct."""
    return _document(title, tag("h1", title), _alert(words), tag("p", tag("a", "Sign in", href=back)), brand=brand)


def _document(title: str, *body: Child, brand: Brand | None = None) -> Safe:
    return document(
        title,
        tag("link", rel="stylesheet", href=url("entrance.css")),
        tag("main", *body, class_="entrance", id="content"),
        tag("script", src=url("entrance.js"), type="module"),
        brand="Hookline" if brand is None else brand.name,
        portal=brand is not None,
    )


def _form(path: str, form: SignInForm, *fields: Child, words: str, kind: str = "button main") -> Safe:
    # The field `pressed` means that a person pressed the button. The script that signs in with a link clears the field.
    hidden = {"csrf": form.proof, "next": form.onward, "pressed": "1"}
    return tag(
        "form",
        *(tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()),
        *fields,
        tag("button", words, class_=kind),
        method="post",
        action=path,
        class_="card",
    )


def _messages(form: SignInForm) -> Safe:
    wrong = _alert(form.wrong) if form.wrong else None
    news = tag("p", form.news, role="status", class_="quiet") if form.news else None
    return join(wrong, news)


def _alert(words: str) -> Safe:
    return tag("p", f"✕ {words[:1].upper()}{words[1:]}", role="alert", class_="state dead")


def _foreign_link_warning() -> Safe:
    """Return a hidden warning, for a sign-in page that a page of another origin opened (`SignInForm.strange`).

    If the address contains a key or token, a script shows the warning and waits until the user presses the button.
    """
    words = "Another site opened this page with a key or token that signs you in. Continue only if you expected this."
    return tag("p", words, role="alert", class_="state scheduled", hidden=True, data_asks=True)


def _already_signed_in(form: SignInForm) -> Safe | None:
    if form.inside is None:
        return None
    onward = tag("a", "Continue to the dashboard", href=form.onward or "/", data_inside=True)
    return tag("p", f"You are signed in ({form.inside}). ", onward)
