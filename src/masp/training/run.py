"""A finished or running training run, opened to look at it, to play with it or to take its similarity along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent.agent import Agent
from masp.agent.torso import require_torso, torso_text
from masp.config import TrainConfig, replace
from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity.bundle import Bundle
from masp.similarity.matrix import as_matrix
from masp.training import array_file
from masp.training.evaluation import Played
from masp.training.finite import require_finite_evaluation
from masp.training.loop import make_loop
from masp.training.policy import environment_of, require_version
from masp.training.run_dir import RunDir
from masp.training.trained import TrainedAgent, load_agent

EVALUATION = 0x6576616C
"""Folded into keys of evaluations."""


def shortened_start(text: str, length: int) -> str:
    """The end of `text` where it is longer than that."""
    return text if len(text) <= length else f"...{text[3 - length :]}"


@dataclass(frozen=True)
class Run:
    """The files of a run, opened; `masp.train` and `masp.load_run` return it (examples/own_environment.py)."""

    path: Path
    config: TrainConfig
    actions: ActionSet
    metrics: list[dict[str, Any]]
    params: Any
    context: np.ndarray
    """The similarity as the network sees it: the matrix, or factors of it."""
    info: EnvInfo
    """The description of the environment that the run was trained in."""

    def __repr__(self) -> str:
        frames = self.metrics[-1]["frames"] if self.metrics else 0
        scores = [row["eval_return"] for row in self.metrics if row.get("eval_return") is not None]
        score = f", evaluation return {scores[-1]:.4g}" if scores else ""
        about = f"{shortened_start(self.config.env, 30)} {self.config.variant}, {frames:,} frames{score}"
        return f"Run({shortened_start(str(self.path), 110 - len(about))}: {about})"

    @property
    def success_above(self) -> float | None:
        """An episode whose return exceeds this is a success; None: success is not defined."""
        return self.info.success_above

    @property
    def run_dir(self) -> Path:
        """The run directory."""
        return self.path

    @cached_property
    def agent(self) -> TrainedAgent:
        """The newest policy, to act with; the same object each time."""
        return load_agent(self.path, torso=self.config.agent.torso)

    @property
    def summary(self) -> dict[str, Any]:
        """The final figures; empty before the run is finished."""
        return RunDir(self.path).read_summary()

    @property
    def similarity(self) -> np.ndarray:
        """[A, A]"""
        return np.asarray(as_matrix(self.context))

    @property
    def bundle(self) -> Bundle:
        """What another task can take along."""
        return Bundle(self.actions, self.similarity)

    def evaluate(self, episodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns and steps of so many episodes, see `play`."""
        played = self.play(episodes, seed)
        return played.score, played.steps

    def play(self, episodes: int, seed: int = 0) -> Played:
        """So many episodes, played without noise and greedily but for `eval_epsilon`."""
        loop = make_loop(self.config, self.actions)
        try:
            # Folded, so that no seed of training gives the same key.
            key = jax.random.fold_in(jax.random.PRNGKey(seed), EVALUATION)
            played = loop.play(self.params, self.context, key, episodes)
        finally:
            loop.close()
        require_finite_evaluation(played, self.config.env)
        return played

    def values(self, observations: Any) -> np.ndarray:
        """[B, A] action values of observations [B, ...], stacked as the agent saw them."""
        agent, context = Agent(self.config, self.info, self.actions), jnp.asarray(self.context)
        return np.asarray(agent.learner.values(self.params, jnp.asarray(observations), context, None))


def load_run(path: str | Path, env_options: Sequence[str] = (), torso: Any = None) -> Run:
    """Open a run directory (examples/sweep_in_one_program.py), or raise `UserError` that says what is missing.

    The environment is made only when the run is evaluated, or to check `env_options`.

    Args:
      env_options: options of the environment in place of those that the run was trained with, as name=value.
      torso: the Flax module of a run whose own torso cannot be imported.
    """
    run = RunDir(path)
    config, actions = run.read_config(), run.read_actions()
    names = {option.partition("=")[0] for option in env_options}
    kept = (option for option in config.env_options if option.partition("=")[0] not in names)
    config = replace(config, env_options=(*kept, *env_options))
    if torso is not None:
        config = replace(config, torso=torso_text(torso))
    require_torso(config.agent.torso)
    if not run.policy_file.exists():
        raise UserError(f"{path}: the run has no policy yet; it is written at the first evaluation")
    arrays, about = array_file.read(run.policy_file)
    if about:  # files of the first version have no description
        require_version(about, str(run.policy_file))
    agent = _agent(config, actions, about, bool(env_options))
    policy = array_file.fill(jax.eval_shape(agent.policy_template), arrays, run.policy_file)
    return Run(Path(path), config, actions, run.read_metrics(), policy["params"], policy["similarity"], agent.info)


def _agent(config: TrainConfig, actions: ActionSet, about: dict[str, Any], other_options: bool) -> Agent:
    """The agent of a run, from the description in its policy file if it has one and it still applies."""
    if "environment" in about and not other_options:
        return Agent(config, environment_of(about, actions, "policy.safetensors"), actions)
    loop = make_loop(config, actions)
    loop.close()
    return loop.agent
