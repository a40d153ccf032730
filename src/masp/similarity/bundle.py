"""A bundle: a macro set, the similarity over its actions and a card, in one file, to carry to another task."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors
from safetensors.numpy import save

from masp import json_text
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity.card import Card
from masp.whole_file import whole_file

FORMAT, VERSION = "masp-bundle", "1"
TOLERANCE = 1e-3
"""Rounding that is allowed in a similarity."""


class Bundle(NamedTuple):
    """What transfers: a macro set and its similarity.

    Examples:
      >>> import masp, numpy as np
      >>> masp.Bundle(masp.ActionSet(2, [(0, 1)]), np.eye(3)).similarity.shape
      (3, 3)
    """

    actions: ActionSet
    similarity: np.ndarray  # [A, A]
    card: Card = Card()

    def __repr__(self) -> str:
        primitives, macros = self.actions.num_primitives, len(self.actions.macros)
        source = f" from {json_text.shortened(self.card.env)}" if self.card.env else ""
        return f"Bundle({primitives} primitives, {macros} macros{source})"


def save_bundle(path: str | os.PathLike[str], bundle: Bundle) -> None:
    """Write it; an existing file is replaced whole or not at all.

    Examples:
      >>> import masp, numpy as np
      >>> masp.save_bundle("moves.safetensors", masp.Bundle(masp.ActionSet(2, [(0, 1)]), np.eye(3)))
      >>> masp.load_bundle("moves.safetensors").actions.sequence(2)
      (0, 1)
    """
    if not Path(path).parent.is_dir():
        raise UserError(f"{path}: there is no such folder to write to")
    similarity = np.ascontiguousarray(bundle.similarity, np.float32)
    actions, card = json_text.dumps(bundle.actions.to_json()), bundle.card.to_json()
    texts = {"actions": actions} | ({"card": json_text.dumps(card)} if card else {})
    digest = _digest("".join(texts.values()), similarity)
    metadata = {"format": FORMAT, "version": VERSION, **texts, "sha256": digest}
    with whole_file(path) as file:  # the library's own `save_file` ignores the umask
        file.write(save({"similarity": similarity}, metadata))


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a file is meant to be a bundle rather than a macro file, by its name."""
    return Path(path).suffix == ".safetensors"


def holds_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it is a bundle."""
    try:
        with safetensors.safe_open(path, "np") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (OSError, safetensors.SafetensorError, ValueError):
        return False


def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read it, or raise `UserError` that says what is wrong with it.

    Examples:
      >>> import masp, numpy as np
      >>> masp.save_bundle("two.safetensors", masp.Bundle(masp.ActionSet(2), np.eye(2)))
      >>> masp.load_bundle("two.safetensors").similarity.tolist()
      [[1.0, 0.0], [0.0, 1.0]]
    """
    try:
        with safetensors.safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("version") != VERSION:
                raise UserError(f"{path}: not a bundle of version {VERSION}; 'masp similarity export' makes one")
            if "actions" not in metadata or "similarity" not in file.keys():  # noqa: SIM118 - not a mapping
                raise UserError(f"{path}: the bundle has no actions or no similarity")
            actions = ActionSet.from_json(json_text.parse(metadata["actions"], f"{path}, actions"), str(path))
            card = Card.from_json(json_text.parse(metadata.get("card", "{}"), f"{path}, card"), f"{path}, card")
            _require_shape(tuple(file.get_slice("similarity").get_shape()), len(actions), str(path))
            similarity = file.get_tensor("similarity")
    except FileNotFoundError:
        raise UserError(f"{path}: no such bundle; 'masp similarity export RUN_DIR --out BUNDLE' makes one") from None
    except UserError:
        raise
    except (OSError, safetensors.SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a bundle: {json_text.first_line(error)}") from None
    about = metadata["actions"] + metadata.get("card", "")
    # Older bundles have no checksum, and nothing that looks like one whose name was damaged.
    sums = [text for name, text in metadata.items() if name == "sha256" or re.fullmatch("[0-9a-f]{64}", text)]
    if sums and metadata.get("sha256") != _digest(about, similarity):
        raise UserError(f"{path}: the checksum does not fit; the file was damaged after it was written")
    require_similarity(similarity, len(actions), str(path))
    return Bundle(actions, similarity, card)


def _require_shape(shape: tuple[int, ...], num_actions: int, where: str) -> None:
    if shape != (num_actions, num_actions):
        raise UserError(f"{where}: similarity is {shape} for {num_actions} actions")


def _digest(texts: str, similarity: np.ndarray) -> str:
    """SHA-256 over the content of a bundle: the texts of actions and card, one behind the other, and the numbers."""
    about = f"{texts} {similarity.dtype} {similarity.shape} "
    return hashlib.sha256(about.encode() + np.ascontiguousarray(similarity).tobytes()).hexdigest()


def require_similarity(similarity: np.ndarray, num_actions: int, where: str) -> None:
    """Raise `UserError` unless a matrix is a similarity: of floats in [0, 1], symmetric, with ones on the diagonal."""
    _require_shape(similarity.shape, num_actions, where)
    if similarity.dtype not in (np.float32, np.float64):
        raise UserError(f"{where}: similarity is of type {similarity.dtype}, expected float32")
    if not np.isfinite(similarity).all():
        row, column = np.argwhere(~np.isfinite(similarity))[0]
        raise UserError(f"{where}: similarity [{row}, {column}] is not a finite number")
    if similarity.min() < -TOLERANCE or similarity.max() > 1 + TOLERANCE:
        raise UserError(f"{where}: similarity has values {similarity.min():g}..{similarity.max():g}, expected 0..1")
    if not np.allclose(similarity, similarity.T, rtol=0, atol=TOLERANCE):
        raise UserError(f"{where}: similarity is not symmetric")
    if not np.allclose(np.diagonal(similarity), 1, rtol=0, atol=TOLERANCE):
        raise UserError(f"{where}: an action is not similar to itself (the diagonal of the similarity is not 1)")
