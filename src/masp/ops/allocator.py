"""Keeps freed memory inside the process, which XLA's temporaries on CPU need.

A compiled program asks for all its temporaries as one block each time it is called. glibc takes blocks above 32 MB from
the kernel and gives them back, whatever the thresholds say, so every call faults every page in anew: 59 MB and half of
the time of an Adam step for the Nature network. Without mapped blocks, and with one arena, they come from the heap and
stay there: 41 ms became 19 (docs/performance.md).
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> None:
    """Ask glibc to take large blocks from the heap and never to shrink it; elsewhere, do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
