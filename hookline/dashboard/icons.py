"""Icons as SVG paths on a 16 by 16 grid. Each icon is shown beside a word or has a label."""

from __future__ import annotations

from hookline.web.html import Safe, tag

_PATHS = {
    "overview": "M2 13h12M3.5 10l3-4 3 2.5 4-5.5",
    "messages": "M2.5 3.5h11v9h-11zM2.5 4.5 8 9l5.5-4.5",
    "dead": "M2.5 9.5h3l1 2h3l1-2h3M2.5 9.5v4h11v-4L11 2.5H5zM6.5 5l3 3m0-3-3 3",
    "endpoints": "M6 8h4M10 4.5h1a3.5 3.5 0 0 1 0 7h-1M6 4.5H5a3.5 3.5 0 0 0 0 7h1",
    "applications": "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
    "event-types": "M2.5 2.5h5l6 6-5 5-6-6zM5.5 5.5h.01",
    "alerts": "M4 11V7a4 4 0 0 1 8 0v4l1.5 1.5h-11zM6.5 14.5h3",
    "keys": "M9.5 6.5a3 3 0 1 1 2 2L10 10H8.5v1.5H7V13H4v-2.5z",
    "audit": "M4 1.5h6l3 3v10H4zM6.5 7h4M6.5 9.5h4M6.5 12h2.5",
    "settings": "M2 5h6M12 5h2M2 11h2M8 11h6M8 5a2 2 0 1 0 4 0 2 2 0 1 0-4 0M4 11a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
    "hook": "M10.5 4.5v5a3.75 3.75 0 1 1-7.5 0V7l2.5 2.5M10.5 4.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 1 0 0 3",
    "theme": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zv11M10 3.5v9M12 5v6",
    "help": "M5.5 6A2.5 2.5 0 1 1 8 8.5v1M8 12.5h.01",
}


def icon(name: str) -> Safe:
    path = tag("path", d=_PATHS[name])
    return tag("svg", path, viewBox="0 0 16 16", width="16", height="16", class_="icon", aria_hidden="true")
