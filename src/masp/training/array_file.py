"""Records of arrays to and from one safetensors file: no code in it, a checksum over all of it, written whole or not.

The file is written by hand, array by array: the library's own writer first makes one more copy of everything in memory
and ignores the umask.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import safetensors

from masp import json_text, ops
from masp.errors import UserError
from masp.whole_file import whole_file

State = TypeVar("State")

_NAMES = {
    np.dtype(kind): name
    for kind, name in (
        (np.bool_, "BOOL"),
        (np.uint8, "U8"),
        (np.int8, "I8"),
        (np.uint16, "U16"),
        (np.int16, "I16"),
        (np.uint32, "U32"),
        (np.int32, "I32"),
        (np.uint64, "U64"),
        (np.int64, "I64"),
        (np.float16, "F16"),
        (np.float32, "F32"),
        (np.float64, "F64"),
    )
}
"""What safetensors calls the types of NumPy."""


class OtherLayoutError(UserError):
    """The file holds other arrays than expected: other settings, or another version of the package."""


def named_arrays(state: Any) -> dict[str, np.ndarray]:
    """Every array of a record under its path; views where the backend allows it."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def save(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write `arrays` and `about` (JSON values); durable once this returns, and until then the old file stays."""
    texts = {name: json_text.dumps(value) for name, value in about.items()}
    header = json.dumps({"__metadata__": {**texts, "sha256": _digest(arrays, texts)}, **_layout(arrays)}).encode()
    header += b" " * (-len(header) % 8)
    with whole_file(path) as file:
        file.write(struct.pack("<Q", len(header)))
        file.write(header)
        for array in arrays.values():
            file.write(_bytes(array))


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file and their description; a `UserError` unless its checksum fits."""
    try:
        with safetensors.safe_open(path, "np") as file:
            texts = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except (OSError, safetensors.SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: the file cannot be read: {json_text.first_line(error)}") from None
    expected = texts.pop("sha256", None)
    # Files of the first version have neither a description nor a checksum.
    if (expected is not None or texts) and expected != _digest(arrays, texts):
        raise UserError(f"{path}: the checksum does not fit; the file was damaged after it was written")
    about = {name: json_text.parse(text, f"{path}, {name}") for name, text in texts.items()}
    return arrays, about


def read_about(path: Path) -> dict[str, Any] | None:
    """The description of the arrays of a file, without reading them; None if it cannot be read."""
    try:
        with safetensors.safe_open(path, "np") as file:
            texts = {name: text for name, text in (file.metadata() or {}).items() if name != "sha256"}
        return {name: json_text.parse(text, f"{path}, {name}") for name, text in texts.items()}
    except (OSError, safetensors.SafetensorError, ValueError):
        return None


def fill(like: State, arrays: Mapping[str, np.ndarray], where: Path, any_shape: str = "", finite: bool = True) -> State:
    """A record like `like` (arrays or shapes) from named arrays.

    Args:
      any_shape: leaves below this path may have another shape, as what environments save of an episode does.
      finite: refuse NaN and infinity, with which a policy cannot play.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    arrays = ops.adapt_layout(arrays, [jax.tree_util.keystr(path) for path, _ in leaves])
    values = [_fitting(jax.tree_util.keystr(path), leaf, arrays, where, any_shape) for path, leaf in leaves]
    for (path, _), array in zip(leaves, values, strict=True):
        if finite and np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise UserError(f"{where}: {jax.tree_util.keystr(path)} has numbers that are not finite")
    return jax.tree_util.tree_unflatten(structure, values)


def _fitting(name: str, leaf: Any, arrays: Mapping[str, np.ndarray], where: Path, any_shape: str) -> np.ndarray:
    array = arrays.get(name)
    free = bool(any_shape) and name.startswith(any_shape)
    if array is None or array.dtype != leaf.dtype or not (free or array.shape == leaf.shape):
        content = "nothing" if array is None else f"{array.dtype}{array.shape}"
        raise OtherLayoutError(
            f"{where}: {name} should be {leaf.dtype}{leaf.shape}, but the file has {content}; "
            "was it made with other settings, or by another version of masp?"
        )
    return array


def _layout(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Type, shape and place of every array."""
    layout, offset = {}, 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        layout[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    return layout


def _digest(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes and bytes of all arrays, and over the description."""
    digest = hashlib.sha256(json.dumps(sorted(texts.items())).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _bytes(array: np.ndarray) -> memoryview:
    """The bytes of an array, without copying it."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
