"""White label: the portal shows the name, colour and logo of the company that runs Hookline."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookline.dashboard.pages.sign_in import LOGO
from hookline.dashboard.security_headers import SANDBOXED
from hookline.errors import ConfigError
from hookline.web.context import Brand

STYLE = "/portal/brand.css"
MAX_LOGO = 256 * 1024  # bytes of the logo file
CACHED = {"cache-control": "public, max-age=300"}

MIN_CONTRAST = 4.5  # contrast ratio that WCAG requires for text
# The accent colour must be legible on these colours of style.css: `--ground` (and `--on-accent`), `--raised`,
# `--sunken`.
LIGHT = ("#ffffff", "#f6f7f9", "#eef0f3")
DARK = ("#0f1216", "#161a20", "#1e242c")


def routes(brand: Brand) -> list[BaseRoute]:
    logo = None if brand.logo is None else read_logo(Path(brand.logo))
    css = style(brand.color)

    async def show_style(_request: Request) -> Response:
        return Response(css, headers={**SANDBOXED, **CACHED}, media_type="text/css")

    async def show_logo(_request: Request) -> Response:
        if logo is None:
            return Response("no logo is configured", 404, SANDBOXED, media_type="text/plain")
        content, kind = logo
        return Response(content, headers={**SANDBOXED, **CACHED, "content-type": kind})

    return [Route(STYLE, show_style, methods=["GET"]), Route(LOGO, show_logo, methods=["GET"])]


# ── colour ────────────────────────────────────────────────────────────────────────────────────────────────────


def style(color: str | None) -> str:
    """Return a style sheet that replaces the accent colour of style.css."""
    if color is None:
        return ""
    return f":root {{ --accent: light-dark({legible(color, LIGHT)}, {legible(color, DARK)}); }}\n"


def legible(color: str, grounds: tuple[str, ...]) -> str:
    """Return the colour most similar to `color` that has enough contrast on all backgrounds in `grounds`.

    The colour becomes darker for light backgrounds, and lighter for dark ones.
    """
    parts = bytes.fromhex(color[1:])
    goal = 0 if _luminance(grounds[0]) > 0.5 else 255
    for step in range(101):
        tried = f"#{bytes(round(part + (goal - part) * (step / 100)) for part in parts).hex()}"
        if all(contrast(tried, ground) >= MIN_CONTRAST for ground in grounds):
            return tried
    raise ValueError(f"no colour has enough contrast on {grounds}")


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of the colours `one` and `other` as WCAG defines it, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    """Return the relative luminance of a colour as WCAG defines it."""
    red, green, blue = (_linear(part / 255) for part in bytes.fromhex(color[1:]))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


# ── logo ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read_logo(path: Path) -> tuple[bytes, str]:
    """Return the logo and its media type. The content decides the media type, not the file name."""
    try:
        content = path.read_bytes() if path.stat().st_size <= MAX_LOGO else None
    except OSError as error:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path}: {error.strerror}") from None
    if content is None:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path} is larger than {MAX_LOGO // 1024} KiB")
    kind = picture(content)
    if kind is None:
        raise ConfigError(f"HOOKLINE_PORTAL_LOGO: {path} is not a PNG, SVG, JPEG or WebP image")
    return content, kind


def picture(content: bytes) -> str | None:
    """Return the media type of an image by its content, or None if the format is unknown."""
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
