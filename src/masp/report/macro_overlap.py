"""Heat map of the overlap between the macros of a set."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from masp.errors import UserError
from masp.macros.actions import ActionSet, spell
from masp.macros.overlap import overlap_matrix
from masp.printable import figure_text

COLOUR_BAR_LABEL = "longest common subsequence / longer length"
_MAX_LABELS = 64


def overlap_figure(actions: ActionSet) -> Figure:
    """Heat map of the overlap of all macros."""
    if not actions.macros:
        raise UserError("there are no macros to draw")
    number = len(actions.macros)
    side = 4 + 0.17 * number if number <= _MAX_LABELS else 9
    figure = Figure(figsize=(side + 3, side), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    image = draw_overlap(axes, actions, f"overlap of {number} macros")
    figure.colorbar(image, ax=axes, shrink=0.7, label=COLOUR_BAR_LABEL)
    return figure


def draw_overlap(axes: Axes, actions: ActionSet, title: str) -> AxesImage:
    """Draw the overlaps into `axes`, similar macros side by side; labels only up to 64 macros."""
    sequences = [macro.actions for macro in actions.macros]
    overlap = overlap_matrix(sequences)
    order = chain_order(overlap)
    image = axes.imshow(overlap[np.ix_(order, order)], vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    if len(order) <= _MAX_LABELS:
        labels = [figure_text(f"{spell(sequences[i], actions.primitive_names)}  [{i}]") for i in order]
        axes.set_yticks(range(len(order)), labels, fontsize=7)
        axes.set_xticks(range(len(order)), [str(i) for i in order], fontsize=7, rotation=90)
    axes.set_title(figure_text(title), fontsize=10)
    axes.set_xlabel("macro")
    return image


def chain_order(overlap: np.ndarray) -> list[int]:
    """An order that begins with macro 0 and continues with the macro most similar to the last; ties: lowest index."""
    order = [0]
    remaining = np.ones(len(overlap), bool)
    remaining[0] = False
    while remaining.any():
        nearest = int(np.argmax(np.where(remaining, overlap[order[-1]], -1.0)))
        order.append(nearest)
        remaining[nearest] = False
    return order
