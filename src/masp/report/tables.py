"""A table of an experiment: our figures with intervals beside the paper's, and a summary over tasks.

Built from a plan (which trial fills which cell) and records, both as the results store holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from masp.environments.atari_scores import human_normalised, known_games
from masp.report.paper import paper_cell
from masp.report.statistics import (
    aggregate,
    bootstrap_interval,
    compare,
    difference_of,
    improvement_of,
    iqm_of,
    mean_of,
)

Judged = Literal["last", "run", "first"]
"""The score of a run: its last evaluation; the mean of all its evaluations, which also rewards learning early; or its
first, which of an agent that starts with another's parameters comes before it learns anything."""
Records = Mapping[tuple[str, int], dict[str, Any]]
"""By (trial id, seed)."""
CLAIM = "masp"
"""The column that is compared with all others."""
SCORES = {"success": "success", "return": "human-normalised score in %, no-op starts"}
"""What is averaged over tasks, by the measure of the table."""


def score(record: dict[str, Any], measure: str = "", judged: Judged = "last") -> float:
    """The score of one run; without a `measure`, success where the task has one, else the return."""
    if not measure:
        measure = "return" if record["success"] is None else "success"
    curve = record[f"curve_{measure}"]
    values = {"run": curve, "first": curve[:1], "last": [record[measure]]}[judged]
    return float("nan") if not values or None in values else float(np.mean(values))


def mean_score(records: Sequence[dict[str, Any]], measure: str = "", judged: Judged = "last") -> float:
    """Mean of the scores of some runs."""
    return float(np.mean([score(record, measure, judged) for record in records]))


@dataclass(frozen=True)
class TableCell:
    """One figure; without `values` nothing was run."""

    values: tuple[float, ...] = ()
    """One score per seed."""
    seeds: tuple[int, ...] = ()
    missing_seeds: tuple[int, ...] = ()
    frames: int = 0
    env: str = ""
    trial: str = ""
    commits: tuple[str, ...] = ()
    paper: str = ""
    """The figure as the paper prints it; empty: it has none."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Settings that a sweep chose."""

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of the mean over seeds; None below two seeds."""
        return bootstrap_interval(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Table:
    """Rows of cells by column."""

    experiment: str
    scale: str
    title: str
    measure: str
    judged: Judged
    kind: str
    paper_table: str
    row_names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], dict[str, TableCell]], ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields, with means and intervals."""
        rows = [
            {
                "row": dict(zip(self.row_names, row, strict=True)),
                "cells": {
                    column: {**asdict(cell), "mean": cell.mean, "interval": cell.interval}
                    for column, cell in cells.items()
                },
            }
            for row, cells in self.rows
        ]
        names = ("experiment", "scale", "title", "measure", "judged", "columns", "notes")
        head = {name: getattr(self, name) for name in names}
        return {**head, "rows": rows}


def build(plan: dict[str, Any], records: Records, extra_notes: tuple[str, ...] = ()) -> Table:
    """The table of a stored plan."""
    judged: Judged = plan.get("judged", "last")  # absent in old plans
    columns: list[str] = []
    rows: dict[tuple[str, ...], dict[str, TableCell]] = {}
    for entry in plan["cells"]:
        row, column = tuple(entry["row"]), entry["column"]
        if column not in columns:
            columns.append(column)
        rows.setdefault(row, {})[column] = _cell(entry, plan, judged, records)
    notes = [plan["note"]] if plan["note"] and plan["scale"] != "smoke" else []
    return Table(
        experiment=plan["experiment"],
        scale=plan["scale"],
        title=plan["title"],
        measure=plan["measure"],
        judged=judged,
        kind=plan["kind"],
        paper_table=plan["paper_table"],
        row_names=tuple(plan["row_names"]),
        columns=tuple(columns),
        rows=tuple(rows.items()),
        notes=(*notes, *extra_notes),
    )


def _cell(entry: dict[str, Any], plan: dict[str, Any], judged: Judged, records: Records) -> TableCell:
    finished = {seed: records[entry["trial"], seed] for seed in entry["seeds"] if (entry["trial"], seed) in records}
    judged = entry.get("judged", judged)
    first = next(iter(finished.values()), None)
    return TableCell(
        values=tuple(score(record, plan["measure"], judged) for record in finished.values()),
        seeds=tuple(finished),
        missing_seeds=tuple(seed for seed in entry["seeds"] if seed not in finished),
        frames=entry["frames"],
        env=entry["env"],
        trial=entry["trial"],
        commits=tuple(sorted({record["commit"] for record in finished.values()})),
        paper=paper_cell(plan["paper_table"], tuple(entry["row"]), entry["column"]),
        chosen=first["chosen"] if first else {},
    )


def summarise(table: Table) -> dict[str, Any]:
    """`against`: the claim compared with each other column; `over_tasks`: aggregates of each column over all rows."""
    return {"claim": CLAIM, "against": _against(table), "over_tasks": _over_tasks(table)}


def _against(table: Table) -> dict[str, dict[str, Any]]:
    comparisons = {}
    for column in table.columns:
        rows = [cells for _, cells in table.rows if _seeds(cells, column) > 1 and _seeds(cells, CLAIM) > 1]
        if column == CLAIM or not rows:
            continue
        ours, theirs = [cells[CLAIM].values for cells in rows], [cells[column].values for cells in rows]
        comparisons[column] = {
            "rows": len(rows),
            "probability_of_improvement": compare(ours, theirs, improvement_of),
            # returns of different tasks have different scales and cannot be averaged
            "difference": compare(ours, theirs, difference_of)
            if table.measure == "success" or len(rows) == 1
            else None,
        }
    return comparisons


def _over_tasks(table: Table) -> dict[str, dict[str, Any]]:
    """Mean and interquartile mean of success, or of human-normalised scores; {} where scores cannot be averaged."""
    aggregates = {}
    for column in table.columns:
        cells = [row[column] for _, row in table.rows if column in row]
        if len(cells) < max(len(table.rows), 2) or not all(cell.values for cell in cells):
            continue
        scores = [_comparable(cell, table.measure) for cell in cells]
        if all(score is not None for score in scores):
            tasks = [score for score in scores if score is not None]
            aggregates[column] = {"mean": aggregate(tasks, mean_of), "iqm": aggregate(tasks, iqm_of)}
    return aggregates


def _comparable(cell: TableCell, measure: str) -> list[float] | None:
    """Scores on a scale that all tasks share; None: the task has no such scale."""
    if measure == "success":
        return list(cell.values)
    if cell.env in known_games():
        return [human_normalised(cell.env, value) for value in cell.values]
    return None


def _seeds(cells: dict[str, TableCell], column: str) -> int:
    """Number of finished seeds of a column."""
    return len(cells[column].values) if column in cells else 0


def summary_lines(table: Table) -> list[str]:
    """The summary as lines of text."""
    summary = summarise(table)
    lines = []
    for column, figures in summary["against"].items():
        text = f"{CLAIM} beats {column} with probability {interval_text(figures['probability_of_improvement'], 2)}"
        if figures["difference"] is not None:
            text += f", difference {interval_text(figures['difference'], 3)}"
        lines.append(text + f" ({figures['rows']} row{'s' if figures['rows'] > 1 else ''})")
    for name, title in (("iqm", "interquartile mean"), ("mean", "mean")):
        parts = [f"{column} {interval_text(figures[name], 3)}" for column, figures in summary["over_tasks"].items()]
        if parts:
            lines.append(f"{title} of {SCORES[table.measure]} over tasks: " + "; ".join(parts))
    return lines


def interval_text(figures: tuple[float, float, float], digits: int) -> str:
    """A figure and its interval."""
    value, low, high = (f"{figure:.{digits}f}" for figure in figures)
    return f"{value} [{low}, {high}]"
