"""Figures of pages that carry a marker: an HTML comment right behind the figure that names where it comes from.

    0.56<!--structure:run:grid,128primitives:masp-->                experiment, measure (last, run), row, column
    0.56 [0.55, 0.58]<!--structure:run:grid,128primitives:masp-->   the same with its interval
    0.56<!--structure:run:grid,128primitives:masp:auc-->            the similarity's AUC instead of the score
    0.84 [0.76, 0.90]<!--docs/figures/tutorial.json:six.run.masp-->   file and place of a number, or of three in it

Rows and columns are written without spaces, the parts of a row with a slash between them. Figures must be the values
rounded to their own digits; behind a percent sign they are hundredths.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from masp.experiments.store import Store
from masp.report.tables import Table, build

ROOT = Path(__file__).resolve().parents[2]
SCALE = "laptop"
NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
MARKED = re.compile(rf"({NUMBER})(?: \[({NUMBER}), ({NUMBER})\])?( %)?<!--([^<>]*:[^<>]*)-->")


@dataclass(frozen=True)
class Figure:
    """A figure of a page, or a figure with its interval, and the marker behind it."""

    texts: tuple[str, ...]
    percent: bool
    marker: str

    def problem(self) -> str:
        """Why the figure is not what its marker says; empty: it is."""
        try:
            values = values_of(self.marker)[: len(self.texts)]
        except (KeyError, IndexError, ValueError, FileNotFoundError) as error:
            return f"{self.texts}: the marker {self.marker} names nothing ({error})"
        if len(values) < len(self.texts):
            return f"{self.texts}: the marker {self.marker} names {len(values)} numbers"
        plain = [text.replace(",", "") for text in self.texts]
        scaled = [value * (100 if self.percent else 1) for value in values]
        right = [f"{value:.{len(text.partition('.')[2])}f}" for value, text in zip(scaled, plain, strict=True)]
        return "" if right == plain else f"{self.texts} should be {right} ({self.marker})"


def figures_of(text: str) -> list[Figure]:
    """The marked figures of a page."""
    return [
        Figure(tuple(number for number in numbers if number), bool(percent), marker)
        for *numbers, percent, marker in MARKED.findall(text)
    ]


def unmarked(text: str) -> list[str]:
    """Figures with decimals outside code that have neither a marker nor an interval behind them."""
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    prose = re.sub(r"-?[\d.]+ \[[^\]]*\]", "", MARKED.sub("", prose))
    return re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", prose)


def values_of(marker: str) -> tuple[float, ...]:
    """The numbers that a marker names: a figure, and its interval where there is one."""
    where, _, place = marker.partition(":")
    if where.endswith(".json"):
        found: Any = json.loads((ROOT / where).read_text(encoding="utf-8"))
        for key in place.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return tuple(map(float, found if isinstance(found, list) else [found]))
    judged, row, column, *measure = place.split(":")
    cells = {tight(row): cells for row, cells in table(where, judged).rows}[row]
    cell = {tight((name,)): cell for name, cell in cells.items()}[column]
    if measure == ["auc"]:
        return (float(np.mean([records()[cell.trial, seed]["similarity_auc"] for seed in cell.seeds])),)
    if cell.mean is None:
        raise ValueError("nothing was run")
    return (cell.mean, *(cell.interval or ()))


def tight(row: tuple[str, ...]) -> str:
    """A row's or column's name as markers write it."""
    return "/".join(row).replace(" ", "")


@cache
def records() -> Any:
    return Store(ROOT / "results").records()


@cache
def table(name: str, judged: str) -> Table:
    """A table of the results store."""
    plan = Store(ROOT / "results").read_plan(name, SCALE)
    if plan is None:
        raise ValueError(f"there is no plan of {name}")
    return build({**plan, "judged": judged}, records(), ())
