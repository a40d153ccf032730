"""A bundle: a macro set and the similarity over its actions, in one file, to carry to another task."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors
from safetensors.numpy import load_file, save

from masp.errors import UserError
from masp.macros.actions import ActionSet

FORMAT, VERSION = "masp-bundle", "1"


class Bundle(NamedTuple):
    """What transfers."""

    actions: ActionSet
    similarity: np.ndarray  # [A, A]


def save_bundle(path: str | os.PathLike[str], bundle: Bundle) -> None:
    """Write it; an existing file is replaced whole or not at all."""
    partial = Path(path).with_name(Path(path).name + ".partial")
    metadata = {"format": FORMAT, "version": VERSION, "actions": json.dumps(bundle.actions.to_json())}
    if not partial.parent.is_dir():
        raise UserError(f"{path}: there is no such folder to write to")
    # The library's own `save_file` ignores the umask.
    partial.write_bytes(save({"similarity": np.ascontiguousarray(bundle.similarity, np.float32)}, metadata))
    partial.replace(path)


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a file is meant to be a bundle rather than a macro file, by its name."""
    return Path(path).suffix == ".safetensors"


def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read it, or raise `UserError` that says what is wrong with it."""
    try:
        with safetensors.safe_open(path, "np") as file:
            metadata = file.metadata() or {}
        arrays = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such bundle; 'masp similarity export RUN_DIR --out BUNDLE' makes one") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: not a bundle: {error}") from None
    if metadata.get("format") != FORMAT or metadata.get("version") != VERSION:
        raise UserError(f"{path}: not a bundle of version {VERSION}; 'masp similarity export' makes one")
    actions = ActionSet.from_json(json.loads(metadata["actions"]), str(path))
    similarity = arrays["similarity"]
    if similarity.shape != (len(actions), len(actions)):
        raise UserError(f"{path}: similarity is {similarity.shape} for {len(actions)} actions")
    return Bundle(actions, similarity)
