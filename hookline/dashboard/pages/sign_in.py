"""The pages in front of the door: where operators and customers sign in. Pure."""

from __future__ import annotations

from msgspec import Struct

from hookline.dashboard.components import field
from hookline.dashboard.layout import document
from hookline.dashboard.static import url
from hookline.web.context import Brand
from hookline.web.html import Child, Safe, join, tag

LOGO = "/portal/logo"

_HINT = join(
    tag("code", "hookline token"),
    " prints one, ",
    tag("code", "hookline token --link"),
    " a link that signs in once; ",
    tag("code", "hookline operators add NAME"),
    " lets you set a password.",
)


class Asked(Struct, frozen=True, kw_only=True):
    """What the page is to say, and what was typed."""

    proof: str = ""
    onward: str = ""  # where to go then
    name: str = ""
    wrong: str | None = None
    news: str | None = None
    inside: str | None = None  # who has signed in already
    by_token: bool = False  # what went wrong was a key, not a password
    strange: bool = False  # another site has led here
    key: str = ""  # of a link that needs to be pressed


def operators(asked: Asked) -> Safe:
    return _framed(
        "Sign in",
        tag("h1", "Sign in to Hookline"),
        _said(asked),
        _already(asked),
        _strange() if asked.strange else None,
        _form(
            "/login",
            asked,
            field(
                "name",
                "Name",
                asked.name,
                autocomplete="username",
                autocapitalize="none",
                spellcheck="false",
                maxlength="200",
                required=True,
                autofocus=not asked.name and not asked.by_token,
            ),
            field(
                "password",
                "Password",
                type_="password",
                autocomplete="current-password",
                maxlength="256",
                required=True,
                autofocus=bool(asked.name),
            ),
            words="Sign in",
        ),
        tag("p", "or", class_="or quiet"),
        _form(
            "/login",
            asked,
            field(
                "token",
                "API key or token",
                type_="password",
                autocomplete="off",
                maxlength="4096",
                required=True,
                hint=_HINT,
                autofocus=asked.by_token,
            ),
            words="Sign in with it",
            kind="button",
        ),
    )


def customers(asked: Asked, brand: Brand) -> Safe:
    return _framed(
        "Sign in",
        tag("img", src=LOGO, alt="", class_="logo") if brand.logo else None,
        tag("h1", brand.name),
        _said(asked),
        tag(
            "p",
            "Open this page by the link that you were given: it signs you in. Links end after a while; get a new one where you "
            "found the last.",
            class_="quiet",
        ),
        _form(
            "/portal/login",
            asked,
            field(
                "key",
                "Or paste the link here",
                asked.key,
                type_="password",
                autocomplete="off",
                maxlength="8192",
                required=True,
            ),
            words="Open",
        ),
        brand=brand,
    )


def refused(title: str, words: str, back: str, *, brand: Brand | None = None) -> Safe:
    """Something that cannot be: no form to mend it."""
    return _framed(
        title,
        tag("h1", title),
        _alert(words),
        tag("p", tag("a", "Sign in", href=back)),
        brand=brand,
    )


def _framed(title: str, *body: Child, brand: Brand | None = None) -> Safe:
    return document(
        title,
        tag("link", rel="stylesheet", href=url("entrance.css")),
        tag("main", *body, class_="entrance", id="content"),
        tag("script", src=url("entrance.js"), type="module"),
        brand="Hookline" if brand is None else brand.name,
        portal=brand is not None,
    )


def _form(path: str, asked: Asked, *fields: Child, words: str, kind: str = "button main") -> Safe:
    hidden = {"csrf": asked.proof, "next": asked.onward, "pressed": "1"}  # a script that sends it by itself says so
    return tag(
        "form",
        *(tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()),
        *fields,
        tag("button", words, class_=kind),
        method="post",
        action=path,
        class_="card",
    )


def _said(asked: Asked) -> Safe:
    wrong = _alert(asked.wrong) if asked.wrong else None
    news = tag("p", asked.news, role="status", class_="quiet") if asked.news else None
    return join(wrong, news)


def _alert(words: str) -> Safe:
    return tag("p", f"✕ {words[:1].upper()}{words[1:]}", role="alert", class_="state dead")


def _strange() -> Safe:
    """The script shows it where the link has a key or token, which then waits for its reader."""
    words = "Another site has opened this page, with a key or token that signs you in. Go on only if you expected that."
    return tag("p", words, role="alert", class_="state scheduled", hidden=True, data_asks=True)


def _already(asked: Asked) -> Safe | None:
    if asked.inside is None:
        return None
    onward = tag("a", "Go on to the dashboard", href=asked.onward or "/", data_inside=True)
    return tag("p", f"You are signed in ({asked.inside}). ", onward)
