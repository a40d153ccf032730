"""The figure that a record is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def score(record: dict[str, Any], measure: str = "") -> float:
    """The last evaluation: success where the task has one (or as `measure` says), else the return."""
    if not measure:
        measure = "return" if record["success"] is None else "success"
    value = record[measure]
    return float("nan") if value is None else float(value)


def mean_score(records: Sequence[dict[str, Any]], measure: str = "") -> float:
    """Over seeds."""
    return float(np.mean([score(record, measure) for record in records]))
