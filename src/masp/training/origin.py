"""Where figures come from: the source, the packages and the kind of machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import masp
from masp import json_text, ops

PACKAGES = (
    *("jax", "jaxlib", "flax", "optax", "numpy", "gymnasium"),
    *("minigrid", "pgx", "ale-py", "envpool", "stable-retro"),
)
"""Packages whose version may change a result."""


@cache
def commit() -> str:
    """The commit of the source, with a plus if the package was changed since; the version where there is no git.

    Cached: a process reports the source that it was started with, so call this before a long run.
    """
    source = Path(masp.__file__).parent
    head = _git(source, "rev-parse", "--short=10", "HEAD")
    if not head:
        return f"masp {masp.__version__}"
    return head + ("+" if _git(source, "status", "--porcelain", "--", ".") else "")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that may change a result."""
    installed = {"python": platform.python_version(), "masp": masp.__version__}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


@cache
def machine() -> dict[str, Any]:
    """The kind of computer."""
    import jax

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "device": jax.devices()[0].device_kind,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _git(folder: Path, *arguments: str) -> str:
    try:
        process = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def note_start(file: Path) -> None:
    """Append a line to `file`: which masp, on which machine, writes a run from now on."""
    entry = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": platform.node(),
        "process": os.getpid(),
        "commit": commit(),
        "versions": versions(),
        "kernels": ops.kernels_used(),
    }
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with open(descriptor, "a") as stream:
        stream.write(json_text.dumps(entry) + "\n")
