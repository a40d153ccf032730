"""How many threads XLA has.

It starts the small operations of a program on all of them, and handing over takes longer than most of these operations.
Where our kernels run, which see to the cores themselves, one thread is quicker: an update of MinAtar took a sixth less
time (docs/performance-small.md), one of Atari about a twelfth (docs/performance.md).
"""

from __future__ import annotations

import os

from masp_kernels.library import built

from masp.environments.registry import family_of

BY_KERNELS = ("atari", "minatar", "minigrid", "planted")
"""Presets whose updates are nearly all kernels of ours."""


def leave_cores_to_kernels(env: str) -> None:
    """Ask XLA for one thread, where that is quicker for one run of `env`; once it has started, nothing changes."""
    if built() and family_of(env).preset in BY_KERNELS:
        os.environ.setdefault("PJRT_NPROC", "1")
