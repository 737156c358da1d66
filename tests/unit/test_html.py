"""HTML by construction."""

from __future__ import annotations

from hookline.html import tag


def test_markup_escapes_texts_and_attributes() -> None:
    made = tag("a", '<b>"&', tag("i", "x"), href='"><script>', class_="one", hidden=True, title=None)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="one" hidden>&lt;b&gt;&quot;&amp;<i>x</i></a>'
