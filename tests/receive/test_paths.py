"""The paths that are guarded in all their spellings, and the entries of `only` that are refused when the settings are
created."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from decimal import Decimal
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hookline.errors import InvalidInput
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.paths import is_below, key_path, same_path

HOOKS = ["/hooks"]
TENANT = "123e4567-e89b-12d3-a456-426614174000"

SPELLINGS = [
    *("/hooks", "/hooks/", "//hooks", "hooks", "/hooks//", "\\hooks", "/hooks\\x", "/hooks/x"),
    *("/hooks\n", "/hooks\r\n", "/hooks\x00", "/hooks\t", " /hooks", "/hooks ", "/ho\x00oks", "/hooks\x85", "/hooks\u2028"),
    *("/%68ooks", "/%2568ooks", "/hooks%0a", "/hooks%250a", "%2fhooks", "/hooks%2fx", "/hooks%5cx", "/hooks%5fold"),
    *("/x/../hooks", "/x/..;/hooks", "/./hooks", "/%2e%2e/hooks", "/../hooks", "/hooks/../x", "/x/%2e%2e%2fhooks"),
    *("/hooks;v=1", "/hooks;", ";x/hooks", "/hooks.json", "/hooks~", "/hooks:batch", "/hooks,x", "/hooks%", "/hooks?x"),
    *("/HOOKS", "/Hooks/X", "/hoo\u212as", "/\uff48\uff4f\uff4f\uff4b\uff53", "\uff0fhooks", "/hooks\ufffd", "/hooks\udcff"),
    *("http://shop.test/hooks", "HTTPS://shop.test//hooks", "//hooks/x"),
]  # fmt: skip

OTHERS = [
    *("/", "", "/hook", "/hooksy", "/hooks-old", "/hooks_old", "/hooks2", "/x/hooks", "/hoo/ks", "/hook%73y", "/hooks\u00e9"),
    *("/static/hooks.css", "/a.b/../hook"),
]  # fmt: skip


@pytest.mark.parametrize("path", SPELLINGS, ids=ascii)
def test_every_spelling_is_guarded(path: str) -> None:
    assert is_below(path, HOOKS)
    assert is_below(path, ["/other", "/Hooks//"])
    assert is_below(path, ["/"])


@pytest.mark.parametrize("path", OTHERS)
def test_other_paths_are_not_guarded(path: str) -> None:
    assert not is_below(path, HOOKS)
    assert is_below(path, ["/"])


@given(st.text(max_size=40), st.text(max_size=40))
def test_paths_below_a_guarded_path_and_paths_with_dot_segments_are_guarded(before: str, after: str) -> None:
    assert is_below(f"/hooks/{after}", HOOKS)
    way_back = "/".join(".." for _ in range(before.count("/") + before.count("\\") + 3))
    assert is_below(f"/x/{before.replace('%', '').replace(';', '')}/{way_back}/hooks", HOOKS)


@given(st.text(max_size=40))
@example("A:")
def test_spellings_of_one_path_have_one_key(path: str) -> None:
    assert key_path(path) == key_path(f"/{path}") == key_path(f"{path}\n") == key_path(f"{path}//")
    assert same_path(path) == same_path(f"//{path}\n") == same_path(f"{path}/")


def test_ordinary_paths_keep_the_key_that_they_had() -> None:
    assert [key_path(path) for path in (f"/hooks/stripe-eu/71/1.5/{TENANT}", "/hooks/", "/")] == [
        f"/hooks/stripe-eu/71/1.5/{TENANT}",
        "/hooks",
        "",
    ]


VALUES = {
    "/7": ["/07", "/+7", "/7.0", "/7.", "/0_7", "/7e0", "/0.7e1", "/\u0667", "/" + "0" * 31 + "7", "/7.00000000000000000000001"],
    "/0": ["/-0", "/00.0", "/.0", "/-0.0"],
    "/12345678901234567890": ["/12345678901234567890.0", "/+012345678901234567890"],
    "/0.5": ["/.5", "/0.50", "/5e-1"],
    "/00000000-0000-0000-0000-00000000001f": ["/0000000000000000000000000000001f", "/{0000000000000000000000000000001F}"],
    "/00000000-0000-0000-0000-000000000010": ["/00000000000000000000000000000010", "/10"],
}  # fmt: skip
DIFFERENT = ["/7", "/-7", "/70", "/7x", "/v7", "/7/7", "/12345678901234567890", "/12345678901234567891", "/0x7", "/7.1"]


@pytest.mark.parametrize("path", VALUES)
def test_spellings_of_one_number_or_uuid_have_one_key_and_are_told_apart(path: str) -> None:
    assert {key_path(f"/hooks{spelling}/x") for spelling in VALUES[path]} == {key_path(f"/hooks{path}/x")}
    assert same_path(path) not in {same_path(spelling) for spelling in VALUES[path]}


def test_different_values_have_different_keys() -> None:
    assert len({key_path(path) for path in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("path", VALUES)
def test_spellings_of_one_number_or_uuid_are_guarded(path: str) -> None:
    for spelling in VALUES[path]:
        assert is_below(f"/hooks{spelling}/x", [f"/hooks{path}"])
    assert not is_below("/hooks", [f"/hooks{path}"])


def test_other_numbers_are_not_guarded_and_odd_ends_still_are() -> None:
    assert not any(is_below(path, ["/7"]) for path in ("/70", "/77", "/7x", "/-7", "/17"))
    assert is_below("/7.0e1", ["/7"])
    assert is_below("/1.50.json", ["/1.50"])


def test_all_forms_that_converters_read_as_one_number_have_one_key() -> None:
    """Converters accept many forms. Pydantic reads `0__7`, `+_7` and `7.00` as 7, and `0-7` as -7."""
    for convert in (int, float, *(TypeAdapter(kind).validate_python for kind in (int, float, Decimal))):
        keys: defaultdict[Any, set[str]] = defaultdict(set)
        for text in map("".join, chain.from_iterable(product("07_+-.e", repeat=size) for size in range(1, 6))):
            with suppress(ValueError):
                keys[convert(text)].add(key_path(f"/hooks/{text}"))
        assert {len(found) for found in keys.values()} == {1}


@pytest.mark.parametrize("piece", ["7", "_7", "7e", ".", "-", "/7", "nan", "9e999"])
def test_a_long_number_is_no_error(piece: str) -> None:
    path = "/" + piece * (65536 // len(piece))
    assert key_path(path).startswith("/")


@pytest.mark.parametrize("piece", ["%25", "/..", ";", "\u0300\u0323", "%cc%80%cc%a3", "\ufdfa", "/", "a:/", "..;/"])
def test_a_long_path_takes_no_quadratic_time(piece: str) -> None:
    """Quadratic time would take minutes for a path that servers accept. No application has such paths, so they are
    guarded without normalization."""
    path = piece * (65536 // len(piece))
    assert is_below(path, HOOKS)
    assert len(key_path(path)) < 20 * len(path)


def test_a_long_path_without_special_characters_is_normalized() -> None:
    assert not is_below("/page" * 5000, HOOKS)
    assert is_below("/hooks" + "/page" * 5000, HOOKS)


# ── entries of `only` ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "entry", ["/", "/hooks", "/hooks/", "//hooks", "/Hooks", "/caf%C3%A9", "/café", "/v1.2/hooks", "/~me/@x"]
)
def test_an_entry_may_be_spelled_in_any_way_that_names_a_path(entry: str) -> None:
    settings = IdempotencySettings(only=[entry])
    assert is_below(entry, settings.only)
    assert is_below(entry.upper() + "/x", settings.only)


@pytest.mark.parametrize(
    "only", ["/hooks", b"/hooks", 7, None, {"/hooks": 1}, (path for path in HOOKS), [b"/hooks"], [7], [None]]
)
def test_only_is_a_list_of_paths(only: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^only: "):
        IdempotencySettings(only=only)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "hooks", "https://shop.test/hooks", "/hooks?x=1", "/hooks#x", "/hooks/%", "/hooks%0", "/hooks;v=1"),
        *("/hooks/*", "/hooks/{name}", "/hooks/<name>", "^/hooks$", "/hooks$", "/(a|b)", "/hooks\\x"),
        *("/hooks\n", "/hooks ", "/ho oks", "/hooks%0a", "/x/../hooks", "/./hooks", "/%2e%2e/hooks", "/.."),
    ],
)  # fmt: skip
def test_an_entry_that_would_guard_nothing_is_refused(entry: str) -> None:
    with pytest.raises(InvalidInput, match=r"^only: .* is not a plain path"):
        IdempotencySettings(only=["/fine", entry])
