"""The shared library of kernels: loading it, registering its functions with XLA, and calling them."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

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
    "masp_adam_vjp",
    "masp_softmax",
    "masp_bits_convolve",
    "masp_bits_to_kernel",
    "masp_cells",
    "masp_cells_to_weights",
    "masp_threefry",
    "masp_find_leaves",
    "masp_stack_frames",
    "masp_gather_windows",
)
INSTRUCTION_SETS = ("baseline", "AVX2", "AVX-512")


def load_error() -> str:
    """Why the library cannot be loaded; empty if it is loaded."""
    return _load()[1]


def instruction_set() -> str:
    """The instruction set that the kernels use on this processor."""
    return INSTRUCTION_SETS[_library().masp_instruction_set()]


def num_threads() -> int:
    """Threads that a kernel may use, the caller's included."""
    return _library().masp_num_threads()


def limit_instruction_set(highest: int) -> None:
    """Use none beyond INSTRUCTION_SETS[highest], whatever the processor has, so that tests reach all kernels."""
    _library().masp_limit_instruction_set(highest)


def call(name: str, shapes: Any, *operands: Any, **attributes: Any) -> Any:
    """The result of kernel `name`: float32 arrays of `shapes`, which is one shape or a list of them."""
    several = isinstance(shapes, list)
    out = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (shapes if several else [shapes])]
    return jax.ffi.ffi_call(name, out if several else out[0])(*operands, **attributes)


def _library() -> Any:
    library, error = _load()
    if library is None:
        raise ImportError(f"the kernels cannot be loaded: {error}")
    return library


@cache
def _load() -> tuple[Any, str]:
    """The library with its functions registered; or None, and the reason."""
    spec = importlib.util.find_spec("masp_kernels._kernels")
    if spec is None or spec.origin is None:
        return None, "masp-kernels was installed without its compiled library"
    try:
        library = ctypes.CDLL(spec.origin)
        for target in TARGETS:
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, target)), platform="cpu")
    except Exception as error:  # whatever is wrong with it, plain JAX works
        return None, f"{type(error).__name__}: {error}"
    return library, ""
