"""What can be done about the similarity: the claim, and what must stand beside it.

`uniform` and `random` have the size that the learned similarity starts with, so that freezing is all that differs from
`masp`. What presets add to the paper's macros (`PLAIN`) is switched off in all of them, except in those that are what a
user gets: those called `as it comes`.
"""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {"intra_option": False, "macros_for": "acting"}
"""Macros as in the paper: actions like all others, and nothing is learned inside them."""
_FROZEN: dict[str, Any] = {"variant": "masp", "meta_learning_rate": 0.0}

CONTROLS: dict[str, dict[str, Any]] = {
    # name: what it changes in the configuration
    "rainbow": {**PLAIN, "variant": "rainbow"},
    "macros": {**PLAIN, "variant": "macros"},
    "uniform": {**PLAIN, **_FROZEN, "similarity_start": "constant"},
    "random": {**PLAIN, **_FROZEN, "similarity_start": "random"},
    "overlap": {**PLAIN, **_FROZEN, "similarity_start": "overlap"},
    "masp": {**PLAIN, "variant": "masp"},
    "prior": {**PLAIN, "variant": "masp", "similarity_start": "overlap"},
    "outcomes": {**PLAIN, "variant": "outcomes"},
    "truth": {**PLAIN, **_FROZEN},
    "transfer": {**PLAIN, **_FROZEN},
    "consensus": {**PLAIN, **_FROZEN},
    "macros as it comes": {"variant": "macros"},
    "masp as it comes": {"variant": "masp"},
    "outcomes as it comes": {"variant": "outcomes"},
    "uniform as it comes": {**_FROZEN, "similarity_start": "constant"},
    "random as it comes": {**_FROZEN, "similarity_start": "random"},
    "overlap as it comes": {**_FROZEN, "similarity_start": "overlap"},
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
    "masp as it comes": "penalty, similarity learned, everything else as the preset has it",
    "outcomes as it comes": "penalty, similarity from predicted outcomes, everything else as the preset has it",
    "uniform as it comes": "the same, all pairs equally similar, fixed",
    "random as it comes": "the same, random similarity, fixed",
    "overlap as it comes": "the same, common subsequences of the macros as similarity, fixed",
}

COMPARED = ("rainbow", "macros", "uniform", "random", "overlap", "masp")
"""What every experiment compares; `truth` comes on top where it is known."""
