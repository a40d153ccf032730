"""Figures of runs: learning curves and the effects of the penalty; and the colours of all figures."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure

from masp.errors import UserError
from masp.printable import figure_text
from masp.report.statistics import bootstrap_interval
from masp.whole_file import whole_file

Row = Mapping[str, Any]

_BLUE, _RED, _GREY = "#1f3b73", "#cc2936", "#8c8c8c"

EFFECTS: dict[str, dict[str, tuple[str, str]]] = {
    "predicted and obtained return": {
        "predicted_return": ("predicted at the start", _RED),
        "discounted_return": ("obtained", _BLUE),
    },
    "how values spread over actions": {
        "q_spread": ("all actions, in batches", _GREY),
        "q_spread_within": ("within groups", _RED),
        "q_spread_between": ("between groups", _BLUE),
    },
    "best macro above best primitive": {"macro_lead": ("", _RED)},
    "effective number of actions": {
        "effective_actions": ("decided on", _BLUE),
        "effective_neighbours": ("averaged over by the similarity", _RED),
    },
}
"""Panel to metric to its label and colour."""

COLOURS = {
    "rainbow": "#1f3b73",
    "macros": "#6fa8dc",
    "masp": "#cc2936",
    "uniform": "#8c8c8c",
    "random": "#c9a227",
    "overlap": "#5a9367",
    "prior": "#ff8f00",
    "outcomes": "#7b3fa0",
    "truth": "#111111",
    "transfer": "#17becf",
    "consensus": "#8c564b",
    "macros inside": "#2f5fd0",
    "uniform inside": "#bfbf8f",
    "masp inside": "#f06292",
    "rainbow alone": "#0107c0",
    "rainbow twice the batch": "#00695c",
    "macros repeats": "#00bfa5",
    "masp repeats": "#7a1f2b",
    "macros paper": "#b0bec5",
    "masp paper": "#ffab91",
    "masp literal": "#d500f9",
    "masp SGD": "#9ccc65",
    # sources of a transferred similarity
    "Breakout": "#ffd54f",
    "Space Invaders": "#546e7a",
    "Montezuma's Revenge": "#4e342e",
    "Private Eye": "#b39ddb",
    "Asterix": "#d84315",
    "Freeway": "#33691e",
    "Seaquest": "#0097a7",
    # whole agents of another game whose similarity stays as it was
    "Asterix, similarity fixed": "#0fe32c",
    "Breakout, similarity fixed": "#65c214",
    "Freeway, similarity fixed": "#c80f8e",
    "Seaquest, similarity fixed": "#5410de",
    "Space Invaders, similarity fixed": "#57e58c",
}
"""Every column of every experiment has one colour in all figures; the first three as in the paper's figures."""
INSIDE = " inside"
"""Suffix of columns with intra-option learning, which also have another marker."""
BAND = "bands: 95 % bootstrap interval of the mean over seeds"


def colour_of(column: str) -> str:
    """The colour of a column; of an unknown name, one that follows from the name."""
    if column in COLOURS:
        return COLOURS[column]
    digest = hashlib.sha256(column.encode(errors="replace")).digest()
    red, green, blue = hsv_to_rgb((digest[0] / 256, 0.5 + digest[1] / 512, 0.45 + digest[2] / 640))
    return to_hex((red, green, blue))


def learning_curves(
    curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]],
    path: str | os.PathLike[str],
    title: str,
    measure: str,
) -> None:
    """One line per variant, mean over seeds with a 95 % band.

    Args:
      curves: variant to seeds to (frames, value) points.
    """
    figure, axes = subplots(1, 1, (7, 4.4))
    draw_curves(axes, curves, measure)
    axes.set_title(figure_text(title), fontsize=11)
    if any(len(seeds) > 1 for seeds in curves.values()):
        note(figure, BAND)
    save_figure(figure, path)


def draw_curves(axes: Any, curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]], measure: str) -> None:
    """The lines and bands of `learning_curves` in one panel."""
    for variant, seeds in curves.items():
        frames, mean, low, high = _band(seeds)
        colour, count = colour_of(variant), f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        label = figure_text(f"{variant} ({count}{_always(mean)})")
        axes.plot(frames, mean, label=label, color=colour, linewidth=2, marker="o" if len(mean) == 1 else "")
        if len(seeds) > 1:
            axes.fill_between(frames, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="environment frames", ylabel=figure_text(measure))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _always(values: np.ndarray) -> str:
    """Suffix of the label of a line that coincides with the frame or with another line."""
    return ", 0 throughout" if not np.any(values) else ""


def _band(seeds: Sequence[Sequence[tuple[int, float]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frames, mean, low and high at the n-th point of all seeds, whose frames differ by a few ticks at most."""
    points = min(len(seed) for seed in seeds)
    values = np.array([[value for _, value in seed[:points]] for seed in seeds])
    frames = np.mean([[at for at, _ in seed[:points]] for seed in seeds], axis=0)
    intervals = np.array([bootstrap_interval(values[:, i], samples=2000) for i in range(points)])
    return frames, values.mean(axis=0), intervals[:, 0], intervals[:, 1]


def effects_picture(
    rows: Sequence[Row], names: Sequence[str], path: str | os.PathLike[str], title: str, most: int = 40
) -> None:
    """The effects of the penalty on a run: curves of its metrics, and per action the share of decisions and the value.

    Args:
      rows: metrics with the lists `decisions` and `advantage`.
      names: [A] names of the actions.
      most: number of actions to show, by number of decisions.
    """
    decisions = np.array([row["decisions"] for row in rows], float)  # [rows, A]
    top = np.argsort(-decisions.sum(axis=0), kind="stable")[:most]
    height = 6.4 + max(2.4, 0.16 * len(top))
    figure = Figure(figsize=(11, height), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[6.0, height - 6.0])
    upper, lower = parts
    for axis, (name, columns) in zip(upper.subplots(2, 2).flat, EFFECTS.items(), strict=True):
        _effect_curves(axis, rows, name, columns)
    left, right = lower.subplots(1, 2)
    shares = decisions / np.maximum(decisions.sum(axis=1, keepdims=True), 1)
    labels = [figure_text(names[action]) for action in top]
    few = "" if len(top) == len(names) else f" ({len(top)} of {len(names)})"
    _action_map(left, rows, shares[:, top], labels, f"share of decisions{few}", "viridis", False)
    advantage = np.array([row["advantage"] for row in rows])[:, top]
    _action_map(right, rows, advantage, labels, "value above the mean of all actions", "RdBu_r", True)
    figure.suptitle(figure_text(title), fontsize=11)
    save_figure(figure, path)


def _effect_curves(axis: Any, rows: Sequence[Row], name: str, columns: Mapping[str, tuple[str, str]]) -> None:
    curves = 0
    for column, (label, colour) in columns.items():
        points = [(row["frames"], row[column]) for row in rows if row[column] is not None]
        if points:
            always = _always(np.array([value for _, value in points]))
            axis.plot(*zip(*points, strict=True), label=label + always, color=colour, marker=".", linewidth=1.5)
            curves += 1
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("environment frames", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    if curves and any(label for label, _ in columns.values()):
        axis.legend(frameon=False, fontsize=8)
    if not curves:
        axis.text(0.5, 0.5, "not measured in this run", ha="center", va="center", transform=axis.transAxes)
    if name.startswith("best macro"):
        axis.axhline(0, color="black", linewidth=0.8)


def _action_map(
    axis: Any, rows: Sequence[Row], values: np.ndarray, labels: Sequence[str], name: str, colours: str, signed: bool
) -> None:
    """Heat map of values [rows, A] with one line per action."""
    largest = float(np.abs(values).max())
    high = max(float(np.quantile(np.abs(values), 0.98)), 1e-9)  # ignore a few outliers at the start
    clipped = ("both" if signed else "max") if largest > 1.001 * high else "neither"
    edges = [0, *[row["frames"] for row in rows]]
    image = axis.pcolormesh(
        edges, np.arange(len(labels) + 1), values.T, cmap=colours, vmin=-high if signed else 0, vmax=high
    )
    axis.set_yticks(np.arange(len(labels)) + 0.5, labels, fontsize=7 if len(labels) <= 32 else 6)
    axis.invert_yaxis()
    axis.set_xlabel("environment frames", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(name, fontsize=10)
    bar = axis.figure.colorbar(image, ax=axis, shrink=0.9, extend=clipped)
    if clipped != "neither":
        bar.set_label(f"colours end at {high:.2g}; the largest is {largest:.2g}", fontsize=7)


def subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure with axes; without pyplot, whose backend belongs to the user."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def note(figure: Any, text: str) -> None:
    """One line below the figure that says how to read it."""
    figure.supxlabel(figure_text(text), fontsize=8, color="#555555", x=0.99, ha="right")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure; create its folder if needed."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    suffix = Path(path).suffix.removeprefix(".").lower() or "png"
    if suffix not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{path}: a picture cannot be .{suffix}; use .png, .svg or .pdf")
    with whole_file(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the font draws boxes in their place
        figure.savefig(file, format=suffix, dpi=130)
