"""Charts of experiments: bars, lines over a setting, a matrix of sources and targets, performance profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masp.analysis.figures import COLOURS, plt, save_figure


@dataclass(frozen=True)
class Point:
    """A mean with its interval; None: not known."""

    mean: float
    low: float | None = None
    high: float | None = None


Series = Mapping[str, Mapping[str, Point]]
"""Group (task, k, ...) to column to point."""


def bar_chart(panels: Mapping[str, Series], path: str | os.PathLike[str], title: str, measure: str) -> None:
    """One panel per entry, in it one group of bars per task and one bar per column."""
    widest = max(len(series) for series in panels.values())
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(min(3.5 + 1.5 * widest, 18), 3.4 * len(panels)), layout="constrained", squeeze=False
    )
    for axis, (name, series) in zip(axes[:, 0], panels.items(), strict=True):
        columns = list(dict.fromkeys(column for points in series.values() for column in points))
        width = 0.8 / len(columns)
        for place, column in enumerate(columns):
            groups = [i for i, points in enumerate(series.values()) if column in points]
            points = [group[column] for group in series.values() if column in group]
            at = np.array(groups) + (place - (len(columns) - 1) / 2) * width
            axis.bar(at, [p.mean for p in points], width * 0.92, yerr=_errors(points), **_style(column), capsize=2)
        axis.set_xticks(range(len(series)), list(series))
        axis.set(ylabel=measure, title=name)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.grid(axis="y", alpha=0.3)
        axis.legend(frameon=False, fontsize=8, ncols=4)
    figure.suptitle(title)
    save_figure(figure, path)


def line_chart(
    panels: Mapping[str, Series], path: str | os.PathLike[str], title: str, measure: str, setting: str
) -> None:
    """One panel per entry; the groups of a series are the numbers on the horizontal axis."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(max(5.0 * len(panels), 6.0), 4.2), layout="constrained", squeeze=False
    )
    for axis, (name, series) in zip(axes[0], panels.items(), strict=True):
        groups = list(series)
        for column in dict.fromkeys(column for points in series.values() for column in points):
            known = [i for i, points in enumerate(series.values()) if column in points]
            points = [series[groups[i]][column] for i in known]
            axis.plot(known, [p.mean for p in points], marker="o", linewidth=2, markersize=4, **_style(column))
            banded = [(i, p) for i, p in zip(known, points, strict=True) if p.low is not None]
            if banded:
                at, lows, highs = zip(*[(i, p.low, p.high) for i, p in banded], strict=True)
                axis.fill_between(at, lows, highs, color=COLOURS.get(column), alpha=0.15, linewidth=0)
        axis.set_xticks(range(len(groups)), groups)  # evenly: k goes up in doublings, p in quarters
        axis.set(xlabel=setting, ylabel=measure, title=name)
        axis.grid(alpha=0.3)
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.suptitle(title)
    save_figure(figure, path)


def matrix_chart(panels: Mapping[str, Series], path: str | os.PathLike[str], title: str, measure: str) -> None:
    """Rows are targets, columns sources; colours compare within a row, because scores of tasks have different sizes."""
    figure, axes = plt.subplots(1, len(panels), figsize=(6.2 * len(panels), 4.6), layout="constrained", squeeze=False)
    for axis, (name, series) in zip(axes[0], panels.items(), strict=True):
        columns = list(dict.fromkeys(column for points in series.values() for column in points))
        values = np.array([[points[c].mean if c in points else np.nan for c in columns] for points in series.values()])
        low, high = np.nanmin(values, axis=1, keepdims=True), np.nanmax(values, axis=1, keepdims=True)
        shades = (values - low) / np.maximum(high - low, 1e-12)
        axis.imshow(shades, cmap="Blues", vmin=0, vmax=1.3)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                axis.text(j, i, f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}", ha="center", va="center")
        axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
        axis.set_yticks(range(len(series)), list(series))
        axis.set(xlabel="similarity learned on", ylabel="played", title=name)
    figure.suptitle(f"{title} ({measure}; shades compare within a row)")
    save_figure(figure, path)


def profile_chart(
    profiles: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    thresholds: np.ndarray,
    path: str | os.PathLike[str],
    title: str,
    measure: str,
) -> None:
    """Share of runs above each threshold, with bands: column to (share, low, high)."""
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for column, (share, low, high) in profiles.items():
        axis.plot(thresholds, share, linewidth=2, **_style(column))
        axis.fill_between(thresholds, low, high, color=COLOURS.get(column), alpha=0.12, linewidth=0)
    axis.set(xlabel=f"{measure} above", ylabel="share of runs", title=title, ylim=(-0.02, 1.02))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def _style(column: str) -> dict[str, Any]:
    colour = COLOURS.get(column)
    return {"label": column} if colour is None else {"label": column, "color": colour}


def _errors(points: Sequence[Point]) -> np.ndarray | None:
    """[2, points] below and above the mean."""
    if all(p.low is None for p in points):
        return None
    low = [p.mean - p.low if p.low is not None else 0.0 for p in points]
    high = [p.high - p.mean if p.high is not None else 0.0 for p in points]
    return np.maximum([low, high], 0.0)
