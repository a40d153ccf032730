"""The paper's tables as data: every figure as printed, and misprints with our reading."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA_FILE = Path(__file__).with_name("paper_tables.json")


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper as numbers."""

    mean: float
    spread: float | None
    """The number after ±; the paper does not say what it is."""


@cache
def paper() -> dict[str, Any]:
    """The content of the data file."""
    data: dict[str, Any] = json.loads(DATA_FILE.read_text())
    return data


def paper_cell(table: str, row: tuple[str, ...], column: str) -> str:
    """A figure as it is printed; empty: the paper has none there."""
    return _printed(table).get((row, column), "") if table else ""


def paper_remarks(table: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Remarks on a table, misprints included; those on one row only if that row is among `rows`."""

    def shown(entry: dict[str, Any]) -> bool:
        return entry["table"] == table and any(set(entry.get("row", ())) <= set(row) for row in rows)

    misprints = [
        f"paper, {', '.join(entry['row'])}, {entry['column']}: printed {entry['printed']}, read as {entry['read_as']}"
        for entry in filter(shown, paper()["misprints"])
    ]
    return misprints + [entry["remark"] for entry in filter(shown, paper()["remarks"])]


def paper_figure(table: str, row: tuple[str, ...], column: str) -> PaperFigure | None:
    """A figure as numbers, misprints corrected; None: the paper has none there."""
    for entry in paper()["misprints"]:
        if (entry["table"], tuple(entry["row"]), entry["column"]) == (table, row, column):
            return parse(entry["read_as"])
    printed = paper_cell(table, row, column)
    return parse(printed) if printed else None


def parse(printed: str) -> PaperFigure:
    """`16,668.2 ± 2,050.5` as numbers."""
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", printed.replace(",", ""))]
    return PaperFigure(numbers[0], numbers[1] if len(numbers) > 1 else None)


@cache
def _printed(table: str) -> dict[tuple[tuple[str, ...], str], str]:
    data = paper()["tables"][table]
    parts = len(data["row_names"])
    return {
        (tuple(line[:parts]), column): figure
        for line in data["cells"]
        for column, figure in zip(data["columns"], line[parts:], strict=True)
    }
