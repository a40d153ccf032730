"""A table in a few figures: how often the learned similarity beats each control, and aggregates over tasks."""

from __future__ import annotations

from typing import Any

from masp.environments.atari_scores import human_normalised, known_games
from masp.report.statistics import aggregate, compare, difference_of, improvement_of, iqm_of, mean_of
from masp.report.tables import Table, TableCell

CLAIM = "masp"
"""The column that is held against all others."""


def summarise(table: Table) -> dict[str, Any]:
    """`against`: the claim held against each other column; `over_tasks`: aggregates of each column."""
    return {"claim": CLAIM, "against": _against(table), "over_tasks": _over_tasks(table)}


def _against(table: Table) -> dict[str, dict[str, Any]]:
    found = {}
    for column in table.columns:
        rows = [cells for _, cells in table.rows if _seeds(cells, column) > 1 and _seeds(cells, CLAIM) > 1]
        if column == CLAIM or not rows:
            continue
        ours, theirs = [cells[CLAIM].values for cells in rows], [cells[column].values for cells in rows]
        found[column] = {
            "rows": len(rows),
            "probability_of_improvement": compare(ours, theirs, improvement_of),
            # returns of different tasks have different sizes and cannot be averaged
            "difference": compare(ours, theirs, difference_of)
            if table.measure == "success" or len(rows) == 1
            else None,
        }
    return found


def _over_tasks(table: Table) -> dict[str, dict[str, Any]]:
    """Mean and interquartile mean of success, or of human-normalised scores; {} where neither means anything."""
    found = {}
    for column in table.columns:
        cells = [row[column] for _, row in table.rows if column in row]
        if len(cells) < max(len(table.rows), 2) or not all(cell.values for cell in cells):
            continue
        scores = [_comparable(cell, table.measure) for cell in cells]
        if all(score is not None for score in scores):
            tasks = [score for score in scores if score is not None]
            found[column] = {"mean": aggregate(tasks, mean_of), "iqm": aggregate(tasks, iqm_of)}
    return found


def _comparable(cell: TableCell, measure: str) -> list[float] | None:
    """Scores on a scale that all tasks share; None: there is none."""
    if measure == "success":
        return list(cell.values)
    if cell.env in known_games():
        return [human_normalised(cell.env, value) for value in cell.values]
    return None


def _seeds(cells: dict[str, TableCell], column: str) -> int:
    """One seed says nothing about chance."""
    return len(cells[column].values) if column in cells else 0


def summary_lines(table: Table) -> list[str]:
    """The same for people."""
    found = summarise(table)
    lines = []
    for column, figures in found["against"].items():
        text = f"{CLAIM} beats {column} with probability {_shown(figures['probability_of_improvement'], 2)}"
        if figures["difference"] is not None:
            text += f", difference {_shown(figures['difference'], 3)}"
        lines.append(text + f" ({figures['rows']} row{'s' if figures['rows'] > 1 else ''})")
    scale = "success" if table.measure == "success" else "human-normalised score in %, no-op starts"
    for name, title in (("iqm", "interquartile mean"), ("mean", "mean")):
        parts = [f"{column} {_shown(figures[name], 3)}" for column, figures in found["over_tasks"].items()]
        if parts:
            lines.append(f"{title} of {scale} over tasks: " + "; ".join(parts))
    return lines


def _shown(figures: tuple[float, float, float], digits: int) -> str:
    value, low, high = (f"{figure:.{digits}f}" for figure in figures)
    return f"{value} [{low}, {high}]"
