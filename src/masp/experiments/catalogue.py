"""All experiments by name. The module of an experiment is imported when the experiment is asked for."""

from __future__ import annotations

import importlib

from masp.errors import UserError, did_you_mean
from masp.experiments.experiment import Experiment

FAMILIES: dict[str, dict[str, str]] = {
    # module in `definitions`: its experiments with a line for the help text
    "atari": {
        "atari": "Atari, 54 games at the scale paper",
        "atari-k": "Atari, number of macros from 64 to 1024",
        "atari-noise": "Atari, macros replaced by random ones",
        "atari-transfer": "Atari, similarity of another game",
    },
    "minigrid": {
        "minigrid": "four MiniGrid tasks",
        "minigrid-demonstrations": "MiniGrid, learned from the play of a solver and from own play",
        "structure-minigrid": "MiniGrid with 8 to 128 mined macros, weights swept",
    },
    "street_fighter": {"street-fighter": "Street Fighter II, two sets of combos"},
    "minatar": {
        "minatar": "MinAtar, the affordable counterpart of atari",
        "minatar-k": "MinAtar, number of macros from 0 to 1024",
        "minatar-noise": "MinAtar, macros replaced by random ones",
        "minatar-transfer": "MinAtar, similarity of another game",
        "minatar-transfer-agents": "MinAtar, whole agents of another game: before, during and after learning",
        "structure-minatar": "MinAtar with 32 and 1024 mined macros, weights swept",
    },
    "planted": {
        "planted": "tasks with known groups of equivalent actions",
        "structure": "tasks on which it should matter which actions are similar",
    },
    "defaults": {
        "defaults": "all variants at the presets, planted tasks and MiniGrid",
        "defaults-minatar": "all variants at the presets, MinAtar with mined macros",
    },
}
TITLES = {name: title for experiments in FAMILIES.values() for name, title in experiments.items()}
NAMES = tuple(TITLES)


def experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    for family, names in FAMILIES.items():
        if name in names:
            module = importlib.import_module(f"masp.experiments.definitions.{family}")
            experiments: dict[str, Experiment] = module.EXPERIMENTS
            return experiments[name]
    hint = did_you_mean(name, NAMES, f"choose one of {', '.join(NAMES)}")
    raise UserError(f"there is no experiment {name!r}; {hint}")
