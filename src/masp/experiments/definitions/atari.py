"""Atari: Rainbow, macros and MASP, with controls."""

from __future__ import annotations

from masp.experiments.definitions.atari_settings import LAPTOP_GAME, NOTES, games, setting
from masp.experiments.definitions.games import comparison
from masp.experiments.experiment import Cell, Experiment, Scale


def cells(scale: Scale, human: str = "") -> list[Cell]:
    names = {"smoke": ["Breakout"], "laptop": [LAPTOP_GAME]}.get(scale) or games()
    return comparison(setting(scale, names, human))


EXPERIMENT = Experiment(
    name="atari",
    title="Atari, 32 mined macros",
    measure="return",
    row_names=("game",),
    cells=cells,
    paper_table="atari",
    notes=NOTES,
    uses_human_play=True,
)
