"""An experiment: the cells of one table, each with the trial that fills it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from masp.experiments.trial import Trial
from masp.report.tables import Judged

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Cell:
    """One figure of a table."""

    row: tuple[str, ...]
    """Names of the row, for example ("Breakout", "64")."""
    column: str
    """Usually the control."""
    trial: Trial
    judged: Judged | None = None
    """What is reported of the runs; None: what the experiment says."""


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, or one of ours."""

    name: str
    title: str
    """Title of the table; `titles` replaces it at some scales."""
    measure: Literal["return", "success"]
    """The evaluation figure that is reported."""
    row_names: tuple[str, ...]
    """Headings of the parts of a row, for example ("game", "macros")."""
    cells: Callable[..., list[Cell]]
    """From a scale (and a folder of human play, if `uses_human_play`) to the cells."""
    paper_table: str = ""
    """The table of the paper to print beside ours; empty: the paper has none."""
    titles: dict[Scale, str] = field(default_factory=dict)
    notes: dict[Scale, str] = field(default_factory=dict)
    """What a reader must know about a scale, for example that another game was played."""
    uses_human_play: bool = False
    """Whether macros can be mined from human play."""
    judged: Judged = "last"
    """Whether the last evaluation is reported or the mean of all evaluations of a run."""
    kind: Literal["bars", "lines", "matrix"] = "bars"
    """The chart of the table: `lines` over the last part of the row, `matrix` of rows and columns."""


def with_intra_option(cell: Cell) -> Cell:
    """The same cell with intra-option learning, in a column of its own."""
    return Cell(cell.row, f"{cell.column} inside", cell.trial.with_overrides(intra_option=True))


def options(**values: Any) -> tuple[tuple[str, Any], ...]:
    """Overrides of a trial, sorted by name so that equal overrides compare equal."""
    return tuple(sorted(values.items()))
