"""The whole agent: acting, remembering and learning as pure functions of one state, for both training loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp import ops
from masp.agent import credit as intra_option
from masp.agent import replay
from masp.agent.acting import Actor, ActorState, Episodes
from masp.agent.learner import Learner, LearnerState, Metrics
from masp.agent.networks import QNetwork
from masp.agent.replay import ReplayState, Sample
from masp.config import TrainConfig
from masp.environments.base import EnvInfo, Step
from masp.errors import UserError
from masp.macros import execution
from masp.macros.actions import ActionSet
from masp.macros.mining.settings import MiningSettings
from masp.similarity import matrix as sim
from masp.training import journal
from masp.training.journal import Journal
from masp.training.lanes import Start, start_of

SHOWN_STATES = 64
"""States whose values are looked at for a row of the metrics."""


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
    episode_steps: Array  # [] int32
    updates: Array  # [] int32
    metrics: Metrics  # sums over the updates


class MacroTables(NamedTuple):
    """What every action plays, as data, so that a macro can be replaced without compiling again."""

    table: Array  # [A, longest] primitives
    lengths: Array  # [A] int32


class Discovery(NamedTuple):
    """What finding new macros during training must remember."""

    journal: Journal
    usage_at_round: Array  # [A] int32, `ActorState.usage` when macros were last replaced
    usage_at_birth: Array  # [A] int32, the same when the macro in this place came


class AgentState(NamedTuple):
    """Everything but the environments."""

    learner: LearnerState
    memory: ReplayState
    actor: ActorState
    tally: Tally
    keys: Keys
    tick: Array  # [] int32
    macros: MacroTables
    discovery: Any  # Discovery; () where the macros stay


class Report(NamedTuple):
    """The small part of a state that people look at."""

    params: Any
    similarity: Any  # [A, A]
    usage: Any  # [A]
    steps: Any  # []
    tally: Tally


def report(state: AgentState) -> Report:
    """What to show of `state`, with or without an axis of seeds."""
    return Report(state.learner.params, state.learner.similarity, state.actor.usage, state.actor.steps, state.tally)


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
        )
        return Learner(network, c.agent, c.similarity, self.actions.num_primitives)

    def actor(self, macros: MacroTables) -> Actor:
        a = self.config.agent
        primitives = self.actions.num_primitives if a.macros_for == "exploring" else 0
        return Actor(macros.table, macros.lengths, a.gamma, a.n_step, a.stack, a.clip_rewards, primitives, a.windows)

    @property
    def longest(self) -> int:
        """Steps of the longest macro that there is or may ever be."""
        longest = int(self.actions.lengths.max())
        return max(longest, MiningSettings().max_length) if self.config.mine_every_frames else longest

    @property
    def credits_inside(self) -> bool:
        """Whether steps inside macros teach; where there are none it would be the same transitions once more."""
        wanted, c = self.config.agent.intra_option, self.config
        return wanted and (bool(self.actions.macros) or (c.similarity.from_outcomes and c.agent.n_step > 1))

    def tables(self, actions: ActionSet | None = None) -> MacroTables:
        """The macros to begin with, or those of `actions`."""
        actions = self.actions if actions is None else actions
        table = actions.table
        padding = [(0, 0), (0, self.longest - table.shape[1])]
        return MacroTables(jnp.asarray(np.pad(table, padding, mode="edge")), jnp.asarray(actions.lengths))

    @property
    def replay_ticks(self) -> int:
        """Length of the replay's ring."""
        ticks = -(-self.config.agent.replay_steps // self.config.num_envs)
        longest = self.config.agent.n_step * self.longest + self.config.agent.stack + 1
        if ticks <= longest:
            raise UserError(
                f"replay_steps is too small: {self.config.num_envs} environments leave {ticks} ticks each, but one "
                f"window of {self.config.agent.n_step} decisions takes up to {longest}"
            )
        return ticks

    def start(self, config: TrainConfig) -> tuple[Keys, Start]:
        """What the run of `config` begins with; it is the agent's own configuration, or another lane's."""
        keys = Keys.of(jax.random.PRNGKey(config.seed))
        return keys, start_of(config, self.info, self.actions, jax.random.split(keys.start)[1])

    def init(self, keys: Keys, observation: Array, start: Start) -> AgentState:
        """Before the first tick; `observation` [N, ...] comes from the first reset."""
        key_network, _ = jax.random.split(keys.start)
        macros = self.tables()
        acting = self.actor(macros)
        actor = acting.init(observation)
        learner = self.learner.init(key_network, acting.inputs(actor)[:1], start.similarity, start.hyper)
        ring = (self.replay_ticks, observation.shape[0])
        steps = intra_option.init(*ring) if self.credits_inside else ()
        memory = replay.init(*ring, self.info.observation_shape, self.info.observation_dtype, steps)
        memory = replay.write_row(memory, jnp.zeros((), jnp.int32), observation, actor.age)
        tick = jnp.zeros((), jnp.int32)
        return AgentState(learner, memory, actor, empty_tally(), keys, tick, macros, self._discovery(actor))

    def _discovery(self, actor: ActorState) -> Any:
        if not self.config.mine_every_frames:
            return ()
        played = journal.init(self.replay_ticks, self.config.num_envs)
        return Discovery(played, jnp.zeros_like(actor.usage), jnp.zeros_like(actor.usage))

    def policy_template(self) -> dict[str, Any]:
        """Parameters and similarity of the right shapes, as the policy file holds them."""
        shape, stack = self.info.observation_shape, self.config.agent.stack
        observation = jnp.zeros((1, *shape[:-1], shape[-1] * stack), self.info.observation_dtype)
        rank = self.config.similarity.similarity_rank
        similarity = sim.start("identity", self.actions.sequences(), 0.0, jax.random.PRNGKey(0), rank)
        learner = self.learner.init(jax.random.PRNGKey(0), observation, similarity)
        return {"params": learner.params, "similarity": similarity}

    def decide(self, state: AgentState) -> tuple[AgentState, Array]:
        """First half of a tick: [N] the primitives to play."""
        key_noise, key_choice = jax.random.split(jax.random.fold_in(state.keys.act, state.tick))
        acting = self.actor(state.macros)
        values = self.learner.values(
            state.learner.params,
            acting.inputs(state.actor),
            state.learner.similarity,
            self.learner.noise(state.learner, key_noise, 1)[0],
        )
        actor, primitives = acting.decide(state.actor, values, self._epsilon(state.tick), state.tick, key_choice)
        return state._replace(actor=actor), primitives

    def observe(self, state: AgentState, step: Step) -> tuple[AgentState, Episodes]:
        """Second half of a tick: take in what the environments returned."""
        acting = self.actor(state.macros)
        actor, closed, episodes = acting.advance(state.actor, step)
        memory = acting.remember(state.memory, actor, closed, state.tick)
        tally = _count_episodes(state.tally, episodes, self.info.success_above)
        discovery = state.discovery
        played = execution.primitives(state.actor.macro, state.macros.table)
        if self.credits_inside:
            steps = intra_option.write(memory.steps, state.tick, played, acting.learned_reward(step), step)
            memory = memory._replace(steps=steps)
        if self.config.mine_every_frames:
            rows = journal.write(discovery.journal, state.tick, played, state.actor.resetting, episodes)
            discovery = discovery._replace(journal=rows)
        state = state._replace(actor=actor, memory=memory, tally=tally, tick=state.tick + 1, discovery=discovery)
        return state, episodes

    def learn(self, state: AgentState) -> AgentState:
        """The updates of one iteration."""

        def keys_of(number: Array) -> Array:
            return jax.random.split(jax.random.fold_in(state.keys.learn, number), 3 + self.credits_inside)

        count = self.config.updates_per_iteration
        # All at once, because each draw by itself is several operations, however small.
        keys = jax.vmap(keys_of)(state.learner.updates + jnp.arange(count))
        return jax.lax.fori_loop(0, count, lambda i, state: self._update(state, keys[i]), state)

    def _update(self, state: AgentState, keys: Array) -> AgentState:
        """Sample, learn, reprioritise."""
        key_sample, key_held_out, key_update, *key_inside = keys
        sample = self._sample(state, key_sample)
        inside = self._inside(state, sample, key_inside[0]) if key_inside else None
        learner, losses, metrics = self.learner.update(
            state.learner, sample, key_update, lambda: self._sample(state, key_held_out), inside
        )
        memory = state.memory
        if self.config.agent.prioritised:
            exponent = self.config.agent.priority_exponent
            memory = replay.reprioritise(memory, sample.leaf, ops.after(metrics, losses), exponent)
        tally = state.tally._replace(
            updates=state.tally.updates + 1,
            metrics=jax.tree.map(jnp.add, state.tally.metrics, metrics),
        )
        return state._replace(learner=learner, memory=memory, tally=tally)

    def _sample(self, state: AgentState, key: Array) -> Sample:
        a = self.config.agent
        exponent = self._importance_exponent(state.tick) if a.prioritised else 0.0
        return replay.sample(state.memory, key, a.batch_size, self.info.observation_shape, a.stack, exponent)

    def _inside(self, state: AgentState, sample: Sample, key: Array) -> Sample:
        """Single decisions from inside the windows of `sample`."""
        a, macros = self.config.agent, state.macros
        where = (self.info.observation_shape, a.stack)
        return intra_option.draw(state.memory, sample, key, state.tick, macros.table, macros.lengths, a.gamma, *where)

    def values_seen(self, state: AgentState) -> Array:
        """[SHOWN_STATES, A] action values, without noise, of states from the replay, drawn as for learning."""
        # No evaluation has the number 0: the agent has played before it is looked at.
        key = jax.random.fold_in(jax.random.fold_in(state.keys.evaluation, 0), state.tick)
        where = (SHOWN_STATES, self.info.observation_shape, self.config.agent.stack)
        states = replay.sample(state.memory, key, *where, 0.0).transition.s_tm1
        return self.learner.values(state.learner.params, states, state.learner.similarity, None)

    def _epsilon(self, tick: Array) -> Array:
        """Linear decay over steps."""
        a = self.config.agent
        done = jnp.clip(tick * self.config.num_envs / a.epsilon_decay_steps, 0.0, 1.0)
        return a.epsilon_start + done * (a.epsilon_end - a.epsilon_start)

    def _importance_exponent(self, tick: Array) -> Array:
        """Linear from start to end over the whole run."""
        a = self.config.agent
        steps = self.config.frames / self.info.frames_per_step
        done = jnp.clip(tick * self.config.num_envs / steps, 0.0, 1.0)
        return a.importance_start + done * (a.importance_end - a.importance_start)


def seed_axes(state: AgentState) -> AgentState:
    """Which leaves have an axis of seeds (0) and which all seeds share (None): the counters."""
    axes = jax.tree.map(lambda _: 0, state)
    return axes._replace(tick=None, learner=axes.learner._replace(updates=None))


def empty_tally() -> Tally:
    """Nothing counted yet; every number its own buffer, because the state is donated."""
    counts = [jnp.zeros((), jnp.int32) for _ in range(4)]
    metrics = Metrics(*[jnp.zeros(()) for _ in Metrics._fields])
    return Tally(counts[0], jnp.zeros(()), counts[1], counts[2], counts[3], metrics)


def _count_episodes(tally: Tally, episodes: Episodes, success_above: float | None) -> Tally:
    won = episodes.ended & (episodes.score > (jnp.inf if success_above is None else success_above))
    return tally._replace(
        episodes=tally.episodes + jnp.sum(episodes.ended),
        score=tally.score + jnp.sum(jnp.where(episodes.ended, episodes.score, 0.0)),
        successes=tally.successes + jnp.sum(won),
        episode_steps=tally.episode_steps + jnp.sum(jnp.where(episodes.ended, episodes.steps, 0)),
    )
