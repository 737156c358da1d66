"""The options that every command has, and how a command opens its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct

from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import Session, session
from hookline.model.callers import Caller
from hookline.services.deps import Deps
from hookline.store import Store

P = ParamSpec("P")
T = TypeVar("T")


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
