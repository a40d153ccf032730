"""A finished or running training run, opened to look at it, to play with it or to take its similarity along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity.bundle import Bundle
from masp.similarity.matrix import as_matrix
from masp.training import array_file
from masp.training.loop import make_loop
from masp.training.run_dir import RunDir

EVALUATION = 0x6576616C
"""Folded into keys of evaluations."""


@dataclass(frozen=True)
class Run:
    """Everything of a run that outlives it."""

    path: Path
    config: TrainConfig
    actions: ActionSet
    metrics: list[dict[str, Any]]
    params: Any
    context: np.ndarray
    """The similarity as the network sees it: the matrix, or factors of it."""
    success_above: float | None
    """An episode whose return exceeds this is a success; None: success has no meaning here."""

    @property
    def similarity(self) -> np.ndarray:
        """[A, A]"""
        return np.asarray(as_matrix(self.context))

    @property
    def bundle(self) -> Bundle:
        """What another task can take along."""
        return Bundle(self.actions, self.similarity)

    def evaluate(self, episodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns and steps of so many episodes, played without noise and greedily but for `eval_epsilon`."""
        loop = make_loop(self.config, self.actions)
        try:
            # Folded, so that no seed of training gives the same key.
            key = jax.random.fold_in(jax.random.PRNGKey(seed), EVALUATION)
            played = loop.play(self.params, self.context, key, episodes)
            return played.score, played.steps
        finally:
            loop.close()

    def values(self, observations: Any) -> np.ndarray:
        """[B, A] action values of observations [B, ...], stacked as the agent saw them."""
        loop = make_loop(self.config, self.actions)
        context = jnp.asarray(self.context)
        try:
            return np.asarray(loop.agent.learner.values(self.params, jnp.asarray(observations), context, None))
        finally:
            loop.close()


def load_run(path: str | Path, env_options: Sequence[str] = ()) -> Run:
    """Open a run directory, or raise `UserError` that says what is missing.

    Args:
      env_options: options of the environment in place of those that the run was trained with, as name=value.
    """
    run = RunDir(path)
    config, actions = run.read_config(), run.read_actions()
    given = {option.partition("=")[0] for option in env_options}
    kept = (option for option in config.env_options if option.partition("=")[0] not in given)
    config = replace(config, env_options=(*kept, *env_options))
    if not run.policy_file.exists():
        raise UserError(f"{path}: the run has no policy yet; it is written at the first evaluation")
    loop = make_loop(config, actions)
    try:
        arrays, _ = array_file.read(run.policy_file)
        policy = array_file.fill(jax.eval_shape(loop.agent.policy_template), arrays, run.policy_file)
    finally:
        loop.close()
    above = loop.agent.info.success_above
    return Run(Path(path), config, actions, run.read_metrics(), policy["params"], policy["similarity"], above)
