"""Atari, each macro replaced with some chance by a random sequence of the same length."""

from __future__ import annotations

from masp.experiments.definitions.atari_settings import FIVE, LAPTOP_GAME, NOTES, setting
from masp.experiments.definitions.games import noisy_macros
from masp.experiments.experiment import Cell, Experiment, Scale


def cells(scale: Scale, human: str = "") -> list[Cell]:
    if scale == "smoke":
        return noisy_macros(setting(scale, ("Breakout",), human), (0.5,))
    names = (LAPTOP_GAME,) if scale == "laptop" else FIVE
    return noisy_macros(setting(scale, names, human), (0.0, 0.25, 0.5, 0.75))


EXPERIMENT = Experiment(
    name="atari-noise",
    title="Atari, macros replaced by random ones",
    measure="return",
    row_names=("game", "P(replace)"),
    cells=cells,
    paper_table="atari-noise",
    notes=NOTES,
    uses_human_play=True,
    kind="lines",
)
