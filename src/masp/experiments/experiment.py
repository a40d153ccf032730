"""An experiment: the cells of one table, each with the trial that fills it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from masp.experiments.trial import Trial
from masp.report.scores import Judged

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Cell:
    """One figure of a table."""

    row: tuple[str, ...]
    """What the row is about, for example ("Breakout", "64")."""
    column: str
    """Mostly the control."""
    trial: Trial


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, or of its affordable twin."""

    name: str
    title: str
    """What was played; `titles` says otherwise for some scales."""
    measure: Literal["return", "success"]
    """Which evaluation figure is reported."""
    row_names: tuple[str, ...]
    """What the parts of a row are, for example ("game", "macros")."""
    cells: Callable[..., list[Cell]]
    """From a scale (and a folder of human play, if `uses_human_play`) to the cells."""
    paper_table: str = ""
    """The paper's table that stands beside ours; empty: the paper has none."""
    titles: dict[Scale, str] | None = None
    notes: dict[Scale, str] | None = None
    """What a reader must know of a scale, for example that a stand-in was played."""
    uses_human_play: bool = False
    """Whether macros can be mined from people's play."""
    judged: Judged = "last"
    """Whether the last evaluation is reported or the mean over the run."""
    kind: Literal["bars", "lines", "matrix"] = "bars"
    """How the table is drawn: `lines` over the last part of the row, `matrix` of rows and columns."""


def credited(cell: Cell) -> Cell:
    """The same, but the steps inside a macro teach too."""
    return Cell(cell.row, f"{cell.column} inside", cell.trial.with_overrides(intra_option=True))


def options(**values: Any) -> tuple[tuple[str, Any], ...]:
    """Overrides of a trial, in the order that makes equal ones equal."""
    return tuple(sorted(values.items()))
