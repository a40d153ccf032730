"""MinAtar, each macro replaced with some chance by a random sequence of the same length."""

from __future__ import annotations

from masp.experiments.definitions.games import noisy_macros
from masp.experiments.definitions.minatar_settings import NOTES, TITLES, setting
from masp.experiments.experiment import Cell, Experiment, Scale

CHANCES = (0.0, 0.25, 0.5, 0.75)


def cells(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return noisy_macros(setting(scale, ("Breakout",)), (0.0, 0.75))
    if scale == "laptop":
        return noisy_macros(setting(scale, ("Breakout",)), (0.0, 0.5, 0.75))
    return noisy_macros(setting(scale, tuple(TITLES)), CHANCES)


EXPERIMENT = Experiment(
    name="minatar-noise",
    title="MinAtar, macros replaced by random ones",
    measure="return",
    row_names=("game", "P(replace)"),
    cells=cells,
    notes=NOTES,
    kind="lines",
)
