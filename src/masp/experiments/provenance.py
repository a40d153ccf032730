"""Where a result comes from: commit, versions, machine. No names of hosts or folders: results are published."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import masp

PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "numpy",
    "gymnasium",
    "minigrid",
    "pgx",
    "ale-py",
    "envpool",
    "stable-retro",
)


@cache
def commit() -> str:
    """The commit of the source, with a plus if the package was changed since; the version where there is no git."""
    source = Path(masp.__file__).parent
    head = _git(source, "rev-parse", "--short=10", "HEAD")
    if not head:
        return f"masp {masp.__version__}"
    return head + ("+" if _git(source, "status", "--porcelain", "--", ".") else "")


@cache
def versions() -> dict[str, str]:
    """Versions of what may change a result."""
    found = {"python": platform.python_version(), "masp": masp.__version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def machine() -> dict[str, Any]:
    """What kind of computer this is."""
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
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
