"""A trained agent at play, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.acting import ActorState
from masp.agent.agent import Agent, MacroTables
from masp.environments import is_jax, make_env
from masp.environments.base import EnvInfo, HostEnv, Step, derived_seed, first_mask
from masp.errors import UserError
from masp.training.jax_vector import JaxVector
from masp.training.run import Run

PlayerEnv = HostEnv | JaxVector


class Tick(NamedTuple):
    """One step of N environments, and why it was played."""

    observation: np.ndarray  # [N, ...] before the step
    action: np.ndarray  # [N] the decision under way
    position: np.ndarray  # [N] steps of it played before this one
    primitive: np.ndarray  # [N]
    resetting: np.ndarray  # [N] bool, nothing was played here
    step: Step


def make_player_env(env_id: str, options: Sequence[str], num_envs: int = 1) -> PlayerEnv:
    """The environment, stepped from Python whatever it is."""
    env = make_env(env_id, options, num_envs)
    return JaxVector(env, num_envs) if is_jax(env) else env


class RunPolicy:
    """The policy of a run, with its own macros, without noise."""

    def __init__(self, run: Run, info: EnvInfo, epsilon: float | None, seed: int):
        """`epsilon`: chance of a random decision; None: that of the run's evaluations."""
        run.actions.require_primitives(info.actions.num_primitives, info.env_id)
        agent = Agent(run.config, info, run.actions)
        expected = jax.eval_shape(agent.policy_template)["params"]
        if jax.tree.map(jnp.shape, run.params) != jax.tree.map(jnp.shape, expected):
            raise UserError(
                f"{run.path}: its network does not fit the observations {info.observation_shape} of {info.env_id}; "
                f"it was trained in {run.config.env}"
            )
        self._agent, self._params, self._context = agent, run.params, run.context
        self._macros = jax.tree.map(jnp.asarray, MacroTables.of(agent.actions))
        self._epsilon = run.config.eval_epsilon if epsilon is None else epsilon
        self._key, self._tick = jax.random.PRNGKey(seed), 0

    def begin(self, observation: np.ndarray, mask: np.ndarray | None) -> None:
        """[N, ...] first observations, and their action masks [N, P] if the environment has any."""
        self.state = self._agent.actor(self._macros).init(jnp.asarray(observation), mask)  # type: ignore[arg-type]

    def act(self) -> np.ndarray:
        """[N] the next primitives."""
        self._tick += 1
        self.state, primitives = self._act(self._params, self._context, self.state, self._tick)
        return np.asarray(primitives)

    def see(self, step: Step) -> None:
        """Take in the results of the step."""
        self.state = self._see(self.state, step)

    @partial(jax.jit, static_argnums=0)
    def _act(self, params: Any, context: Array, state: ActorState, tick: Array) -> tuple[ActorState, Array]:
        acting = self._agent.actor(self._macros)
        values = self._agent.learner.values(params, acting.inputs(state), context, None)
        return acting.decide(state, values, self._epsilon, tick, jax.random.fold_in(self._key, tick))

    @partial(jax.jit, static_argnums=0)
    def _see(self, state: ActorState, step: Step) -> ActorState:
        return self._agent.actor(self._macros).advance(state, step)[0]


def play(run: Run, env: PlayerEnv, seed: int, epsilon: float = 0.0) -> Iterator[Tick]:
    """An endless sequence of ticks; decisions are greedy and without noise, or random with chance `epsilon`."""
    policy = RunPolicy(run, env.info, epsilon, seed)
    observation = env.reset(derived_seed(seed, "evaluation"))
    policy.begin(observation, first_mask(env))
    while True:
        resetting = np.asarray(policy.state.resetting)
        primitives = policy.act()
        macro = policy.state.macro
        step = env.step(primitives)
        yield Tick(observation, np.asarray(macro.action), np.asarray(macro.position), primitives, resetting, step)
        policy.see(step)
        observation = step.observation
