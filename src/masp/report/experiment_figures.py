"""Which charts and figures an experiment has, drawn from its table and the records of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from masp.report.charts import Point, Series, bar_chart, bar_grid, line_chart, matrix_chart, profile_chart
from masp.report.figures import learning_curves
from masp.report.paper import paper_figure
from masp.report.similarity_map import similarity_map
from masp.report.statistics import performance_profile, profile_band
from masp.report.tables import Records, Table, TableCell
from masp.similarity.bundle import load_bundle


def draw(table: Table, records: Records, store: Path, folder: Path) -> list[Path]:
    """Draw all figures that the finished cells allow; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{table.experiment}-{table.scale}"
    if not any(cell.values for _, cells in table.rows for cell in cells.values()):
        return []
    files = _main_charts(table, stem)
    files += _curves(table, records, stem)
    files += _profiles(table, Path(f"{stem}-profiles.png"))
    return files + _similarity(table, records, store, stem)


def _main_charts(table: Table, stem: Path) -> list[Path]:
    title, measure = f"{table.title}, scale {table.scale}", _measure(table)
    path = Path(f"{stem}-{table.kind}.png")
    panels = {"here": _ours(table), "paper": _paper(table)}
    panels = {name: series for name, series in panels.items() if series}
    if table.kind == "lines":
        rows = {name: _by_first_part(table, series) for name, series in panels.items()}
        line_chart(rows, path, title, measure, table.row_names[-1])
    elif table.kind == "matrix":
        matrix_chart(_keyed(panels), path, title, measure)
    elif table.measure == "return":
        files = {name: Path(f"{stem}-{table.kind}{'-paper' * (name == 'paper')}.png") for name in panels}
        for name, series in _keyed(panels).items():
            bar_grid(series, files[name], f"{title}, {name}", measure)
        return list(files.values())
    else:
        bar_chart(_keyed(panels), path, title, measure)
    return [path]


def _measure(table: Table) -> str:
    """What is plotted, for an axis."""
    return f"{table.measure}, {'mean of all evaluations of a run' if table.judged == 'run' else 'last evaluation'}"


Rows = dict[tuple[str, ...], dict[str, Point]]


def _keyed(panels: dict[str, Rows]) -> dict[str, Series]:
    """Rows by their names joined."""
    return {name: {", ".join(row): points for row, points in rows.items()} for name, rows in panels.items()}


def _ours(table: Table) -> Rows:
    rows = {row: {column: _point(cell) for column, cell in cells.items() if cell.values} for row, cells in table.rows}
    return {row: points for row, points in rows.items() if points}


def _paper(table: Table) -> Rows:
    series: Rows = {}
    for row, cells in table.rows:
        for column, cell in cells.items():
            if point := _paper_point(table, row, column, cell):
                series.setdefault(row, {})[column] = point
    return series


def _by_first_part(table: Table, rows: Rows) -> dict[str, Series]:
    """One series per task over the last part of the row, settings without a figure included."""
    panels: dict[str, dict[str, dict[str, Point]]] = defaultdict(dict)
    tasks = {row[:-1] for row in rows}
    for row, _ in table.rows:
        if row[:-1] in tasks:
            panels[", ".join(row[:-1])][row[-1]] = rows.get(row, {})
    return dict(panels)


def _point(cell: TableCell) -> Point:
    assert cell.mean is not None
    return Point(cell.mean, *(cell.interval or (None, None)))


def _paper_point(table: Table, row: tuple[str, ...], column: str, cell: TableCell) -> Point | None:
    figure = paper_figure(table.paper_table, row, column) if cell.paper else None
    if figure is None:
        return None
    spread = figure.spread
    return Point(figure.mean) if spread is None else Point(figure.mean, figure.mean - spread, figure.mean + spread)


def _curves(table: Table, records: Records, stem: Path) -> list[Path]:
    """Learning curves of every row."""
    files = []
    for row, cells in table.rows:
        curves = {}
        for column, cell in cells.items():
            points = [_curve(records[cell.trial, seed], table.measure) for seed in cell.seeds]
            if points and min(map(len, points)) > 1:
                curves[column] = points
        if curves:
            path = Path(f"{stem}-curves-{_file_name(row)}.png")
            learning_curves(curves, path, f"{table.title}: {', '.join(row)}", f"evaluation {table.measure}")
            files.append(path)
    return files


def _curve(record: Mapping[str, Any], measure: str) -> list[tuple[int, float]]:
    return list(zip(record["curve_frames"], record[f"curve_{measure}"], strict=True))


def _profiles(table: Table, path: Path) -> list[Path]:
    """Performance profiles over tasks, where the scores of tasks are comparable."""
    complete = [c for c in table.columns if all(c in cells and cells[c].values for _, cells in table.rows)]
    if table.measure != "success" or len(table.rows) < 2 or not complete:
        return []
    thresholds = np.linspace(0, 1, 101)
    profiles = {}
    for column in complete:
        scores = [cells[column].values for _, cells in table.rows]
        profiles[column] = (performance_profile(scores, thresholds), *profile_band(scores, thresholds))
    profile_chart(profiles, thresholds, path, f"{table.title}, scale {table.scale}", _measure(table))
    return [path]


def _similarity(table: Table, records: Records, store: Path, stem: Path) -> list[Path]:
    """The similarity of the first seed of every `masp` cell, where its file exists."""
    files = []
    for row, cells in table.rows:
        cell = cells.get("masp")
        if cell is None or not cell.seeds:
            continue
        bundle_file = store / "bundles" / f"{cell.trial}-{cell.seeds[0]}.safetensors"
        if not bundle_file.exists():
            bundle_file = store / records[cell.trial, cell.seeds[0]]["run"] / "similarity.safetensors"
        if bundle_file.exists():
            bundle = load_bundle(bundle_file)
            path = Path(f"{stem}-similarity-{_file_name(row)}.png")
            title = f"{', '.join(row)}: learned similarity of {len(bundle.actions)} actions, seed {cell.seeds[0]}"
            similarity_map(bundle.similarity, bundle.actions.names, path, title)
            files.append(path)
    return files


def _file_name(row: tuple[str, ...]) -> str:
    return "-".join("".join(c if c.isalnum() or c == "." else "-" for c in part) for part in row).lower()
