"""Runs that train together in one compiled program, because they differ only in what it takes as data.

A *lane* is one of them: a seed, a penalty weight, a meta-learning rate and the similarity that it starts with. A frozen
similarity is one whose meta-learning rate is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.learner import Hyper
from masp.config import TrainConfig, replace, to_flat
from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity import factored
from masp.similarity import matrix as sim
from masp.similarity.bundle import load_bundle

VARYING = (
    "seed",
    "out",
    "bundle",
    "penalty_weight",
    "meta_learning_rate",
    "learn_similarity",
    "similarity_start",
    "similarity_start_value",
)
"""Settings in which lanes may differ."""


class Start(NamedTuple):
    """What a lane begins with, besides its seed."""

    similarity: Array  # [A, A], or factors [A, R]
    hyper: Hyper


def shared_config(configs: Sequence[TrainConfig]) -> TrainConfig:
    """The configuration of the program that trains all of them; raises `UserError` where there is none."""
    first = to_flat(configs[0])
    for config in configs[1:]:
        for name, value in to_flat(config).items():
            if name not in VARYING and value != first[name]:
                raise UserError(f"runs with {name} {first[name]} and {value} cannot train in one program")
    # The penalty and the meta-updates are in the program if any lane needs them.
    return replace(
        configs[0],
        penalty_weight=max(config.similarity.penalty_weight for config in configs),
        learn_similarity=any(config.similarity.learn_similarity for config in configs),
    )


def resolve_actions(config: TrainConfig, info: EnvInfo) -> tuple[ActionSet, np.ndarray | None]:
    """The actions that the configuration asks for, and the similarity of its bundle."""
    if config.macros and config.bundle:
        raise UserError("--macros and --bundle exclude each other: a bundle brings its own macros")
    if config.variant == "rainbow":
        return info.actions.without_macros(), None
    if config.bundle:
        bundle = load_bundle(config.bundle)
        bundle.actions.require_primitives(info.actions.num_primitives, config.env)
        return bundle.actions, bundle.similarity
    if config.macros:
        actions = ActionSet.load(config.macros)
        actions.require_primitives(info.actions.num_primitives, config.env)
        return actions, None
    return info.actions, None


def start_of(config: TrainConfig, info: EnvInfo, actions: ActionSet, key: Array) -> Start:
    """The start of one lane; `key` is for a random similarity."""
    s = config.similarity
    rate = s.meta_learning_rate if s.learn_similarity else 0.0
    hyper = Hyper(jnp.asarray(s.penalty_weight * s.share(len(actions))), jnp.asarray(rate))
    own, similarity = resolve_actions(config, info) if config.bundle else (actions, None)
    if own != actions:
        raise UserError(f"{config.bundle} has other macros than the runs it would train with")
    if similarity is None:
        value = s.start_value(len(actions))
        return Start(sim.start(s.similarity_start, actions.sequences(), value, key, s.similarity_rank), hyper)
    if s.similarity_rank:
        similarity = factored.factor(similarity, s.similarity_rank)
    return Start(jnp.asarray(similarity), hyper)
