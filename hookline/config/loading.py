"""Loads the configuration of a process. On SQLite, the first start creates a file with new secrets, unless the
environment sets all of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hookline.config.environment import parse
from hookline.config.settings import Config
from hookline.errors import ConfigError


def load(environ: Mapping[str, str]) -> Config:
    """Return the configuration of this process. On SQLite, secrets that are not set are read from a file beside the
    database."""
    config = parse(environ)
    if config.jwt_secret and config.secret_keys:
        return config
    if config.database_file is None:
        missing = "HOOKLINE_SECRET_KEY" if config.jwt_secret else "HOOKLINE_JWT_SECRET"
        raise ConfigError(f"{missing}: required on PostgreSQL, the same for every process (`openssl rand -base64 32`)")
    return _with_keys(config, config.database_file)


def keys_file(database: Path) -> Path:
    """Return the path of the file with the secrets of a SQLite deployment. A secret in the environment takes
    precedence over the one in this file."""
    return Path(f"{database}.keys")


def _with_keys(config: Config, database: Path) -> Config:
    path = keys_file(database)
    if not os.path.isdir(database.parent):  # noqa: PTH112  `Path.is_dir` raises an error for a name that is too long
        raise ConfigError(f"HOOKLINE_DATABASE_URL: the directory {database.parent} does not exist")
    try:
        if not path.exists():
            _refuse_orphan(database, path)
            _create_keys(path)
        stored = _read_keys(path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; set HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY instead"
        ) from None
    return replace(
        config,
        jwt_secrets=config.jwt_secrets or stored.jwt_secrets,
        secret_keys=config.secret_keys or stored.secret_keys,
    )


def _refuse_orphan(database: Path, path: Path) -> None:
    """Refuse to create keys for a database that has data. New keys could not decrypt the secrets in it."""
    if database.exists() and database.stat().st_size > 0:
        raise ConfigError(
            f"{path}: missing, but {database.name} has data; restore it, or set HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY"
        )


def _create_keys(path: Path) -> None:
    """Create the file with the secrets atomically. If another process created it first, keep that file: `os.link` does
    not overwrite."""
    from hookline.security.vault import new_key

    lines = f"HOOKLINE_JWT_SECRET={secrets.token_urlsafe(48)}\nHOOKLINE_SECRET_KEY={new_key()}\n"
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_keys(path: Path) -> Config:
    # Group access is allowed, because Kubernetes gives the files of a mounted volume to the group of the pod.
    if path.stat().st_mode & 0o007:
        raise ConfigError(f"{path}: other users can read it; run chmod 600 on it")
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    try:
        stored = parse({name: value for name, _, value in pairs})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not (stored.jwt_secret and stored.secret_keys):
        raise ConfigError(f"{path}: must contain HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY")
    return stored
