"""Programs and libraries of Debian packages, for tests that need one. Nothing is installed on the machine.

A program that the machine has is used. Otherwise, on Debian, the package is downloaded and unpacked into a directory for
temporary files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def program(name: str, *packages: str, download: bool = True) -> tuple[Path, dict[str, str]] | None:
    """Return the path of a program and the environment variables that it needs, or None if it cannot be had. Without
    `download`, only a program that the machine has, or that was unpacked before, counts."""
    found = shutil.which(name)
    if found is not None:
        return Path(found), {}
    tree = _unpacked(packages or (name,), download=download)
    place = (
        next((path for part in ("usr/sbin", "usr/bin") for path in tree.glob(f"{part}/{name}")), None) if tree else None
    )
    if tree is None or place is None:
        return None
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-*"))
    return place, {"LD_LIBRARY_PATH": libraries}


def library(name: str, package: str) -> Path | None:
    """Return the path of a shared library, or None if it cannot be had."""
    for root in (Path("/"), _unpacked((package,))):
        found = sorted(root.glob(f"usr/lib/*/**/{name}")) if root else []
        if found:
            return found[0]
    return None


def _unpacked(packages: tuple[str, ...], *, download: bool = True) -> Path | None:
    """Return the directory with the unpacked packages, which every later run uses again."""
    tree = Path(tempfile.gettempdir()) / f"hookline-debian-{'-'.join(packages)}-{os.geteuid()}"
    if tree.exists():
        return tree
    if not download or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="hookline-debian-") as directory:
        fetched = subprocess.run(["apt-get", "download", *packages], cwd=directory, capture_output=True, check=False)
        if fetched.returncode != 0:
            return None
        for package in Path(directory).glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, f"{directory}/tree"], check=True)
        Path(directory, "tree").chmod(0o755)
        shutil.move(f"{directory}/tree", tree)
    return tree
