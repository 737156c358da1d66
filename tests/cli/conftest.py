"""Fixtures for the tests of the command line: the test's own store and the real command use the same database."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline import ids
from hookline.model.catalogue import Organization
from hookline.security.vault import Vault, new_key
from hookline.store import Store
from tests.support import factory
from tests.support.cli import Cli

JWT_SECRET = "a secret that only the tests of the command line know"


# The tests in tests/store check that both engines behave the same. A test here asks for both engines only where the
# command behaves differently on them.
both_engines = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    name: str = getattr(request, "param", "sqlite")
    return name


@pytest.fixture
def secret_key() -> str:
    return new_key()


@pytest.fixture
def vault(secret_key: str) -> Vault:
    return Vault([secret_key])


@pytest.fixture
async def organization(store: Store) -> Organization:
    """Save the default organization. The command uses it unless `--org` names another one."""
    return await store.catalogue.save_organization(factory.organization(id=ids.DEFAULT_ORG))


@pytest.fixture
def cli(database_url: str, secret_key: str, tmp_path: Path) -> Cli:
    settings = {
        "HOOKLINE_DATABASE_URL": database_url,
        "HOOKLINE_SECRET_KEY": secret_key,
        "HOOKLINE_JWT_SECRET": JWT_SECRET,
        "HOOKLINE_ALLOW_NETS": "127.0.0.0/8",
    }
    return Cli(settings, str(tmp_path))


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    """Return a command without any configuration: it uses SQLite in an empty directory."""
    return Cli({}, str(tmp_path))
