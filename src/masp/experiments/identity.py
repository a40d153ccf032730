"""What makes two trials the same: a hash of everything that decides the result, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from masp.config import TrainConfig, replace, to_flat
from masp.experiments.definitions.controls import CONTROLS
from masp.experiments.trial import MacroSet, Trial
from masp.presets import from_preset

IGNORED = ("out", "seed", "macros", "checkpoint_every_frames")
"""Settings that change no result, or that the runner fills in from the trial."""

ALWAYS = frozenset(
    [
        "env",
        "variant",
        "env_options",
        "frames",
        "num_envs",
        "log_every_frames",
        "eval_every_frames",
        "eval_episodes",
        "eval_epsilon",
        "learning_rate",
        "adam_eps",
        "max_gradient_norm",
        "batch_size",
        "gamma",
        "n_step",
        "num_atoms",
        "value_range",
        "double",
        "dueling",
        "noisy",
        "priority_exponent",
        "importance",
        "epsilon",
        "epsilon_decay_steps",
        "target_period_steps",
        "replay_steps",
        "min_replay_steps",
        "steps_per_update",
        "hidden",
        "stack",
        "clip_rewards",
        "intra_option",
        "macros_for",
        "penalty_weight",
        "penalty_form",
        "similarity_start",
        "meta_learning_rate",
        "meta_optimiser",
        "held_out",
        "meta_period_updates",
        "trace_length",
        "entropy_weight",
        "similarity_rank",
        "embedding",
    ]
)
"""Settings that are hashed whatever their value. One that is added later counts only where it is not at its default:
otherwise every new option of the package would make all finished results look unfinished."""


OUTCOMES = 2
"""Version of `masp.similarity.outcomes`, whose results are not those of the first."""


def config_of(trial: Trial) -> TrainConfig:
    """The configuration of a trial, without its files, directory and seed."""
    changes = {**CONTROLS[trial.control], **dict(trial.overrides)}
    if trial.env_options:  # otherwise the preset's
        changes["env_options"] = trial.env_options
    return replace(from_preset(trial.preset, trial.env), frames=trial.frames, **changes).resolved()


@cache
def trial_id(trial: Trial) -> str:
    """Twelve hexadecimal digits; the same for trials that give the same results for the same seed."""
    return hash_of(_recipe(trial))


def config_hash(trial: Trial) -> str:
    """Hash of the configuration alone, without where macros and similarity come from."""
    return hash_of(_config(trial))


def macro_id(macros: MacroSet, env: str, env_options: tuple[str, ...]) -> str:
    """The id of a macro file; the environment counts where its own macros are the start."""
    return hash_of([_macro_recipe(macros), None if macros.play else [env, env_options]])


def hash_of(data: Any) -> str:
    """Twelve hexadecimal digits of the canonical JSON of `data`."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _config(trial: Trial) -> dict[str, Any]:
    flat = to_flat(config_of(trial))
    defaults = to_flat(TrainConfig(env=trial.env))
    return {
        name: value
        for name, value in flat.items()
        if name not in IGNORED and (name in ALWAYS or value != defaults[name])
    }


def _recipe(trial: Trial) -> dict[str, Any]:
    recipe: dict[str, Any] = {"config": _config(trial)}
    if trial.control in ("truth", "consensus"):  # their configuration does not show it
        recipe["similarity"] = trial.control
    if config_of(trial).variant == "outcomes":
        recipe["outcomes"] = OUTCOMES
    if trial.source is not None:
        pairs = [list(pair) for pair in zip(trial.seeds, trial.source.seeds, strict=False)]
        recipe["source"] = [trial_id(trial.source), pairs]
    if trial.macros is not None and trial.control != "rainbow":
        recipe["macros"] = _macro_recipe(trial.macros)
    if trial.sweep is not None:
        recipe["sweep"] = [[trial_id(candidate) for candidate in trial.candidates()], list(trial.sweep.seeds)]
        if trial.sweep.judged != "last":
            recipe["sweep"].append(trial.sweep.judged)
    return recipe


def _macro_recipe(macros: MacroSet) -> dict[str, Any]:
    recipe: dict[str, Any] = {"noise": [macros.noise, macros.noise_seed if macros.noise else 0]}
    play = macros.play
    if play is not None:
        recipe["mining"] = [macros.k, macros.min_length, macros.max_length, macros.literal]
        recipe["play"] = [play.digest, play.stride]
        if play.agent is not None:
            recipe["play"] = [trial_id(play.agent), play.agent.seeds[0], play.steps, play.epsilon]
    return recipe
