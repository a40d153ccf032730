"""How the cost of an update grows with the number of actions, with the similarity as a matrix and embedded.

Updates alone, on random data: `masp` over `macros`, whose last layer grows too. The metrics of an update are summed as
in a run. Otherwise XLA would remove action values that `macros` computes only for the metrics.
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
from masp.similarity import embedded
from masp.similarity import matrix as sim

ACTIONS = (50, 128, 256, 512, 1042)
NETWORKS: dict[str, tuple[str, tuple[int, ...], Any]] = {
    # name: an environment whose preset to use, shape and type of one observation
    "vector": ("planted-grid", (36,), jnp.float32),
    "planes": ("minatar-breakout", (10, 10, 6), jnp.bool_),
    "image": ("Breakout", (84, 84, 4), jnp.uint8),
}
UPDATES = {"vector": 192, "planes": 64, "image": 64}
"""Updates per turn: a multiple of the meta-period."""
VARIANTS: dict[str, dict[str, Any]] = {
    "macros": {"variant": "macros"},
    "matrix": {"variant": "masp", "similarity_form": "matrix"},
    "embedded": {"variant": "masp", "similarity_form": "embedded"},
}


def run(quick: bool = False) -> dict[str, Any]:
    """Measure both networks at all sizes; `quick` only shows that it works."""
    turns = 3 if quick else 5
    figures: dict[str, Any] = {"turns": turns}
    for network in ("planes",) if quick else NETWORKS:
        counts = ACTIONS[:2] if quick else ACTIONS
        figures.update(in_own_process(_measure, network, counts, turns, 16 if quick else UPDATES[network]))
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
        for kind in [k for k in work if k != "macros"]:
            figure = ratio(f"{at}_{kind}_over_macros", seconds[kind], seconds["macros"])
            print(json.dumps(figure), file=sys.stderr, flush=True)  # progress: the largest sizes take minutes
            figures.update(figure)
    return figures


class _Updates:
    """A learner that updates on one batch again and again."""

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
        embeds = config.embeds(actions)
        similarity = jnp.asarray(embedded.start(actions)) if embeds else sim.start("constant", [[0]] * actions, key)
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
