"""Records of arrays to and from one safetensors file: no code in it, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

from masp import ops
from masp.errors import UserError

State = TypeVar("State")


class OtherLayoutError(UserError):
    """The file holds other arrays than expected: other settings, or another version of the package."""


def save(path: Path, state: Any) -> None:
    """Write every array of `state` under its path in the record; durable once this returns."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    arrays = {jax.tree_util.keystr(where): np.asarray(leaf, order="C") for where, leaf in leaves}
    partial = path.with_name(path.name + ".partial")
    save_file(arrays, partial)
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path, like: State, any_shape: str = "") -> State:
    """The state saved at `path`; `like` (arrays or shapes) says what it must look like.

    Leaves below the path `any_shape` may have another shape, as what environments save of an episode does.
    """
    try:
        arrays = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no checkpoint") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: the checkpoint cannot be read: {error}") from None
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    arrays = ops.adapt_layout(arrays, [jax.tree_util.keystr(where) for where, _ in leaves])
    restored = []
    for where, leaf in leaves:
        name = jax.tree_util.keystr(where)
        fits = name in arrays and arrays[name].dtype == leaf.dtype
        free = bool(any_shape) and name.startswith(any_shape)
        if not fits or not (free or arrays[name].shape == leaf.shape):
            found = "nothing" if name not in arrays else f"{arrays[name].dtype}{arrays[name].shape}"
            raise OtherLayoutError(
                f"{path}: {name} should be {leaf.dtype}{leaf.shape}, found {found}; "
                "was it made with other settings, or by another version of masp?"
            )
        restored.append(arrays[name])
    return jax.tree_util.tree_unflatten(structure, restored)
