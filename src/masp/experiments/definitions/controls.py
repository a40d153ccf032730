"""What can be done about the similarity: the claim, and what must stand beside it.

`uniform` and `random` have the size that the learned similarity starts with, so that freezing is all that differs from
`masp`; `overlap` (also where learning begins with it: `prior`), `truth`, `transfer` and `consensus` are similarities in
their own right and keep their size. What presets add to the paper's idea is left out of all of them, except of those
that are what a user gets: those called `as it comes`.
"""

from __future__ import annotations

from typing import Any

from masp.presets import AS_IN_THE_PAPER

_FROZEN: dict[str, Any] = {**AS_IN_THE_PAPER, "variant": "masp", "learn_similarity": False}
_LEARNED: dict[str, Any] = {**AS_IN_THE_PAPER, "variant": "masp", "learn_similarity": True}
_OVERLAP: dict[str, Any] = {"similarity_start": "overlap", "similarity_start_value": 1.0}

CONTROLS: dict[str, dict[str, Any]] = {
    # name: what it changes in the configuration
    "rainbow": {**AS_IN_THE_PAPER, "variant": "rainbow"},
    "macros": {**AS_IN_THE_PAPER, "variant": "macros"},
    "uniform": {**_FROZEN, "similarity_start": "constant"},
    "random": {**_FROZEN, "similarity_start": "random"},
    "overlap": {**_FROZEN, **_OVERLAP},
    "masp": _LEARNED,
    "prior": {**_LEARNED, **_OVERLAP},
    "outcomes": {**_LEARNED, "similarity_from": "outcomes"},
    "truth": _FROZEN,
    "transfer": _FROZEN,
    "consensus": _FROZEN,
    "macros as it comes": {"variant": "macros"},
    "masp as it comes": {"variant": "masp"},
    "uniform as it comes": {"variant": "masp", "learn_similarity": False, "similarity_start": "constant"},
    "random as it comes": {"variant": "masp", "learn_similarity": False, "similarity_start": "random"},
    "overlap as it comes": {"variant": "masp", "learn_similarity": False, **_OVERLAP},
}

TAKEN_OVER = ("transfer", "consensus")
"""Controls whose similarity was learned by another trial."""

MEANINGS = {
    "rainbow": "primitives only",
    "macros": "macros, no penalty",
    "uniform": "penalty, all pairs equally similar, fixed",
    "random": "penalty, random similarity, fixed",
    "overlap": "penalty, common subsequences of the macros as similarity, fixed",
    "masp": "penalty, similarity learned",
    "prior": "penalty, similarity learned, beginning with the common subsequences",
    "outcomes": "penalty, actions are alike that are predicted to lead to the same place",
    "truth": "penalty, the true groups as similarity, fixed",
    "transfer": "penalty, similarity of another task, fixed",
    "consensus": "penalty, similarity of another task by its rows (`masp.similarity.consensus`), fixed",
    "macros as it comes": "macros, no penalty, everything else as the preset has it",
    "masp as it comes": "penalty, everything as the preset has it",
    "uniform as it comes": "the same, all pairs equally similar, fixed",
    "random as it comes": "the same, random similarity, fixed",
    "overlap as it comes": "the same, common subsequences of the macros as similarity, fixed",
}

COMPARED = ("rainbow", "macros", "uniform", "random", "overlap", "masp")
"""What every experiment compares; `truth` comes on top where it is known."""
