"""Acting: epsilon-greedy decisions, and the state after each step; both training loops use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp import ops
from masp.agent import nstep, replay
from masp.agent.nstep import WindowState
from masp.agent.replay import ReplayState
from masp.environments.base import SUCCESS_UNKNOWN, Step
from masp.macros import execution
from masp.macros.execution import MacroState


class ActorState(NamedTuple):
    """The acting state of N environments; their own state is elsewhere."""

    frames: Array  # [N, stack, ...] newest observations, newest last, zeros before the episode
    age: Array  # [N] int32, rows since the first of the episode
    resetting: Array  # [N] bool, the next tick only resets
    macro: MacroState
    windows: WindowState
    episode_return: Array  # [N] undiscounted, unclipped
    episode_steps: Array  # [N] int32
    usage: Array  # [A] int32, how often each action was decided on
    steps: Array  # [] int32, steps played in total
    mask: Any  # [N, P] bool, primitives allowed after the newest observation; None where nothing is ever forbidden


class Episodes(NamedTuple):
    """Episodes that ended at this tick; entries that are not `ended` are meaningless."""

    ended: Array  # [N] bool
    score: Array  # [N] undiscounted return
    steps: Array  # [N] int32
    success: Array  # [N] int8, 1, 0 or SUCCESS_UNKNOWN, as the environment said at the end


@dataclass(frozen=True)
class Actor:
    """The fixed parts of acting; all state is in `ActorState`."""

    table: Array  # [A, longest]
    lengths: Array  # [A]
    gamma: float
    n_step: int
    stack: int
    clip_rewards: bool
    choosable: tuple[bool, ...]
    """[A] which actions greedy decisions may choose where the action mask allows them; random ones choose among all."""

    def init(self, observation: Array, mask: Array | None = None) -> ActorState:
        """Right after a reset that gave `observation` [N, ...] and perhaps an action mask [N, P]."""
        num_envs = observation.shape[0]
        zeros = jnp.zeros(num_envs, jnp.int32)
        frames = jnp.zeros((num_envs, self.stack, *observation.shape[1:]), observation.dtype)
        return ActorState(
            frames=frames.at[:, -1].set(observation),
            age=zeros,
            resetting=jnp.zeros(num_envs, bool),
            macro=execution.init(num_envs),
            windows=nstep.init(num_envs, self.n_step),
            episode_return=jnp.zeros(num_envs),
            episode_steps=zeros,
            usage=jnp.zeros(self.lengths.shape[0], jnp.int32),
            steps=jnp.zeros((), jnp.int32),
            mask=None if mask is None else jnp.asarray(mask, bool),
        )

    def inputs(self, state: ActorState) -> Array:
        """[N, ...] what the network sees."""
        return ops.frames_to_channels(state.frames)

    def masked(self, state: ActorState, values: Array) -> Array:
        """[N, A] values with -inf for the actions that greedy decisions may not choose."""
        return jnp.where(jnp.asarray(self.choosable) & self._allowed(state), values, -jnp.inf)

    def decide(
        self, state: ActorState, values: Array, epsilon: Array | float, tick: Array, key: Array
    ) -> tuple[ActorState, Array]:
        """Epsilon-greedy decisions where they are due; [N] the next primitive of every environment.

        Args:
          values: [N, A] action values of `inputs(state)`.
        """
        due = (state.macro.position == 0) & ~state.resetting
        explore, which = jax.random.uniform(key, (2, *due.shape))
        if not all(self.choosable):
            epsilon = self._per_decision(state, epsilon)
        random = self._random(state, which)
        greedy = jnp.argmax(self.masked(state, values), axis=1).astype(jnp.int32)
        macro = execution.begin(state.macro, jnp.where(explore < epsilon, random, greedy))
        primitives = execution.primitives(macro, self.table)
        windows = nstep.begin(state.windows, due, macro.action, tick)
        usage = state.usage.at[macro.action].add(due)
        state = state._replace(macro=macro, windows=windows, usage=usage)
        return state, primitives

    def _allowed(self, state: ActorState) -> Array | bool:
        """[N, A] the actions that the action mask allows."""
        return True if state.mask is None else execution.allowed_actions(state.mask, self.table)

    def _random(self, state: ActorState, uniform: Array) -> Array:
        """[N] int32 actions, uniform among those that are allowed, from numbers `uniform` [N] in [0, 1)."""
        num_actions = self.lengths.shape[0]
        if state.mask is None:
            return jnp.minimum((uniform * num_actions).astype(jnp.int32), num_actions - 1)
        allowed = self._allowed(state)
        count = jnp.sum(allowed, axis=1)
        rank = jnp.minimum((uniform * count).astype(jnp.int32), count - 1)
        return jnp.argmax(jnp.cumsum(allowed, axis=1) > rank[:, None], axis=1).astype(jnp.int32)

    def _per_decision(self, state: ActorState, epsilon: Array | float) -> Array:
        """[] or [N] the probability of a random decision for which a share `epsilon` of all *steps* is random.

        A random decision takes L steps on average, any other takes one: of steps, e L / (e L + 1 - e) are random.
        """
        lengths = self.lengths.astype(jnp.float32)
        if state.mask is None:
            mean_length = jnp.mean(lengths)
        else:  # of the actions that are allowed
            allowed = self._allowed(state)
            mean_length = jnp.sum(jnp.where(allowed, lengths, 0.0), axis=1) / jnp.sum(allowed, axis=1)
        return epsilon / (epsilon + mean_length * (1.0 - epsilon))

    def learned_reward(self, step: Step) -> Array:
        """[N] the rewards of a tick as they are learned from."""
        return jnp.clip(step.reward, -1.0, 1.0) if self.clip_rewards else step.reward

    def advance(self, state: ActorState, step: Step) -> tuple[ActorState, nstep.Windows, Episodes]:
        """The state after a tick, the windows it closed and the episodes it ended."""
        idle = state.resetting
        reward, lost = self.learned_reward(step), step.terminated | step.life_lost
        mask = None if state.mask is None else jnp.asarray(step.action_mask, bool)
        forbidden = False if mask is None else execution.next_is_forbidden(state.macro, mask, self.table)
        ends = (lost, step.truncated, idle)
        macro, decision = execution.advance(state.macro, reward, *ends, self.lengths, self.gamma, forbidden)
        windows, closed = nstep.extend(state.windows, decision)
        score = jnp.where(idle, 0.0, state.episode_return + step.reward)
        steps = jnp.where(idle, 0, state.episode_steps + 1)
        ended = (step.terminated | step.truncated) & ~idle
        frames = jnp.where(idle.reshape(-1, *[1] * (state.frames.ndim - 1)), 0, state.frames).astype(state.frames.dtype)
        frames = jnp.concatenate([frames[:, 1:], step.observation[:, None].astype(frames.dtype)], axis=1)
        following = ActorState(
            frames=frames,
            age=jnp.where(idle, 0, state.age + 1),
            resetting=ended,
            macro=macro,
            windows=windows,
            episode_return=score,
            episode_steps=steps,
            usage=state.usage,
            steps=state.steps + jnp.sum(~idle),
            mask=mask,
        )
        unknown = jnp.full(ended.shape, SUCCESS_UNKNOWN, jnp.int8)
        success = unknown if step.success is None else jnp.asarray(step.success, jnp.int8)
        return following, closed, Episodes(ended, score, steps, success)

    def remember(self, memory: ReplayState, state: ActorState, closed: nstep.Windows, tick: Array) -> ReplayState:
        """Store the results of `advance`: the new observation as row `tick + 1`, and the windows that end there."""
        memory = replay.write_row(memory, tick + 1, state.frames[:, -1], state.age, state.mask)
        return replay.write_windows(memory, tick + 1, closed, self.stack)
