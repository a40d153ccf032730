"""Keeps freed memory inside the process, which XLA's temporaries on CPU need.

glibc gives every large block back to the kernel when it is freed and faults it in again, page by page, when the next
update asks for it. Measured on Adam for 177,000 weights: 1.7 ms an update with, 0.2 ms without.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Ask glibc to reuse blocks up to 32 MB (its limit) instead of unmapping them; elsewhere, do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 1 << 30)
