"""A table of an experiment: our figures with intervals, beside the paper's.

Built from a plan (which trial stands in which cell) and records, both as the results store holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from masp.report.paper import paper_cell
from masp.report.scores import Judged, score
from masp.report.statistics import bootstrap_interval

Records = Mapping[tuple[str, int], dict[str, Any]]


@dataclass(frozen=True)
class TableCell:
    """One figure; without `values` it was not run."""

    values: tuple[float, ...] = ()
    """One per seed."""
    seeds: tuple[int, ...] = ()
    missing_seeds: tuple[int, ...] = ()
    frames: int = 0
    env: str = ""
    trial: str = ""
    commits: tuple[str, ...] = ()
    paper: str = ""
    """As the paper prints it; empty: the paper has no such figure."""
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
        """Everything, with means and intervals computed."""
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
    columns: list[str] = []
    rows: dict[tuple[str, ...], dict[str, TableCell]] = {}
    for entry in plan["cells"]:
        row, column = tuple(entry["row"]), entry["column"]
        if column not in columns:
            columns.append(column)
        rows.setdefault(row, {})[column] = _cell(entry, plan, records)
    notes = [plan["note"]] if plan["note"] else []
    return Table(
        experiment=plan["experiment"],
        scale=plan["scale"],
        title=plan["title"],
        measure=plan["measure"],
        judged=_judged(plan),
        kind=plan["kind"],
        paper_table=plan["paper_table"],
        row_names=tuple(plan["row_names"]),
        columns=tuple(columns),
        rows=tuple(rows.items()),
        notes=(*notes, *extra_notes),
    )


def _judged(plan: dict[str, Any]) -> Judged:
    return plan.get("judged", "last")  # older plans do not say


def _cell(entry: dict[str, Any], plan: dict[str, Any], records: Records) -> TableCell:
    found = {seed: records.get((entry["trial"], seed)) for seed in entry["seeds"]}
    there = {seed: record for seed, record in found.items() if record is not None}
    first = next(iter(there.values()), None)
    return TableCell(
        values=tuple(score(record, plan["measure"], _judged(plan)) for record in there.values()),
        seeds=tuple(there),
        missing_seeds=tuple(seed for seed in found if seed not in there),
        frames=entry["frames"],
        env=entry["env"],
        trial=entry["trial"],
        commits=tuple(sorted({record["commit"] for record in there.values()})),
        paper=paper_cell(plan["paper_table"], tuple(entry["row"]), entry["column"]),
        chosen=first["chosen"] if first else {},
    )
