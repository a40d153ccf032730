"""The cores that this process may use, and pinning it to some of them.

Linux alone tells and lets a process choose; elsewhere all cores count as usable and nothing is pinned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from masp.errors import UserError


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin_to(cores: Iterable[int]) -> None:
    """Keep this process on some cores; no-op where the system has no such call."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(cores))


def possible_jobs(wanted: int | None, most: int) -> int:
    """How many worker processes to run: `wanted`, or one per core up to `most`; one on Windows."""
    if sys.platform == "win32":  # whose pipes cannot be waited on together, as the runner does
        if wanted not in (None, 1):
            raise UserError(f"--jobs {wanted}: on Windows units run one after another; use --jobs 1, or --ray")
        return 1
    return wanted or min(len(usable_cores()), most)
