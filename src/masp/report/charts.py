"""Charts of points with intervals: bars, lines over a setting, matrices of transfer, performance profiles."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from masp.printable import figure_text
from masp.report.figures import BAND, INSIDE, colour_of, note, save_figure, subplots

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Point:
    """A mean with its interval, if there is one."""

    mean: float
    low: float | None = None
    high: float | None = None


WHISKERS = "whiskers: 95 % bootstrap interval of the mean over seeds; of the paper, its ±"

Series = Mapping[str, Mapping[str, Point]]
"""Group (task, k, ...) to column to point."""


def bar_chart(panels: Mapping[str, Series], path: Path, title: str, measure: str) -> None:
    """One panel per entry, in it one group of bars per task and one bar per column."""
    widest = max(len(series) for series in panels.values())
    size = (min(5.0 + 1.4 * widest, 18.0), 3.6 * len(panels) + 0.6)
    figure, axes = subplots(len(panels), 1, size, squeeze=False)
    for axis, (name, series) in zip(axes[:, 0], panels.items(), strict=True):
        columns = _columns(series)
        for place, column in enumerate(columns):
            present = [(i, points[column]) for i, points in enumerate(series.values()) if column in points]
            positions = [i + (place - (len(columns) - 1) / 2) * 0.8 / len(columns) for i, _ in present]
            _bars(axis, positions, [point for _, point in present], column, 0.74 / len(columns))
        axis.set_xticks(range(len(series)), list(map(figure_text, series)))
        axis.set(ylabel=measure, title=figure_text(name))
        axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _finish(figure, path, title, WHISKERS)


def bar_grid(series: Series, path: Path, title: str, measure: str) -> None:
    """A small panel per group with an axis of its own, because games have different scores."""
    across = min(len(series), 9 if len(series) > 12 else 4)
    down = math.ceil(len(series) / across)
    size = (2.2 * across + 1.6, 1.9 * down + 0.6)
    figure, axes = subplots(down, across, size, squeeze=False)
    columns = _columns(series)
    for axis, (group, points) in zip(axes.flat, series.items(), strict=False):
        for place, column in enumerate(columns):
            if column in points:
                _bars(axis, [place], [points[column]], column, 0.85)
        axis.set_xticks([])
        axis.set_title(figure_text(group), fontsize=9)
        axis.tick_params(labelsize=7)
    for axis in list(axes.flat)[len(series) :]:
        axis.set_axis_off()
    handles = [Rectangle((0, 0), 1, 1, **_style(column)) for column in columns]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)
    _finish(figure, path, f"{title} ({measure})", WHISKERS)


def line_chart(rows: Mapping[str, Mapping[str, Series]], path: Path, title: str, measure: str, setting: str) -> None:
    """Rows (here, paper) of panels, one per task; the groups of a series are the values on the horizontal axis."""
    names = list(dict.fromkeys(name for panels in rows.values() for name in panels))
    size = (4.4 * len(names) + 1.6, 3.6 * len(rows) + 0.4)
    figure, axes = subplots(len(rows), len(names), size, squeeze=False)
    handles: dict[str, Any] = {}
    for row, (where, panels) in zip(axes, rows.items(), strict=True):
        for axis, name in zip(row, names, strict=True):
            if name not in panels:
                axis.set_axis_off()
                continue
            handles |= _lines(axis, panels[name])
            axis.set(xlabel=figure_text(setting), ylabel=measure, title=figure_text(f"{name}, {where}"))
            axis.grid(alpha=0.3)
    figure.legend(handles=list(handles.values()), loc="outside right center", frameon=False, fontsize=8)
    _finish(figure, path, title, f"{BAND}; of the paper, its ±")


def _lines(axis: Any, series: Series) -> dict[str, Any]:
    """Draw a panel; returns the line of each column. A column with only the first point becomes a horizontal line."""
    groups, handles = list(series), {}
    for column in _columns(series):
        present = [(i, points[column]) for i, points in enumerate(series.values()) if column in points]
        if [i for i, _ in present] == [0] and len(groups) > 1:
            point = present[0][1]
            handles[column] = axis.axhline(point.mean, linestyle="--", linewidth=1.5, **_style(column))
            if point.low is not None:
                axis.axhspan(point.low, point.high, color=colour_of(column), alpha=0.1, linewidth=0)
            continue
        marker = "D" if column.endswith(INSIDE) else "o"
        (handles[column],) = axis.plot(
            [i for i, _ in present], [p.mean for _, p in present], marker, linestyle="-", markersize=4, **_style(column)
        )
        banded = [(i, p.low, p.high) for i, p in present if p.low is not None]
        if banded:
            at, lows, highs = zip(*banded, strict=True)
            axis.fill_between(at, lows, highs, color=colour_of(column), alpha=0.15, linewidth=0)
    axis.set_xticks(range(len(groups)), list(map(figure_text, groups)))  # evenly spaced: k doubles, p grows in quarters
    return handles


def matrix_chart(panels: Mapping[str, Series], path: Path, title: str, measure: str) -> None:
    """Rows are targets, columns sources. Colours compare within a row, because tasks have different scores.

    A column that is not also a row is a control on the target's own game.
    """
    widths = [max(len(_columns(series)), 3) for series in panels.values()]
    size = (1.1 * sum(widths) + 2.4 * len(panels), 4.6)
    figure, axes = subplots(1, len(panels), size, squeeze=False, width_ratios=widths)
    for axis, (name, series) in zip(axes[0], panels.items(), strict=True):
        columns = _columns(series)
        values = np.array([[points[c].mean if c in points else np.nan for c in columns] for points in series.values()])
        low, high = np.nanmin(values, axis=1, keepdims=True), np.nanmax(values, axis=1, keepdims=True)
        axis.imshow((values - low) / np.maximum(high - low, 1e-12), cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                axis.text(j, i, f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}", ha="center", va="center")
        axis.set_xticks(range(len(columns)), list(map(figure_text, columns)), rotation=30, ha="right")
        axis.set_yticks(range(len(series)), list(map(figure_text, series)))
        sources = sum(column in series for column in columns)
        if 0 < sources < len(columns):
            axis.axvline(sources - 0.5, color="black", linewidth=2)
        axis.set(xlabel="similarity of | own game with", ylabel="played", title=figure_text(name))
    _finish(figure, path, f"{title} ({measure})", "colours compare within a row, from its lowest to its highest value")


def profile_chart(
    profiles: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    thresholds: np.ndarray,
    path: Path,
    title: str,
    measure: str,
) -> None:
    """Share of runs above each threshold, with bands: column to (share, low, high)."""
    figure, axis = subplots(1, 1, (7, 4.2))
    for column, (share, low, high) in profiles.items():
        axis.plot(thresholds, share, linewidth=2, **_style(column))
        axis.fill_between(thresholds, low, high, color=colour_of(column), alpha=0.12, linewidth=0)
    axis.set(xlabel=f"{measure} above", ylabel="share of runs", ylim=(-0.02, 1.02))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    _finish(figure, path, title, "bands: 95 % bootstrap interval over seeds, task by task")


def _columns(series: Series) -> list[str]:
    return list(dict.fromkeys(column for points in series.values() for column in points))


def _bars(axis: Any, at: Sequence[float], points: Sequence[Point], column: str, width: float) -> None:
    axis.bar(at, [p.mean for p in points], width, yerr=_errors(points), capsize=2, **_style(column))
    for place, point in zip(at, points, strict=True):
        if not (point.mean or point.high):
            axis.text(place, 0, "0", color=colour_of(column), ha="center", va="bottom", fontsize=7)
    axis.axhline(0, color="black", linewidth=0.6)
    axis.grid(axis="y", alpha=0.3)


def _errors(points: Sequence[Point]) -> np.ndarray | None:
    """[2, points] below and above the mean."""
    if all(p.low is None for p in points):
        return None
    low = [p.mean - p.low if p.low is not None else 0.0 for p in points]
    high = [p.high - p.mean if p.high is not None else 0.0 for p in points]
    return np.maximum([low, high], 0.0)


def _style(column: str) -> dict[str, Any]:
    return {"label": figure_text(column), "color": colour_of(column)}


def _finish(figure: Any, path: Path, title: str, remark: str) -> None:
    figure.suptitle(figure_text(title), fontsize=11)
    note(figure, remark)
    save_figure(figure, path)
