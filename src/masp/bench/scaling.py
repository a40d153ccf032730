"""How the cost of an update grows with the number of actions, with the similarity as a matrix and as factors.

Updates alone, on random data: `masp` with each against `macros`, whose last layer grows too. What an update says about
itself is computed as in a run, where it goes into the log: without it XLA leaves out the action values that only
`masp` needs for anything else.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp

from masp.agent.learner import Hyper, Learner, Metrics
from masp.agent.networks import QNetwork
from masp.agent.replay import Batch, Transition
from masp.bench.turns import in_own_process, in_turns, ratio
from masp.config import TrainConfig, replace
from masp.environments.registry import family_of
from masp.ops import tune_this_process
from masp.presets import from_preset
from masp.similarity import matrix as sim

ACTIONS = (50, 128, 256, 512, 1042)
RANK = 16
NETWORKS: dict[str, tuple[str, tuple[int, ...], Any]] = {
    # an environment with that preset, one observation as the network sees it
    "planes": ("minatar-breakout", (10, 10, 6), jnp.bool_),
    "image": ("Breakout", (84, 84, 4), jnp.uint8),
}
UPDATES = {"planes": 48, "image": 16}
"""Of a turn: whole periods of the meta-step."""
VARIANTS: dict[str, dict[str, Any]] = {
    "macros": {"variant": "macros"},
    "matrix": {"variant": "masp", "similarity_rank": 0},
    "factors": {"variant": "masp", "similarity_rank": RANK},
}


def run(quick: bool = False) -> dict[str, Any]:
    """Both networks at all sizes; `quick` to see that it works."""
    turns = 3 if quick else 5
    figures: dict[str, Any] = {"turns": turns, "rank": RANK}
    for network in ("planes",) if quick else NETWORKS:
        counts = ACTIONS[:2] if quick else ACTIONS
        figures.update(in_own_process(_measure, network, counts, turns, 8 if quick else UPDATES[network]))
    return figures


def _measure(network: str, counts: tuple[int, ...], turns: int, updates: int) -> dict[str, Any]:
    """One network."""
    env, shape, dtype = NETWORKS[network]
    tune_this_process(family_of(env).preset)
    config = from_preset(family_of(env).preset, "planted-grid")
    figures: dict[str, Any] = {f"{network}_updates_per_turn": updates}
    for count in counts:
        work = {
            name: _Updates(replace(config, **changes), network, shape, dtype, count)
            for name, changes in VARIANTS.items()
        }
        seconds = in_turns({name: lambda w=w: w.do(updates) for name, w in work.items()}, turns)  # type: ignore[misc]
        at = f"{network}_{count}_actions"
        figures[f"{at}_macros_ms"] = 1e3 * float(min(seconds["macros"])) / updates
        for kind in ("matrix", "factors"):
            found = ratio(f"{at}_{kind}_over_macros", seconds[kind], seconds["macros"])
            print(json.dumps(found), file=sys.stderr, flush=True)  # the largest take minutes
            figures.update(found)
    return figures


class _Updates:
    """A learner with one batch that it learns from again and again."""

    def __init__(self, config: TrainConfig, kind: Any, shape: tuple[int, ...], dtype: Any, actions: int):
        config = config.resolved()
        a, s = config.agent, config.similarity
        network = QNetwork(kind, actions, a.num_atoms, a.hidden, a.dueling, a.noisy, s.embedding)
        self._learner = Learner(network, config, (True,) * actions)
        key = jax.random.PRNGKey(0)
        states = jax.random.randint(key, (a.batch_size, *shape), 0, 2).astype(dtype)
        ones = jnp.ones(a.batch_size)
        transition = Transition(states, ones.astype(jnp.int32), ones, 0.9 * ones, states[::-1])
        self._batch = Batch(transition, ones, jnp.arange(a.batch_size))
        similarity = sim.start("constant", [[0]] * actions, key, s.similarity_rank)
        hyper = Hyper(jnp.asarray(s.penalty_weight), jnp.asarray(s.meta_learning_rate))
        self._state = (
            jax.jit(self._learner.init)(key, states[:1], similarity, hyper),
            Metrics(*[jnp.zeros(()) for _ in Metrics._fields]),
        )
        self._many = jax.jit(self._run, donate_argnums=0)
        self.do(1)

    def do(self, updates: int) -> None:
        self._state = jax.block_until_ready(self._many(self._state, updates))

    def _run(self, state: Any, updates: jax.Array) -> Any:
        def update(_: Any, carried: Any) -> Any:
            state, total = carried
            key = jax.random.fold_in(jax.random.PRNGKey(1), state.updates)
            state, _, metrics = self._learner.update(state, self._batch, lambda: self._batch, key)
            return state, jax.tree.map(jnp.add, total, metrics)

        return jax.lax.fori_loop(0, updates, update, state)
