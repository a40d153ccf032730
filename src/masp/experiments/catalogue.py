"""All experiments by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib

from masp.errors import UserError
from masp.experiments.experiment import Experiment

TITLES = {
    "minigrid": "four MiniGrid tasks",
    "atari": "Atari, 54 games at the scale paper",
    "atari-k": "Atari, number of macros from 64 to 1024",
    "atari-noise": "Atari, macros replaced by random ones",
    "atari-transfer": "Atari, similarity of another game",
    "street-fighter": "Street Fighter II, two sets of combos",
    "minatar": "MinAtar, the affordable twin of atari",
    "minatar-k": "MinAtar, number of macros from 0 to 1024",
    "minatar-noise": "MinAtar, macros replaced by random ones",
    "minatar-transfer": "MinAtar, similarity of another game",
    "planted": "tasks with known groups of equivalent actions",
    "structure": "tasks on which telling actions apart should matter",
    "structure-minatar": "the same question with mined macros in MinAtar",
    "structure-minigrid": "the same question with 8 to 128 mined macros in MiniGrid",
    "defaults": "rainbow, macros and masp as they come, planted tasks and MiniGrid",
    "defaults-minatar": "the same with mined macros in MinAtar",
}
NAMES = tuple(TITLES)


def experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in NAMES:
        raise UserError(f"there is no experiment {name!r}; choose one of {', '.join(NAMES)}")
    module = importlib.import_module(f"masp.experiments.definitions.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found
