"""Runs that train together in one compiled program, because they differ only in what it takes as data.

A *lane* is one of them: a seed, a penalty weight, a meta-learning rate, a similarity to start with and a macro set. A
frozen similarity is one whose meta-learning rate is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.agent import Agent, Keys, MacroTables, Start
from masp.agent.learner import Hyper
from masp.config import TrainConfig, replace, to_flat
from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity import embedded, matrix
from masp.similarity.bundle import is_bundle, load_bundle
from masp.training.initial import parameters_for, read_source

VARYING = ("seed", "out", "macros", "init_from", "penalty_weight", "meta_learning_rate", "similarity_start")
"""Settings in which lanes may differ."""


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
        meta_learning_rate=max(config.similarity.meta_learning_rate for config in configs),
    )


def resolve_actions(config: TrainConfig, info: EnvInfo) -> ActionSet:
    """The actions that the configuration asks for: the environment's own, or those of a macro file or bundle."""
    if config.variant == "rainbow":
        return info.actions.without_macros()
    file = config.macros or config.similarity.bundle
    if not file:
        source = read_source(config.init_from) if config.init_from else None
        return source.actions if source is not None and source.fits(info) else info.actions
    bundled = is_bundle(file) or file == config.similarity.bundle
    actions = load_bundle(file).actions if bundled else ActionSet.load(file)
    actions.require_primitives(info.actions.num_primitives, config.env)
    return actions


def lane_actions(configs: Sequence[TrainConfig], info: EnvInfo) -> list[ActionSet]:
    """The actions of every lane, which must have macros of the same lengths."""
    actions = [resolve_actions(config, info) for config in configs]
    for one, config in zip(actions, configs, strict=True):
        if one.lengths.tolist() != actions[0].lengths.tolist():
            raise UserError(f"{config.macros}: its macros have other lengths than those of the runs to train with")
    return actions


def start_of(config: TrainConfig, agent: Agent, actions: ActionSet) -> tuple[Keys, Start]:
    """Keys and start of one lane of the program of `agent`; in NumPy, for which JAX compiles no small programs."""
    s = config.similarity
    keys, key_similarity = _keys_of(config.seed)
    hyper = Hyper(*np.array([s.penalty_weight, s.meta_learning_rate], np.float32))
    similarity = _start_similarity(config, actions, key_similarity)
    params = parameters_for(Agent(config, agent.info, actions))
    return keys, Start(similarity, hyper, MacroTables.of(actions), params)


@jax.jit
def _keys_of(seed: Array) -> tuple[Keys, Array]:
    """The keys of a run, and that of a random similarity."""
    keys = Keys.of(jax.random.PRNGKey(seed))
    return keys, jax.random.split(keys.start)[1]


def _start_similarity(config: TrainConfig, actions: ActionSet, key: Array) -> Array:
    """[A, A], or factors of it; `key` is for a random one."""
    s = config.similarity
    if config.init_from and (source := read_source(config.init_from)).gives_similarity(config, actions):
        return jnp.asarray(source.similarity)
    if config.embeds(len(actions)):
        return embedded.start(len(actions))  # type: ignore[return-value]
    if not s.bundle:
        return matrix.start(s.similarity_start, actions.sequences(), key)  # type: ignore[arg-type]
    bundle = load_bundle(s.bundle)
    if bundle.actions.sequences() != actions.sequences():
        raise UserError(f"{s.bundle}: its similarity is for other macros than those of the run; leave --macros out")
    return jnp.asarray(bundle.similarity)
