"""A picture of how much the macros of a set have in common."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.mining.names import spelled
from masp.macros.overlap import overlap_matrix

_MOST_LABELS = 64


def overlap_figure(actions: ActionSet) -> Figure:
    """Heat map of the overlap of all macros."""
    if not actions.macros:
        raise UserError("there are no macros to draw")
    number = len(actions.macros)
    side = 4 + 0.17 * number if number <= _MOST_LABELS else 9
    figure = Figure(figsize=(side + 3, side), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    image = draw_overlap(axes, actions, f"overlap of {number} macros")
    figure.colorbar(image, ax=axes, shrink=0.7, label="longest common subsequence / longer length")
    return figure


def draw_overlap(axes: Axes, actions: ActionSet, title: str) -> AxesImage:
    """Draw into `axes`, macros that are alike side by side; beyond 64 macros without labels."""
    sequences = [macro.actions for macro in actions.macros]
    overlap = overlap_matrix(sequences)
    order = chain_order(overlap)
    image = axes.imshow(overlap[np.ix_(order, order)], vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    if len(order) <= _MOST_LABELS:
        names = [spelled(sequences[i], actions.primitive_names) for i in order]
        axes.set_yticks(range(len(order)), [f"{name}  [{i}]" for i, name in zip(order, names, strict=True)], fontsize=7)
        axes.set_xticks(range(len(order)), [str(i) for i in order], fontsize=7, rotation=90)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("macro")
    return image


def chain_order(overlap: np.ndarray) -> list[int]:
    """Start with the first macro, then always the one most like the last; ties: the earlier."""
    order = [0]
    left = np.ones(len(overlap), bool)
    left[0] = False
    while left.any():
        following = int(np.argmax(np.where(left, overlap[order[-1]], -1.0)))
        order.append(following)
        left[following] = False
    return order
