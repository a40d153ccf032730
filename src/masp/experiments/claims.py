"""Who runs a unit: a folder of numbered claims, of which the highest counts.

A claim is taken by creating the next number exclusively, which the file system lets one process do, and only if the
newest claim is stale. A claim is stale when its process is gone (seen from the same machine) or when its heartbeat is
old (seen from another). A holder that was taken for dead finds a higher number at its next heartbeat and stops.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
import time
from pathlib import Path
from typing import Any

HEARTBEAT_SECONDS = 2.0
STALE_SECONDS = 60.0
"""Older than this is dead, if the process cannot be looked up; clocks of machines must agree to within half of it."""


class ClaimLostError(RuntimeError):
    """Another process has taken over what this one was believed to have left."""


class Claim:
    """Held by this process until `release`; a thread keeps the heartbeat and the progress up to date."""

    def __init__(self, file: Path, number: int):
        self._file, self._number = file, number
        self._progress: dict[str, Any] = {}
        self._done = threading.Event()
        self.lost = False
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()

    def report(self, progress: dict[str, Any]) -> None:
        """What others may show; raises if the claim was lost."""
        self._progress = progress
        if self.lost:
            raise ClaimLostError(f"{self._file.parent.name} was taken over by another process")

    def release(self) -> None:
        """Let others have the unit."""
        self._done.set()
        self._thread.join()
        if not self.lost:
            self._file.unlink(missing_ok=True)

    def _keep_beating(self) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            if _newest(self._file.parent) != self._number:
                self.lost = True
                return
            self._beat()

    def _beat(self) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(_said(self._progress))
        partial.replace(self._file)


def take(folder: Path) -> Claim | None:
    """The claim on the unit of `folder`; None: somebody else has it."""
    folder.mkdir(parents=True, exist_ok=True)
    newest = _newest(folder)
    if newest and not _stale(folder / f"{newest}.json"):
        return None
    file = folder / f"{newest + 1}.json"
    written = folder / f"{secrets.token_hex(8)}.new"
    written.write_text(_said({}))
    try:
        os.link(written, file)  # fails if it exists, and the file is there with its content or not at all
    except FileExistsError:
        return None
    finally:
        written.unlink()
    return Claim(file, newest + 1)


def holder(folder: Path) -> dict[str, Any] | None:
    """What the live holder of a unit last said; None: nobody has it."""
    newest = _newest(folder)
    file = folder / f"{newest}.json"
    return _read(file) if newest and not _stale(file) else None


def _newest(folder: Path) -> int:
    """The highest number of a claim; 0: none."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    return max((int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit()), default=0)


def _stale(file: Path) -> bool:
    try:
        said, age = _read(file), time.time() - file.stat().st_mtime
    except FileNotFoundError:  # released just now
        return True
    if said is None or said["machine"] != _me()["machine"]:
        return age > STALE_SECONDS
    return _started(said["pid"]) != said["started"]


def _read(file: Path) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(file.read_text())
        return said
    except (ValueError, FileNotFoundError):
        return None


def _said(progress: dict[str, Any]) -> str:
    return json.dumps({**_me(), "progress": progress})


def _me() -> dict[str, Any]:
    """This process, so that another one can tell whether it still lives."""
    return {"host": platform.node(), "machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def _machine() -> str:
    """The same for two processes exactly if one can look the other up by its number."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()} {os.getpid()}"  # no such table here: only the heartbeat tells


def _started(pid: int) -> str:
    """When a process began, in ticks since boot; numbers are used again, so the number alone does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
