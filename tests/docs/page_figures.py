"""Figures of pages that carry a marker: an HTML comment right behind the figure that names where it comes from.

    0.56<!--structure:run:grid,128primitives:masp-->           experiment, measure (last, run), row, column
    0.56<!--structure:run:grid,128primitives:masp:auc-->       the similarity's AUC instead of the score
    0.92<!--docs/figures/tutorial.json:six.run.masp.0-->       file and place in it

Rows and columns are written without spaces, the parts of a row with a slash between them. The figure must be the value
rounded to the figure's own digits.
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
MARKED = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)( %)?<!--([^<>]*:[^<>]*)-->")


@dataclass(frozen=True)
class Figure:
    """A figure of a page and the marker behind it."""

    text: str
    percent: bool
    marker: str

    def problem(self) -> str:
        """Why the figure is not what its marker says; empty: it is."""
        try:
            value = value_of(self.marker) * (100 if self.percent else 1)
        except (KeyError, IndexError, ValueError, FileNotFoundError) as error:
            return f"{self.text}: the marker {self.marker} names nothing ({error})"
        plain = self.text.replace(",", "")
        digits = len(plain.partition(".")[2])
        return "" if f"{value:.{digits}f}" == plain else f"{self.text} should be {value:.{digits}f} ({self.marker})"


def figures_of(text: str) -> list[Figure]:
    """The marked figures of a page."""
    return [Figure(number, bool(percent), marker) for number, percent, marker in MARKED.findall(text)]


def unmarked(text: str) -> list[str]:
    """Figures with decimals outside code that have neither a marker nor an interval behind them."""
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    prose = re.sub(r"-?[\d.]+ \[[^\]]*\]", "", MARKED.sub("", prose))
    return re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", prose)


def value_of(marker: str) -> float:
    """The number that a marker names."""
    where, _, place = marker.partition(":")
    if where.endswith(".json"):
        found: Any = json.loads((ROOT / where).read_text(encoding="utf-8"))
        for key in place.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return float(found)
    judged, row, column, *measure = place.split(":")
    cell = {tight(row): cells for row, cells in table(where, judged).rows}[row]
    cell = {tight((name,)): entry for name, entry in cell.items()}[column]
    if measure == ["auc"]:
        return float(np.mean([records()[cell.trial, seed]["similarity_auc"] for seed in cell.seeds]))
    if cell.mean is None:
        raise ValueError("nothing was run")
    return cell.mean


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
