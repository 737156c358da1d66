"""Databases that cannot be written for a while: a full disk, a limit of the file's size, a read-only server."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg


@contextmanager
def small_disk(size: str) -> Iterator[Path | None]:
    """Mount a small file system for the block. Yield its directory, or None if this user may not mount."""
    at = Path(tempfile.mkdtemp(prefix="hookline-disk-"))
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", at], capture_output=True, check=False)
    try:
        yield at if made.returncode == 0 else None
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", at], check=True)
        at.rmdir()


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Write a file until the disk is full, and delete it after the block."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(65536)) == 65536:
                    pass
            except OSError:
                pass  # the disk is full
        yield
    finally:
        filler.unlink()


@contextmanager
def file_limit(pid: int, size: int) -> Iterator[None]:
    """Let no file of a running process grow beyond `size` bytes."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def set_read_only(url: str, *, read_only: bool) -> None:
    """Make a PostgreSQL database read-only or writable, and end its sessions, so that new ones see the change."""
    connection = await asyncpg.connect(url, server_settings={"default_transaction_read_only": "off"})
    try:
        name = await connection.fetchval("SELECT quote_ident(current_database())")
        how = "SET default_transaction_read_only = on" if read_only else "RESET default_transaction_read_only"
        await connection.execute(f"ALTER DATABASE {name} {how}")
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


def incompressible(size: int) -> str:
    """Return a text that no compression makes small."""
    return os.urandom(size // 2).hex()
