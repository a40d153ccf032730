"""MinAtar, macros and similarity of another game, frozen."""

from __future__ import annotations

from masp.experiments.experiment import Cell, Experiment, Scale
from masp.experiments.games import transfer
from masp.experiments.minatar_settings import NOTES, TITLES, setting


def cells(scale: Scale) -> list[Cell]:
    """Breakout and Space Invaders are the pair that the paper finds alike; at the scale paper, all five games."""
    pair = ("Breakout", "Space Invaders")
    return transfer(setting(scale, tuple(TITLES) if scale == "paper" else pair))


EXPERIMENT = Experiment(
    name="minatar-transfer",
    title="MinAtar, similarity of another game (columns), frozen",
    measure="return",
    row_names=("target",),
    cells=cells,
    notes=NOTES,
    kind="matrix",
)
