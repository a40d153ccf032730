"""MinAtar, all games under all controls."""

from __future__ import annotations

from masp.experiments.experiment import Cell, Experiment, Scale
from masp.experiments.games import comparison
from masp.experiments.minatar_settings import NOTES, TITLES, setting


def cells(scale: Scale) -> list[Cell]:
    return comparison(setting(scale, ("Breakout",) if scale == "smoke" else tuple(TITLES)))


EXPERIMENT = Experiment(
    name="minatar",
    title="MinAtar, 32 mined macros",
    measure="return",
    row_names=("game",),
    cells=cells,
    notes=NOTES,
)
