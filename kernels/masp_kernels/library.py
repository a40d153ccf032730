"""The shared library of kernels: whether there is one, and calling it through XLA.

`pip install` builds it where there is a C++ compiler (setup.py). `MASP_NATIVE=0` in the environment switches it off.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from masp_kernels import random

TARGETS = (
    "masp_convolve",
    "masp_convolve_to_kernel",
    "masp_convolve_to_images",
    "masp_torso",
    "masp_torso_tangent",
    "masp_torso_to_weights",
    "masp_linear",
    "masp_linear_to_inputs",
    "masp_linear_to_weights",
    "masp_adam",
    "masp_adam_back",
    "masp_softmax",
    "masp_bits_convolve",
    "masp_bits_to_kernel",
    "masp_cells",
    "masp_cells_back",
    "masp_threefry",
    "masp_find",
    "masp_stacked",
    "masp_drawn",
)
INSTRUCTIONS = ("plain", "AVX2", "AVX-512")


def usable(*arrays: Any) -> bool:
    """Whether kernels can take these arrays: they are built for numbers of 32 bits on the CPU."""
    return all(array.dtype == jnp.float32 for array in arrays) and available()


def available() -> bool:
    """Whether there are kernels, and nobody switched them off."""
    return jax.default_backend() == "cpu" and os.environ.get("MASP_NATIVE", "1") != "0" and _load()[0] is not None


def built() -> bool:
    """Whether there is a library, and nobody switched it off; asked before JAX has chosen its backend."""
    return os.environ.get("MASP_NATIVE", "1") != "0" and importlib.util.find_spec("masp_kernels._kernels") is not None


def status() -> str:
    """What runs here and why, for people to read."""
    if os.environ.get("MASP_NATIVE", "1") == "0":
        return "off: MASP_NATIVE=0"
    if jax.default_backend() != "cpu":
        return f"off: the backend is {jax.default_backend()}"
    library, problem = _load()
    if library is None:
        return f"off: {problem}"
    return f"on: {INSTRUCTIONS[library.masp_instructions()]}, {library.masp_threads()} threads"


def limit_instructions(most: int) -> None:
    """Use none beyond INSTRUCTIONS[most], whatever the processor has: so that tests reach all kernels."""
    _load()[0].masp_limit_instructions(most)


def call(name: str, shapes: Any, *operands: Any, **attributes: Any) -> Any:
    """What the kernel `name` makes of `operands`: float32 arrays of `shapes`, one shape or a list of them."""
    several = isinstance(shapes, list)
    out = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (shapes if several else [shapes])]
    return jax.ffi.ffi_call(name, out if several else out[0])(*operands, **attributes)


@cache
def _load() -> tuple[Any, str]:
    """The library, its kernels known to XLA; or None, and why not."""
    spec = importlib.util.find_spec("masp_kernels._kernels")
    if spec is None or spec.origin is None:
        return None, "not built; it takes a C++ compiler at `pip install`"
    try:
        library = ctypes.CDLL(spec.origin)
        for target in TARGETS:
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, target)), platform="cpu")
        random.register()
    except Exception as problem:  # whatever is wrong with it, there is another way
        return None, f"{type(problem).__name__}: {problem}"
    return library, ""
