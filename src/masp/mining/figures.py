"""A picture of how much the macros of a set have in common."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from masp.actions import ActionSet
from masp.errors import UserError
from masp.mining.names import spelled
from masp.mining.overlap import overlap_matrix

_MOST_LABELS = 64


def overlap_figure(actions: ActionSet) -> Figure:
    """Heat map of the overlap of all macros, neighbours alike; beyond 64 macros without labels."""
    if not actions.macros:
        raise UserError("there are no macros to draw")
    sequences = [macro.actions for macro in actions.macros]
    overlap = overlap_matrix(sequences)
    order = chain_order(overlap)
    labelled = len(order) <= _MOST_LABELS
    side = 4 + 0.17 * len(order) if labelled else 9
    figure = Figure(figsize=(side + 2.5 * labelled, side), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    image = axes.imshow(overlap[np.ix_(order, order)], vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    if labelled:
        names = [spelled(sequences[i], actions.primitive_names) for i in order]
        axes.set_yticks(range(len(order)), [f"{name}  [{i}]" for i, name in zip(order, names, strict=True)], fontsize=7)
        axes.set_xticks(range(len(order)), [str(i) for i in order], fontsize=7, rotation=90)
    axes.set_title(f"overlap of {len(order)} macros", fontsize=10)
    axes.set_xlabel("macro")
    figure.colorbar(image, ax=axes, shrink=0.7, label="longest common subsequence / longer length")
    return figure


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
