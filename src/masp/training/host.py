"""The loop for environments that live outside JAX: the same agent, one seed, jitted around `env.step`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.acting import Episodes
from masp.agent.agent import Agent, AgentState, MacroTables, Report, empty_tally
from masp.config import TrainConfig
from masp.environments.base import HostEnv, Step, derived_seed
from masp.macros.actions import ActionSet
from masp.training import evaluation
from masp.training.checked_env import CheckedEnv
from masp.training.compiled import ring_ticks, rows_on_host, without_observations
from masp.training.evaluation import Played, Policy, Rollout
from masp.training.lanes import start_of


class HostState(NamedTuple):
    """A run; a checkpoint holds exactly this."""

    agent: AgentState
    envs: Any  # what the environments need to be put back where they were


class HostLoop:
    """Trains one seed; has the interface of `CompiledLoop` with an axis of one seed in what it reports."""

    def __init__(self, agent: Agent, env: HostEnv, evaluation_env: HostEnv):
        self.agent, self.env = agent, CheckedEnv(env, "training")
        self._evaluation_env = CheckedEnv(evaluation_env, "evaluation")
        self._seed = 0

    def close(self) -> None:
        """End what the environments hold, as their processes."""
        self.env.close()
        self._evaluation_env.close()

    def init(self, configs: Sequence[TrainConfig], actions: Sequence[ActionSet], demonstrations: Any = ()) -> HostState:
        """The initial state of the one run."""
        (config,), (own,) = configs, actions
        self._seed = derived_seed(config.seed, "training")
        observation = jnp.asarray(self.env.reset(self._seed))
        keys, start = start_of(config, self.agent, own)
        agent = jax.jit(self.agent.init)(keys, observation, start, self.env.action_mask)
        return HostState(agent._replace(demonstrations=demonstrations), ())

    def frames(self, state: HostState) -> np.ndarray:
        """[1] frames played so far."""
        return np.asarray(state.agent.actor.steps, np.int64)[None] * self.agent.info.frames_per_step

    def program(self, learn: bool) -> str:
        """What the program that `run` calls does."""
        return "learns" if learn else "plays"

    def run(self, state: HostState, ticks: int, learn: bool) -> HostState:
        """Play (and learn) for so many ticks; the given state is used up."""
        agent, steps_per_update = state.agent, self.agent.config.agent.steps_per_update
        unused, resetting = int(agent.unused_steps), np.asarray(agent.actor.resetting)
        for _ in range(ticks):
            agent, primitives = self._decide(agent)
            host_primitives = np.asarray(primitives)
            if not learn:
                agent, unused = agent._replace(unused_steps=np.zeros((), np.int32)), 0
            elif due := unused // steps_per_update:
                agent = self._learn(agent, due)  # returns at once: the agent learns while the environments step
                unused -= due * steps_per_update
            step = self.env.step(host_primitives)
            unused += int(np.sum(~resetting))
            resetting = (np.asarray(step.terminated) | np.asarray(step.truncated)) & ~resetting
            agent = self._observe(agent, step)
        return HostState(agent, ())

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def pretrain(self, state: HostState, updates: Array | int) -> HostState:
        """Make so many updates on demonstrations; the given state is used up."""

        def update(_: Array, agent: AgentState) -> AgentState:
            return self.agent.update(agent, self.agent.keys_of_updates(agent, 1)[0], demonstrated=True)

        return HostState(jax.lax.fori_loop(0, updates, update, state.agent), state.envs)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def _decide(self, state: AgentState) -> tuple[AgentState, Array]:
        return self.agent.decide(state)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def _observe(self, state: AgentState, step: Step) -> AgentState:
        return self.agent.observe(state, step)[0]

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def _learn(self, state: AgentState, due: Array) -> AgentState:
        keys = self.agent.update_keys(state)
        return jax.lax.fori_loop(0, due, lambda i, state: self.agent.update(state, keys[i]), state)

    def reset_tally(self, state: HostState) -> HostState:
        """Start counting anew, after a row of the metrics was written."""
        return state._replace(agent=state.agent._replace(tally=empty_tally(len(self.agent.actions))))

    def reports(self, state: HostState) -> list[Report]:
        """The report of the one seed."""
        return self.per_seed(self.agent.report(state.agent))

    def per_seed(self, part: Any) -> list[Any]:
        """A part of the state as NumPy arrays, of the one seed."""
        return [jax.tree.map(np.asarray, part)]

    def checkpoints(self, state: HostState) -> list[HostState]:
        """Everything but the replay's observations, with what the environments need to be put back."""
        return [HostState(without_observations(state.agent), self.env.snapshot())]

    def restore(self, states: list[HostState], rings: list[np.ndarray], demonstrations: Any = ()) -> HostState:
        """The inverse of `checkpoints` and `replay_rows`; moves the environments too."""
        (state,), (ring,) = states, rings
        self.env.restore(self._seed, state.envs)
        agent = jax.tree.map(jnp.asarray, state.agent)
        memory = agent.memory._replace(observations=jnp.asarray(ring))
        return HostState(agent._replace(memory=memory, demonstrations=demonstrations), ())

    def ring_shape(self, state: HostState) -> tuple[int, ...]:
        """[T, N, D] of the replay's observations."""
        return state.agent.memory.observations.shape

    def replay_rows(self, state: HostState, first: int, last: int) -> list[tuple[int, np.ndarray]]:
        """Copies of the replay's rows from tick `first` to `last`, as far as the ring has them."""
        observations = state.agent.memory.observations
        first, ticks = ring_ticks(first, last, observations.shape[0])
        return [(first, rows_on_host(observations, ticks, axis=0))]

    def replay_is_empty(self, state: HostState) -> bool:
        """Whether no decision has ended yet, so that there is nothing to sample."""
        return float(np.asarray(state.agent.memory.tree[-1]).sum()) == 0

    def evaluate(self, state: HostState, episodes: int, number: int) -> Played:
        """[1, episodes] episodes with their own seeds, played without noise."""
        learner = state.agent.learner
        key = jax.random.fold_in(state.agent.keys.evaluation, number)
        context = self.agent.learner.similarity.context(learner.similarity)
        played = self.play(learner.params, context, key, episodes, state.agent.macros)
        return Played(*[part[None] for part in played])

    def play(
        self, params: Any, similarity: Any, key: Array, episodes: int, macros: MacroTables | None = None
    ) -> Played:
        """[episodes] episodes of one policy; `macros` None: those of the agent."""
        policy = Policy(params, similarity, MacroTables.of(self.agent.actions) if macros is None else macros)
        # Every environment plays the same number of episodes: taking those that end first would favour short ones.
        env = self._evaluation_env
        rounds = -(-episodes // env.num_envs)
        done: list[list[tuple[float, ...]]] = [[] for _ in range(env.num_envs)]
        observation = env.reset(derived_seed(int(key[1]), "evaluation"))
        rollout = self._evaluation_begin(policy, observation, env.action_mask)
        tick = 0
        while any(len(episodes) < rounds for episodes in done):
            rollout, primitives = self._evaluation_decide(policy, rollout, key, tick)
            rollout, ended = self._evaluation_advance(policy, rollout, env.step(np.asarray(primitives)))
            for i in np.flatnonzero(ended.ended):
                about = (rollout.predicted, rollout.obtained, ended.success, rollout.flaw)
                figures = (ended.score, ended.steps, *about)
                done[i].append(tuple(figure[i].item() for figure in figures))
            tick += 1
        by_round = [one[r] for r in range(rounds) for one in done][:episodes]
        return Played(*[np.array(part) for part in zip(*by_round, strict=True)])

    @partial(jax.jit, static_argnums=0)
    def _evaluation_begin(self, policy: Policy, observation: Array, mask: Array | None) -> Rollout:
        return evaluation.begin(self.agent, policy, observation, mask)

    @partial(jax.jit, static_argnums=0, donate_argnums=2)
    def _evaluation_decide(self, policy: Policy, rollout: Rollout, key: Array, tick: Array) -> tuple[Rollout, Array]:
        return evaluation.decide(self.agent, policy, rollout, tick, jax.random.fold_in(key, tick))

    @partial(jax.jit, static_argnums=0, donate_argnums=2)
    def _evaluation_advance(self, policy: Policy, rollout: Rollout, step: Step) -> tuple[Rollout, Episodes]:
        return evaluation.advance(self.agent, policy, rollout, step)

    def sampled_values(self, state: HostState) -> list[np.ndarray]:
        """[states, A] action values of states from the replay, of the one seed."""
        return [np.asarray(self._sampled_values(state.agent))]

    @partial(jax.jit, static_argnums=0)
    def _sampled_values(self, agent: AgentState) -> Array:
        return self.agent.sampled_values(agent)
