"""JAX's random bits by our kernel: the same bits, quicker.

XLA runs the rounds of Threefry as a loop of small operations, eight microseconds for each split or draw however small,
and an update of a small network has several.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jax.interpreters import mlir


def register() -> None:
    """From now on programs for the CPU draw their bits with our kernel."""
    mlir.register_lowering(threefry2x32_p, mlir.lower_fun(_bits, multiple_results=True), platform="cpu")


def _bits(*operands: Any) -> Any:
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    wide = [x if x.size == 1 else jnp.broadcast_to(x, shape) for x in operands]
    return jax.ffi.ffi_call("masp_threefry", [jax.ShapeDtypeStruct(shape, jnp.uint32)] * 2)(*wide)
