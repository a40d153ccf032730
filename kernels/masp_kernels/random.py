"""JAX's Threefry random bits by a kernel: the same bits, faster.

XLA runs the rounds of Threefry as a loop of small operations, eight microseconds for each split or draw however small,
and an update of a small network has several.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jax.interpreters import mlir

from masp_kernels.library import load_error


def replace_threefry() -> None:
    """Programs for the CPU that are compiled from now on draw their bits with the kernel; no-op without a library."""
    if not load_error():
        mlir.register_lowering(threefry2x32_p, mlir.lower_fun(threefry, multiple_results=True), platform="cpu")


def threefry(*operands: Any) -> Any:
    """Two words of random bits for two words of a key and two of a counter, all uint32 of shapes that broadcast."""
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    # A scalar stays one; the kernel repeats it.
    operands = tuple(x if x.size == 1 else jnp.broadcast_to(x, shape) for x in operands)
    return jax.ffi.ffi_call("masp_threefry", [jax.ShapeDtypeStruct(shape, jnp.uint32)] * 2)(*operands)
