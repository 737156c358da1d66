"""HTML built from escaped parts."""

from __future__ import annotations

from hookline.web.html import tag


def test_markup_escapes_texts_and_attributes() -> None:
    made = tag("a", '<b>"&', tag("i", "x"), href='"><script>', class_="one", hidden=True, title=None)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="one" hidden>&lt;b&gt;&quot;&amp;<i>x</i></a>'


def test_bidirectional_text_does_not_reorder_its_neighbours() -> None:
    turned = "\u202emoc.elpmaxe\u2067<"
    assert tag("p", turned, " of Acme") == "<p>\ufffdmoc.elpmaxe\ufffd&lt; of Acme</p>"
    hebrew = "\u05e9\u05dc\u05d5\u05dd\u200f"
    assert tag("p", hebrew) == f"<p>{hebrew}</p>"


def test_text_to_edit_or_copy_is_unchanged() -> None:
    turned = "\u202ecod.exe<"
    escaped = "\u202ecod.exe&lt;"
    assert tag("textarea", turned) == f"<textarea>{escaped}</textarea>"
    assert tag("button", data_copy=turned) == f'<button data-copy="{escaped}"></button>'
