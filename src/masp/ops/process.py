"""Settings of the whole process that make training faster. A library must not change them; a command may."""

from __future__ import annotations

import ctypes
import os
import sys

from masp.ops import kernels

ONE_THREAD_PRESETS = ("atari", "minatar", "minigrid", "planted")
"""Presets whose updates consist almost entirely of kernels, which use all cores themselves."""

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def tune_this_process(env_preset: str | None = None) -> None:
    """Change settings of this process for faster training on the CPU; results stay the same. Call it before JAX starts.

    - Memory: glibc keeps freed memory (`mallopt`). A compiled program allocates its temporaries as one block per call;
      glibc maps blocks above 32 MB anew each time and faults in every page, half of the time of an Adam step for the
      Nature network. Linux with glibc only.
    - XLA threads: `PJRT_NPROC` becomes 1 unless the user set it, for presets in `ONE_THREAD_PRESETS` and only where
      kernels are built. XLA hands small operations to other threads, which takes longer than the operations; an update
      of MinAtar took a sixth less time on one. Has no effect once JAX's backend is initialised.
    - Random bits: programs that are compiled from now on draw JAX's Threefry bits with a kernel. The bits are the same;
      XLA needs eight microseconds for each draw, however small.

    Args:
      env_preset: preset of the environment that this process trains on, one run at a time; None: several, or unknown.
    """
    _keep_freed_memory()
    if not kernels.built():
        return
    if env_preset in ONE_THREAD_PRESETS:
        os.environ.setdefault("PJRT_NPROC", "1")
    kernels.module("random").replace_threefry()


def _keep_freed_memory() -> None:
    """Make glibc take large blocks from the heap and never shrink it; no-op without glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
