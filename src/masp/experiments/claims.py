"""Which process runs a unit: a folder of numbered claim files, of which the highest counts.

A process takes a claim by creating the file with the next number exclusively, if the newest claim is stale. A claim is
stale when its process is gone (seen from the same machine) or when its heartbeat is old (seen from another machine). A
holder that was wrongly considered dead sees a higher number at its next heartbeat and stops.
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
"""Age of a heartbeat that counts as dead if the process cannot be looked up; clocks must agree to within half of it."""


class ClaimLostError(RuntimeError):
    """Another process has taken the claim, because it considered this one dead."""


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
        """Publish the progress with the next heartbeat; raises if the claim was lost."""
        self._progress = progress
        if self.lost:
            raise ClaimLostError(f"{self._file.parent.name} was taken over by another process")

    def release(self) -> None:
        """Give the claim up."""
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
        partial.write_text(_message(self._progress))
        partial.replace(self._file)


def take(folder: Path) -> Claim | None:
    """Take the claim of `folder`; None: another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    newest = _newest(folder)
    if newest and not _stale(folder / f"{newest}.json"):
        return None
    file = folder / f"{newest + 1}.json"
    draft = folder / f"{secrets.token_hex(8)}.new"
    draft.write_text(_message({}))
    try:
        os.link(draft, file)  # atomic: fails if the file exists, and never shows it half written
    except FileExistsError:
        return None
    finally:
        draft.unlink()
    return Claim(file, newest + 1)


def holder(folder: Path) -> dict[str, Any] | None:
    """The last message of the live holder of a claim; None: there is none."""
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
        message, age = _read(file), time.time() - file.stat().st_mtime
    except FileNotFoundError:  # released just now
        return True
    if message is None or message["machine"] != _this_process()["machine"]:
        return age > STALE_SECONDS
    return _started(message["pid"]) != message["started"]


def _read(file: Path) -> dict[str, Any] | None:
    try:
        message: dict[str, Any] = json.loads(file.read_text())
    except (ValueError, RecursionError, FileNotFoundError):
        return None
    usable = (
        isinstance(message, dict)
        and {"machine", "started"} <= message.keys()
        and type(message.get("pid")) is int
        and isinstance(message.get("progress"), dict)
    )
    return message if usable else None


def _message(progress: dict[str, Any]) -> str:
    return json.dumps({**_this_process(), "progress": progress})


def _this_process() -> dict[str, Any]:
    """Enough to tell from another process whether this one still lives."""
    return {"host": platform.node(), "machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def _machine() -> str:
    """Equal for two processes exactly if one can look the other up by its process id."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()} {os.getpid()}"  # no process table: only the heartbeat counts


def _started(pid: int) -> str:
    """Start of a process in ticks since boot, "" if it is gone; ids are reused, so the id alone is not enough."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
