"""A callback that ends training before its last frame, at a target or on a plateau."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.training.callbacks import Callback, RunView


@dataclass
class EarlyStopping(Callback):
    """Stops at an evaluation; everything is saved as at the end of training.

    Examples:
      >>> EarlyStopping(target=0.95, patience=5)
      EarlyStopping(target=0.95, patience=5, metric='eval_return', min_improvement=0.0)
    """

    target: float | None = None
    """Stop when the metric reaches this."""
    patience: int | None = None
    """Stop after so many evaluations in a row without an improvement."""
    metric: str = "eval_return"
    """A column of the metrics that grows when the agent gets better."""
    min_improvement: float = 0.0
    """The metric must exceed its best value so far by more than this to count as an improvement."""

    _best: dict[Path, float] = field(default_factory=dict, init=False, repr=False)
    _waited: dict[Path, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.target is None and self.patience is None:
            raise UserError("EarlyStopping needs a target, or a patience in evaluations, or both")
        if self.patience is not None and self.patience < 1:
            raise UserError(f"patience must be at least 1, got {self.patience}")

    def on_start(self, run: RunView) -> None:
        self._best[run.path], self._waited[run.path] = -math.inf, 0

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> bool:
        if self.metric not in row:
            raise UserError(f"there is no metric {self.metric!r}; there are {', '.join(row)}")
        value = row[self.metric]
        if value is None:
            raise UserError(f"{run.config.env} has no value for the metric {self.metric}")
        if value > self._best[run.path] + self.min_improvement:
            self._best[run.path], self._waited[run.path] = value, 0
        else:
            self._waited[run.path] += 1
        reached = self.target is not None and value >= self.target
        return reached or (self.patience is not None and self._waited[run.path] >= self.patience)
