"""What a trial does about the similarity: MASP itself and the controls that it is compared with.

`uniform` and `random` start from a similarity of the same size as `masp` and keep it, so that they differ from `masp`
only in not learning. All controls switch off what the presets add to the paper's macros (`PLAIN`), except those that
end in `as it comes`: these are what a user gets from the preset.
"""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {"intra_option": False, "macros_for": "acting"}
"""Macros as in the paper: actions like all others, and no learning from the steps inside them."""
_MATRIX: dict[str, Any] = {"variant": "masp", "similarity_form": "matrix"}
_FROZEN: dict[str, Any] = {"variant": "masp", "meta_learning_rate": 0.0}

CONTROLS: dict[str, dict[str, Any]] = {
    # name: settings that it changes
    "rainbow": {**PLAIN, "variant": "rainbow"},  # primitives only
    "macros": {**PLAIN, "variant": "macros"},  # macros without a penalty
    "uniform": {**PLAIN, **_FROZEN, "similarity_start": "constant"},  # all pairs equally similar, fixed
    "random": {**PLAIN, **_FROZEN, "similarity_start": "random"},  # random similarity, fixed
    "overlap": {**PLAIN, **_FROZEN, "similarity_start": "overlap"},  # common subsequences of the macros, fixed
    "masp": {**PLAIN, **_MATRIX},  # similarity meta-learned, one number per pair of actions however many there are
    "embedded": {**PLAIN, "variant": "masp", "similarity_form": "embedded"},  # from embeddings of the actions
    "prior": {**PLAIN, **_MATRIX, "similarity_start": "overlap"},  # meta-learned, starting from the overlap
    "outcomes": {**PLAIN, "variant": "outcomes"},  # similarity per state, from predicted effects
    "truth": {**PLAIN, **_FROZEN},  # the true groups of the task, fixed
    "transfer": {**PLAIN, **_FROZEN},  # similarity of another trial, fixed
    "consensus": {**PLAIN, **_FROZEN},  # the same, denoised by `masp.similarity.consensus`
    "agent": {**PLAIN, **_MATRIX},  # parameters, macros and similarity of another trial, all learning
    "agent frozen": {**PLAIN, **_FROZEN},  # the same, its similarity fixed
    "macros as it comes": {"variant": "macros"},
    "masp as it comes": _MATRIX,  # above 256 actions the preset has embeddings since
    "outcomes as it comes": {"variant": "outcomes"},
    "uniform as it comes": {**_FROZEN, "similarity_start": "constant"},
    "random as it comes": {**_FROZEN, "similarity_start": "random"},
    "overlap as it comes": {**_FROZEN, "similarity_start": "overlap"},
}

FROZEN = tuple(name for name, changes in CONTROLS.items() if changes.get("meta_learning_rate") == 0.0)
"""Controls whose similarity does not learn."""
TRANSFERRED_SIMILARITY = ("transfer", "consensus")
"""Controls that take over the similarity of another trial."""
WHOLE_AGENTS = ("agent", "agent frozen")
"""Controls that go on with the agent of another trial."""
TRANSFERRED = (*TRANSFERRED_SIMILARITY, *WHOLE_AGENTS)
"""Controls that need another trial, trained first."""
UNPENALISED = ("rainbow", "macros", "macros as it comes")
"""Controls without a penalty, for which there is no weight to choose."""
COMPARED = ("rainbow", "macros", "uniform", "random", "overlap", "masp")
"""The columns of most experiments; `truth` is added where the task has known groups."""
