"""The only door to the C++ kernels of the optional distribution `masp-kernels`.

Every operation of this package is defined in plain JAX. Where kernels are installed, JAX runs on the CPU and the
arrays are float32, an operation calls a kernel instead. `MASP_NATIVE=0` in the environment switches kernels off.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp


def available() -> bool:
    """Whether operations call kernels in this process."""
    return not _switched_off() and jax.default_backend() == "cpu" and _problem() == ""


def usable(*arrays: Any) -> bool:
    """Whether kernels accept these arrays: they compute in float32 only."""
    return all(array.dtype == jnp.float32 for array in arrays) and available()


def module(name: str) -> Any:
    """The module `masp_kernels.<name>`; call it only where `available()`."""
    return importlib.import_module(f"masp_kernels.{name}")


def built() -> bool:
    """Whether a compiled library is installed and not switched off; does not start JAX's backend."""
    installed = importlib.util.find_spec("masp_kernels") is not None
    return not _switched_off() and installed and importlib.util.find_spec("masp_kernels._kernels") is not None


def kernels_status() -> str:
    """Whether kernels run, and why not if they do not: one line for people."""
    if _switched_off():
        return "off: MASP_NATIVE=0"
    if jax.default_backend() != "cpu":
        return f"off: the JAX backend is {jax.default_backend()}"
    if _problem():
        return f"off: {_problem()}"
    library = module("library")
    return f"on: {library.instruction_set()}, {library.num_threads()} threads"


def kernels_used() -> str:
    """`none`, or name, version and instruction set of the kernels that run, as records of results hold it."""
    if not available():
        return "none"
    return f"masp-kernels {importlib.import_module('masp_kernels').__version__} {module('library').instruction_set()}"


def _switched_off() -> bool:
    return os.environ.get("MASP_NATIVE", "1") == "0"


@cache
def _problem() -> str:
    """Why kernels cannot be loaded; empty if they can."""
    if importlib.util.find_spec("masp_kernels") is None:
        return "masp-kernels is not installed"
    try:
        return module("library").load_error()
    except Exception as error:  # a library built for another version of JAX may fail in any way
        return f"{type(error).__name__}: {error}"
