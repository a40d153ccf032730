"""The figure that a record is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

Judged = Literal["last", "run"]
"""By the last evaluation, or by the mean of all evaluations of a run: how soon it learned counts, too."""


def score(record: dict[str, Any], measure: str = "", judged: Judged = "last") -> float:
    """Success where the task has one (or as `measure` says), else the return."""
    if not measure:
        measure = "return" if record["success"] is None else "success"
    values = record[f"curve_{measure}"] if judged == "run" else [record[measure]]
    return float("nan") if not values or None in values else float(np.mean(values))


def mean_score(records: Sequence[dict[str, Any]], measure: str = "", judged: Judged = "last") -> float:
    """Over seeds."""
    return float(np.mean([score(record, measure, judged) for record in records]))
