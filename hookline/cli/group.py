"""Registers functions as commands. A function may be async, and may take a group of options as one parameter."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

import typer
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

F = TypeVar("F", bound=Callable[..., Any])


class CommandGroup(typer.Typer):
    """A Typer application that turns a parameter whose type is a `Struct` into one option for each field."""

    def __init__(self, **options: Any) -> None:
        super().__init__(no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        register = super().command(name, **options)

        def add(work: F) -> F:
            register(_flat(work))
            return work

        return add


def _flat(work: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a command for Typer, which supports neither groups of options nor coroutines."""
    given = inspect.signature(work, eval_str=True).parameters.values()
    groups = {each.name: each.annotation for each in given if _is_group(each.annotation)}
    last = sorted(groups.values(), key=lambda group: "as_json" in group.__struct_fields__)  # --org and --json come last
    own = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in given if each.name not in groups]

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group.__struct_fields__})
        result = work(**values)
        if inspect.iscoroutine(result):
            asyncio.run(result)

    run.__name__, run.__doc__ = work.__name__, work.__doc__
    parameters = [*own, *(option for group in last for option in _options(group))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # mypy knows no signature of a function
    return run


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _options(group: type[Struct]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is NODEFAULT else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
