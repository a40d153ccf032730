"""MinAtar, macros and similarity of another game, frozen."""

from __future__ import annotations

from masp.experiments.definitions.games import transfer
from masp.experiments.definitions.minatar_settings import NOTES, TITLES, setting
from masp.experiments.experiment import Cell, Experiment, Scale


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
