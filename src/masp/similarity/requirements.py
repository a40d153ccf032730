"""What users give to `MetaSimilarity`, in JAX or PyTorch: checked, and brought into one form. Needs neither library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from masp.errors import UserError
from masp.json_text import shortened
from masp.macros.actions import ActionSet
from masp.similarity.bundle import Bundle, require_similarity
from masp.similarity.starts import starting_matrix

STARTS = ("constant", "overlap", "identity")
PENALTY_FORMS = ("mean", "sum", "literal")


def action_set(actions: ActionSet | int) -> ActionSet:
    """The actions of an agent; a number means so many actions of which nothing is known."""
    if isinstance(actions, ActionSet):
        return actions
    if isinstance(actions, bool) or not isinstance(actions, (int, np.integer)):
        raise UserError(f"actions must be an ActionSet or a number of actions, got {shortened(actions)}")
    return ActionSet(int(actions))


def require_settings(penalty_weight: Any, learning_rate: Any, penalty_form: str, entropy_weight: float = 0.0) -> None:
    """Raise `UserError` for a setting out of range; traced values pass, because nothing is known of them."""
    numbers = {"penalty_weight": penalty_weight, "learning_rate": learning_rate, "entropy_weight": entropy_weight}
    for name, value in numbers.items():
        numeric = isinstance(value, (int, float)) or hasattr(value, "dtype")
        if not numeric or (isinstance(value, (int, float)) and not (math.isfinite(value) and value >= 0)):
            raise UserError(f"MetaSimilarity: {name} must be a number of at least 0, got {value}")
    if penalty_form not in PENALTY_FORMS:
        raise UserError(f"MetaSimilarity: penalty_form must be one of {', '.join(PENALTY_FORMS)}, got {penalty_form!r}")


def starting_similarity(start: Any, actions: ActionSet, only_counted: bool) -> np.ndarray:
    """[A, A] the similarity before anything was learned.

    Args:
      start: one of `STARTS`, a bundle, or a matrix [A, A].
      only_counted: `actions` is only a number of actions, so a bundle is compared with it by its size alone.
    """
    count = len(actions)
    if isinstance(start, Bundle):
        require_same_actions(start.actions, actions, only_counted)
        return _valid(start.similarity, count, "the bundle's similarity")
    if not isinstance(start, str):
        return _valid(np.asarray(start), count, "start")
    if start == "overlap" and only_counted:
        raise UserError("start 'overlap' compares macros: give MetaSimilarity an ActionSet instead of a number")
    if start not in STARTS:
        raise UserError(f"start must be one of {', '.join(STARTS)}, a bundle or a matrix [A, A], got {start!r}")
    return starting_matrix(start, actions.sequences())


def _valid(similarity: np.ndarray, count: int, where: str) -> np.ndarray:
    similarity = similarity.astype(np.float32) if similarity.dtype.kind in "iub" else similarity
    require_similarity(similarity, count, where)
    return similarity


def require_same_actions(bundle: ActionSet, actions: ActionSet, only_counted: bool = False) -> None:
    """Raise `UserError` unless a bundle was made for these actions, in this order."""
    if len(bundle) != len(actions) or (not only_counted and bundle.num_primitives != actions.num_primitives):
        agent = f"{len(actions)} actions" if only_counted else _counted(actions)
        raise UserError(f"the bundle is of another action set: it has {_counted(bundle)}, the agent {agent}")
    if only_counted:
        return
    pairs = zip(bundle.macros, actions.macros, strict=True)
    for i, (theirs, ours) in enumerate(pairs):
        if theirs.actions != ours.actions:
            shown = [shortened(list(macro.actions)) for macro in (theirs, ours)]
            raise UserError(
                f"the bundle is of another action set: its macro {i} is {shown[0]}, the agent's is {shown[1]}"
            )


def require_outputs(shape: tuple[int, ...], batch: int | None, actions: ActionSet, what: str) -> None:
    """Raise `UserError` unless `shape` is [B, A]: one value per state and action."""
    expected = len(actions)
    if len(shape) == 2 and shape[1] == expected and batch in (None, shape[0]):
        return
    batch_text = "B" if batch is None else str(batch)
    raise UserError(
        f"{what} has shape {list(shape)}, expected [{batch_text}, {expected}]: one value for each of "
        f"{_counted(actions)}"
    )


def _counted(actions: ActionSet) -> str:
    if not actions.macros:
        return f"{len(actions)} actions"
    return f"{len(actions)} actions ({actions.num_primitives} primitives, {len(actions.macros)} macros)"
