"""White label: the operator's own name, colour and logo in the portal."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookline.dashboard.pages.sign_in import LOGO
from hookline.dashboard.security_headers import SANDBOXED
from hookline.errors import ConfigError
from hookline.web.context import Brand

STYLE = "/portal/brand.css"
MAX_LOGO = 256 * 1024  # bytes
CACHED = {"cache-control": "public, max-age=300"}

MIN_CONTRAST = 4.5  # contrast of text that WCAG requires
# The background colours of the accent in style.css: `--ground` (also `--on-accent`), `--raised`, `--sunken`.
LIGHT = ("#ffffff", "#f6f7f9", "#eef0f3")
DARK = ("#0f1216", "#161a20", "#1e242c")

_Color = tuple[int, int, int]


def routes(brand: Brand) -> list[BaseRoute]:
    logo = None if brand.logo is None else read_logo(Path(brand.logo))
    css = style(brand.color)

    async def show_style(_request: Request) -> Response:
        return Response(css, headers={**SANDBOXED, **CACHED}, media_type="text/css")

    async def show_logo(_request: Request) -> Response:
        if logo is None:
            return Response("no logo is configured", 404, SANDBOXED, media_type="text/plain")
        return Response(logo.content, headers={**SANDBOXED, **CACHED, "content-type": logo.kind})

    return [Route(STYLE, show_style, methods=["GET"]), Route(LOGO, show_logo, methods=["GET"])]


# ── colour ────────────────────────────────────────────────────────────────────────────────────────────────────


def style(color: str | None) -> str:
    """Return a style sheet that is loaded after style.css."""
    if color is None:
        return ""
    return f":root {{ --accent: light-dark({legible(color, LIGHT)}, {legible(color, DARK)}); }}\n"


def legible(color: str, grounds: tuple[str, ...]) -> str:
    """Return the most similar colour that has enough contrast on all these backgrounds: darker on light, lighter on dark."""
    found = _read(color)
    goal = (0, 0, 0) if _luminance(_read(grounds[0])) > 0.5 else (255, 255, 255)
    for step in range(101):
        tried = _mixed(found, goal, step / 100)
        if all(contrast(_text(tried), ground) >= MIN_CONTRAST for ground in grounds):
            return _text(tried)
    raise ValueError(f"no colour has enough contrast on {grounds}")


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG, from 1 to 21."""
    low, high = sorted((_luminance(_read(one)), _luminance(_read(other))))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: _Color) -> float:
    """Return the relative luminance of WCAG."""
    red, green, blue = (_linear(part / 255) for part in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _mixed(one: _Color, other: _Color, part: float) -> _Color:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _read(color: str) -> _Color:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _text(color: _Color) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


# ── logo ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Logo(Struct, frozen=True):
    content: bytes
    kind: str


def read_logo(path: Path) -> Logo:
    """Read the logo. Its content decides the media type, not its file name."""
    try:
        content = path.read_bytes() if path.stat().st_size <= MAX_LOGO else None
    except OSError as error:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path}: {error.strerror}") from None
    if content is None:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path} is larger than {MAX_LOGO // 1024} KiB")
    kind = picture(content)
    if kind is None:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path} is not a PNG, SVG, JPEG or WebP image")
    return Logo(content, kind)


def picture(content: bytes) -> str | None:
    """Return the media type by the first bytes of the file, or None."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!--", b"<!DOCTYPE svg")) and b"<svg" in content):
        return "image/svg+xml"
    return None
