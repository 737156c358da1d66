"""Registers functions as commands. A function may be async, and may take a group of options as one parameter."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from inspect import Parameter
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import Session, session
from hookline.model.callers import Caller
from hookline.services.deps import Deps
from hookline.store import Store

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Command(Struct, frozen=True, dict=True):
    """The options that every command has."""

    as_json: params.Json = False

    @cached_property
    def out(self) -> Output:
        return Output(self.as_json)

    def session(self) -> AbstractAsyncContextManager[Session]:
        return session()

    async def call(
        self, action: Callable[Concatenate[Deps, Caller, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Open a session, and call a function of `hookline.services` in it."""
        async with self.session() as opened:
            return await action(opened.deps, opened.by, *args, **kwargs)

    async def read(self, query: Callable[[Store], Awaitable[T]]) -> T:
        async with self.session() as opened:
            return await query(opened.store)


class OrgCommand(Command, frozen=True, dict=True):
    """The options of a command that works on one organization."""

    org: params.Org = params.DEFAULT_ORG_ID

    def session(self) -> AbstractAsyncContextManager[Session]:
        return session(self.org)


class CreatingCommand(OrgCommand, frozen=True, dict=True):
    """A command that creates the database and the default organization if they do not exist yet."""

    def session(self) -> AbstractAsyncContextManager[Session]:
        return session(self.org, creates=True)


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
    last = sorted(groups.values(), key=lambda group: issubclass(group, Command))  # --org and --json come last
    own = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in given if each.name not in groups]

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group.__struct_fields__})
        result = work(**values)
        if inspect.iscoroutine(result):
            asyncio.run(result)

    run.__name__, run.__doc__ = work.__name__, work.__doc__
    parameters = [*own, *(option for group in last for option in _options(group))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
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
