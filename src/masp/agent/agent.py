"""The whole agent: acting, remembering and learning as pure functions of one state, for both training loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp import ops
from masp.agent import credit, demonstrations, replay
from masp.agent.acting import Actor, ActorState, Episodes
from masp.agent.learner import Hyper, Learner, LearnerState, Metrics
from masp.agent.networks import QNetwork, draw_noise
from masp.agent.replay import Batch, ReplayState
from masp.agent.torso import make_torso
from masp.config import TrainConfig
from masp.environments.base import SUCCESS_UNKNOWN, EnvInfo, Step
from masp.errors import UserError
from masp.macros import execution
from masp.macros.actions import ActionSet
from masp.similarity import embedded

METRIC_STATES = 64
"""States whose action values are computed for a row of the metrics."""


class Keys(NamedTuple):
    """One key per purpose; the tick, the update or the evaluation is folded in where it is used."""

    start: Array
    act: Array
    learn: Array
    environment: Array
    evaluation: Array

    @classmethod
    def of(cls, key: Array) -> Keys:
        """All keys of a run from its one."""
        return cls(*jax.random.split(key, 5))


class Tally(NamedTuple):
    """Sums since the last row of the metrics."""

    episodes: Array  # [] int32
    score: Array  # [] sum of returns
    successes: Array  # [] int32
    judged: Array  # [] int32, episodes of which the environment said whether they succeeded
    episode_steps: Array  # [] int32
    updates: Array  # [] int32
    metrics: Metrics  # sums over the updates
    rewards: Array  # [A] undiscounted reward while each action was under way
    bad_tick: Array  # [] int32, the first tick with an observation or reward that is not finite; -1: none
    bad_env: Array  # [] int32, its environment
    empty_mask_tick: Array  # [] int32, the first tick after which an action mask allowed nothing; -1: none
    empty_mask_env: Array  # [] int32, its environment


class MacroTables(NamedTuple):
    """The primitives of every action, as data: seeds that train together may have different macros."""

    table: Array  # [A, longest] primitives
    lengths: Array  # [A] int32

    @classmethod
    def of(cls, actions: ActionSet) -> MacroTables:
        """The tables of an action set, in NumPy."""
        return cls(np.asarray(actions.table, np.int32), np.asarray(actions.lengths, np.int32))  # type: ignore[arg-type]


class Start(NamedTuple):
    """What a run begins with, besides its seed."""

    similarity: Array  # [A, A], or factors [A, R]
    hyper: Hyper
    macros: MacroTables
    params: Any = None  # parameters by path, in place of the initial ones; None: all are new


class AgentState(NamedTuple):
    """Everything but the environments."""

    learner: LearnerState
    memory: ReplayState
    actor: ActorState
    tally: Tally
    keys: Keys
    tick: Array  # [] int32
    unused_steps: Array  # [] int32, steps played since the last update
    macros: MacroTables
    demonstrations: Any = ()  # Demonstrations, which all runs that train together share; () without


class Report(NamedTuple):
    """The part of a state that metrics and policy files are made from."""

    params: Any
    similarity: Any  # [A, A] or factors: what the network sees
    usage: Any  # [A]
    steps: Any  # []
    tally: Tally


@dataclass(frozen=True)
class Agent:
    """The fixed parts of a run."""

    config: TrainConfig
    info: EnvInfo
    actions: ActionSet

    @property
    def learner(self) -> Learner:
        c = self.config
        network = QNetwork(
            observation_kind=self.info.observation_kind,
            num_actions=len(self.actions),
            num_atoms=c.agent.num_atoms,
            hidden=c.agent.hidden,
            dueling=c.agent.dueling,
            noisy=c.agent.noisy,
            embedding=c.similarity.embedding,
            torso=make_torso(c.agent.torso),
        )
        return Learner(network, c, self.choosable)

    @property
    def choosable(self) -> tuple[bool, ...]:
        """[A] which actions greedy decisions and targets may choose where the action mask allows them.

        Deciding at every step is never worse than a macro, so where macros are for exploring, only primitives are.
        """
        primitives = self.actions.num_primitives
        exploring = self.config.agent.macros_for == "exploring"
        return tuple(action < primitives or not exploring for action in range(len(self.actions)))

    def actor(self, macros: MacroTables) -> Actor:
        a = self.config.agent
        return Actor(macros.table, macros.lengths, a.gamma, a.n_step, a.stack, a.clip_rewards, self.choosable)

    @property
    def learns_inside_macros(self) -> bool:
        """Whether steps inside macros are learned from; without macros they would repeat the same transitions."""
        single_decisions = self.config.variant == "outcomes" and self.config.agent.n_step > 1
        return self.config.agent.intra_option and (bool(self.actions.macros) or single_decisions)

    @property
    def replay_ticks(self) -> int:
        """Length of the replay's ring."""
        a = self.config.agent
        ticks = -(-a.replay_steps // self.config.num_envs)
        longest = a.n_step * int(self.actions.lengths.max()) + a.stack + 1
        if ticks <= longest:
            raise UserError(
                f"replay_steps is too small: {self.config.num_envs} environments leave {ticks} ticks each, but one "
                f"window of {a.n_step} decisions takes up to {longest}"
            )
        return ticks

    def init(self, keys: Keys, observation: Array, start: Start, mask: Array | None = None) -> AgentState:
        """The initial state; `observation` [N, ...] and action mask [N, P], if any, come from the first reset."""
        key_network, _ = jax.random.split(keys.start)
        acting = self.actor(start.macros)
        actor = acting.init(observation, mask)
        inputs = acting.inputs(actor)[:1]
        learner = self.learner.init(key_network, inputs, start.similarity, start.hyper, start.params)
        ring = (self.replay_ticks, observation.shape[0])
        steps = credit.init(*ring) if self.learns_inside_macros else ()
        masked = 0 if mask is None else mask.shape[1]
        memory = replay.init(*ring, self.info.observation_shape, self.info.observation_dtype, steps, masked)
        memory = replay.write_row(memory, jnp.zeros((), jnp.int32), observation, actor.age, actor.mask)
        tick, unused = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
        tally, macros = jax.tree.map(jnp.asarray, (empty_tally(len(self.actions)), start.macros))
        return AgentState(learner, memory, actor, tally, keys, tick, unused, macros)

    def report(self, state: AgentState) -> Report:
        """The part of `state` that metrics and policy files are made from."""
        learner, actor = state.learner, state.actor
        context = self.learner.similarity.context(learner.similarity)
        return Report(learner.params, context, actor.usage, actor.steps, state.tally)

    def policy_template(self) -> dict[str, Any]:
        """Parameters and similarity of the right shapes, as the policy file holds them."""
        shape, stack = self.info.observation_shape, self.config.agent.stack
        observation = jnp.zeros((1, *shape[:-1], shape[-1] * stack), self.info.observation_dtype)
        key, count = jax.random.PRNGKey(0), len(self.actions)
        embeds = self.config.embeds(count)
        similarity = jnp.asarray(embedded.start(count) if embeds else np.eye(count, dtype=np.float32))
        params = self.learner.network.init(key, observation, similarity)["params"]
        return {"params": params, "similarity": similarity}

    def decide(self, state: AgentState) -> tuple[AgentState, Array]:
        """First half of a tick: [N] the primitives to play."""
        key_noise, key_choice = jax.random.split(jax.random.fold_in(state.keys.act, state.tick))
        acting, learner = self.actor(state.macros), state.learner
        noise = draw_noise(key_noise, learner.noise_template, 1)[0] if self.config.agent.noisy else None
        context = self.learner.similarity.context(learner.similarity)
        values = self.learner.values(learner.params, acting.inputs(state.actor), context, noise)
        actor, primitives = acting.decide(state.actor, values, self._epsilon(state), state.tick, key_choice)
        return state._replace(actor=actor), primitives

    def observe(self, state: AgentState, step: Step) -> tuple[AgentState, Episodes]:
        """Second half of a tick: take in what the environments returned."""
        acting = self.actor(state.macros)
        actor, closed, episodes = acting.advance(state.actor, step)
        memory = acting.remember(state.memory, actor, closed, state.tick)
        if self.learns_inside_macros:
            primitives = execution.primitives(state.actor.macro, state.macros.table)
            steps = credit.write(memory.steps, state.tick, primitives, acting.learned_reward(step), step)
            memory = memory._replace(steps=steps)
        tally = _note_empty_masks(_note_bad_numbers(state.tally, step, state.tick), step, state.tick)
        tally = _count_episodes(tally, episodes, self.info.success_above)
        reward = jnp.where(state.actor.resetting, 0.0, step.reward)
        tally = tally._replace(rewards=tally.rewards.at[state.actor.macro.action].add(reward))
        unused = state.unused_steps + actor.steps - state.actor.steps
        state = state._replace(actor=actor, memory=memory, tally=tally, tick=state.tick + 1, unused_steps=unused)
        return state, episodes

    @property
    def most_updates(self) -> int:
        """The most updates that one tick can make due."""
        return -(-self.config.num_envs // self.config.agent.steps_per_update)

    def update_keys(self, state: AgentState) -> Array:
        """Keys of the updates that come next, all in one draw: many small draws are slow."""
        return self.keys_of_updates(state, self.most_updates)

    def keys_of_updates(self, state: AgentState, count: int) -> Array:
        """[count, 3] keys of the next updates."""
        numbers = state.learner.updates + jnp.arange(count)
        return jax.vmap(lambda number: jax.random.split(jax.random.fold_in(state.keys.learn, number), 3))(numbers)

    def update(self, state: AgentState, keys: Array, demonstrated: bool = False) -> AgentState:
        """Sample, learn, reprioritise; `demonstrated`: from demonstrations alone, before the first step."""
        draw = self._demonstrated_batch if demonstrated else self._batch
        key_batch, key_held_out, key_update = keys
        batch = draw(state, key_batch)
        learner, losses, metrics = self.learner.update(
            state.learner, batch, lambda: draw(state, key_held_out), key_update
        )
        memory = state.memory
        if (exponent := self.config.agent.priority_exponent) and len(batch.leaf):
            memory = replay.reprioritise(memory, batch.leaf, ops.after(metrics, losses), exponent)
        tally = state.tally._replace(
            updates=state.tally.updates + 1,
            metrics=jax.tree.map(jnp.add, state.tally.metrics, metrics),
        )
        unused = state.unused_steps if demonstrated else state.unused_steps - self.config.agent.steps_per_update
        return state._replace(learner=learner, memory=memory, tally=tally, unused_steps=unused)

    def _batch(self, state: AgentState, key: Array) -> Batch:
        """Windows of the replay, a share of demonstrated ones, and transitions from inside those of the replay."""
        a, macros, shape = self.config.agent, state.macros, self.info.observation_shape
        key_windows, key_inside = jax.random.split(key)
        exponent = self._importance_exponent(state) if a.priority_exponent else 0.0
        demonstrated = self.demonstrated_windows if state.demonstrations else 0
        batch = replay.sample(state.memory, key_windows, a.batch_size - demonstrated, shape, a.stack, exponent)
        if state.memory.masks is not None:
            allowed = execution.allowed_actions(replay.masks_after(state.memory, batch.leaf), macros.table)
            batch = batch._replace(transition=batch.transition._replace(allowed_t=allowed))
        if demonstrated:
            key_demonstrated = jax.random.fold_in(key, 2)
            batch = demonstrations.mixed(batch, self._demonstrated_batch(state, key_demonstrated, demonstrated))
        if not self.learns_inside_macros:
            return batch
        where = (macros.table, macros.lengths, a.gamma, shape, a.stack)
        return credit.draw(state.memory, batch, key_inside, state.tick, *where)

    @property
    def demonstrated_windows(self) -> int:
        """How many windows of a batch are demonstrated, where there are demonstrations."""
        batch_size = self.config.agent.batch_size
        return min(round(demonstrations.SHARE * batch_size), batch_size - 1)

    def _demonstrated_batch(self, state: AgentState, key: Array, size: int = 0) -> Batch:
        """`size` demonstrated windows, or a whole batch of them."""
        a, macros = self.config.agent, state.macros
        n_step = self.config.demonstration.demonstration_n_step
        where = (macros.table, macros.lengths, a.gamma, n_step, self.info.observation_shape, a.stack)
        return demonstrations.draw(state.demonstrations, key, size or a.batch_size, *where)

    def sampled_values(self, state: AgentState) -> Array:
        """[METRIC_STATES, A] action values, without noise, of states from the replay, drawn as for learning."""
        # No evaluation has the number 0: the agent has played before it is looked at.
        key = jax.random.fold_in(jax.random.fold_in(state.keys.evaluation, 0), state.tick)
        shape, stack = self.info.observation_shape, self.config.agent.stack
        states = replay.sample(state.memory, key, METRIC_STATES, shape, stack, 0.0).transition.s_tm1
        context = self.learner.similarity.context(state.learner.similarity)
        return self.learner.values(state.learner.params, states, context, None)

    def _epsilon(self, state: AgentState) -> Array:
        """[] linear decay over steps."""
        start, end = self.config.agent.epsilon
        return start + jnp.clip(state.actor.steps / self.config.agent.epsilon_decay_steps, 0.0, 1.0) * (end - start)

    def _importance_exponent(self, state: AgentState) -> Array:
        """[] linear from start to end over the whole run."""
        start, end = self.config.agent.importance
        total_steps = self.config.frames / self.info.frames_per_step
        return start + jnp.clip(state.actor.steps / total_steps, 0.0, 1.0) * (end - start)


def seed_axes(state: AgentState, own: Any = 0, shared: Any = None) -> AgentState:
    """`own` for leaves with an axis of seeds, `shared` for what all seeds share: counters and demonstrations."""
    axes = jax.tree.map(lambda _: own, state)
    demonstrations = jax.tree.map(lambda _: shared, state.demonstrations)
    return axes._replace(tick=shared, learner=axes.learner._replace(updates=shared), demonstrations=demonstrations)


def empty_tally(num_actions: int) -> Tally:
    """A tally of zeros, in NumPy; each number has its own buffer, because the state is donated."""
    episodes, successes, judged, episode_steps, updates = (np.zeros((), np.int32) for _ in range(5))
    bad_tick, bad_env, empty_mask_tick, empty_mask_env = (np.full((), -1, np.int32) for _ in range(4))
    zeros: Any = partial(np.zeros, dtype=np.float32)
    counts: dict[str, Any] = dict(
        episodes=episodes,
        score=zeros(()),
        successes=successes,
        judged=judged,
        episode_steps=episode_steps,
        updates=updates,
        metrics=Metrics(*[zeros(()) for _ in Metrics._fields]),
        rewards=zeros(num_actions),
        bad_tick=bad_tick,
        bad_env=bad_env,
        empty_mask_tick=empty_mask_tick,
        empty_mask_env=empty_mask_env,
    )
    return Tally(**counts)


def finite_observations(observation: Array) -> Array:
    """[N] whether all numbers of observations [N, ...] are finite."""
    if not jnp.issubdtype(observation.dtype, jnp.floating):
        return jnp.ones(observation.shape[0], bool)
    return jnp.all(jnp.isfinite(observation), axis=tuple(range(1, observation.ndim)))


def finite_steps(step: Step) -> Array:
    """[N] whether what the environments returned is finite."""
    return jnp.isfinite(step.reward) & finite_observations(step.observation)


def usable_masks(step: Step) -> Array:
    """[N] whether the action masks allow an action, where the episode goes on or is bootstrapped."""
    return jnp.any(step.action_mask, axis=1) | step.terminated


def _note_bad_numbers(tally: Tally, step: Step, tick: Array) -> Tally:
    """Remember where an environment returned a number that is not finite."""
    finite = finite_steps(step)
    bad = ~jnp.all(finite) & (tally.bad_tick < 0)
    return tally._replace(
        bad_tick=jnp.where(bad, tick, tally.bad_tick),
        bad_env=jnp.where(bad, jnp.argmin(finite), tally.bad_env).astype(jnp.int32),
    )


def _note_empty_masks(tally: Tally, step: Step, tick: Array) -> Tally:
    """Remember where an action mask allowed nothing."""
    if step.action_mask is None:
        return tally
    usable = usable_masks(step)
    bad = ~jnp.all(usable) & (tally.empty_mask_tick < 0)
    return tally._replace(
        empty_mask_tick=jnp.where(bad, tick, tally.empty_mask_tick),
        empty_mask_env=jnp.where(bad, jnp.argmin(usable), tally.empty_mask_env).astype(jnp.int32),
    )


def _count_episodes(tally: Tally, episodes: Episodes, success_above: float | None) -> Tally:
    """Episodes are successes as the environment says, or else by their return."""
    said = episodes.success != SUCCESS_UNKNOWN
    by_score = episodes.score > (jnp.inf if success_above is None else success_above)
    won = episodes.ended & jnp.where(said, episodes.success == 1, by_score)
    return tally._replace(
        judged=tally.judged + jnp.sum(episodes.ended & said),
        episodes=tally.episodes + jnp.sum(episodes.ended),
        score=tally.score + jnp.sum(jnp.where(episodes.ended, episodes.score, 0.0)),
        successes=tally.successes + jnp.sum(won),
        episode_steps=tally.episode_steps + jnp.sum(jnp.where(episodes.ended, episodes.steps, 0)),
    )
