"""Evaluation: returns of a policy, and the values that it predicted for them; both loops use it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.acting import ActorState, Episodes
from masp.agent.agent import Agent, MacroTables, finite_observations, finite_steps, usable_masks
from masp.environments.base import SUCCESS_UNKNOWN, Step

FLAWS = ("", "an observation or reward is not a finite number", "the action mask allows no action")
"""What can be wrong with what an environment returned in an episode; the position is `Played.flaw`."""
_NOT_FINITE, _NO_ACTION = 1, 2


class Policy(NamedTuple):
    """What is evaluated; it plays without noise."""

    params: Any
    similarity: Array
    macros: MacroTables


class Rollout(NamedTuple):
    """State of N environments in evaluation."""

    actor: ActorState
    predicted: Array  # [N] value of the best action in the first state of the episode
    obtained: Array  # [N] discounted return so far, as it is learned from
    weight: Array  # [N] weight of the next reward in it: gamma^steps, 0 after a lost life
    flaw: Array  # [N] int8, the first flaw of the episode, by its position in FLAWS


class Played(NamedTuple):
    """Finished episodes [..., episodes]."""

    score: Any  # undiscounted return
    steps: Any
    predicted: Any  # value of the best action in the first state
    obtained: Any  # discounted return, as it is learned from
    success: Any  # int8: 1, 0 or SUCCESS_UNKNOWN, as the environment said at the end
    flaw: Any  # int8, position in FLAWS

    def successes(self, success_above: float | None) -> np.ndarray | None:
        """[...] bool, as the environment says, or else by `success_above`; None: neither says it of any episode.

        Of an environment that says it of some episodes only, all others count as failures.
        """
        said = np.asarray(self.success) != SUCCESS_UNKNOWN
        if success_above is not None:
            return np.where(said, np.asarray(self.success) == 1, np.asarray(self.score) > success_above)
        return np.asarray(self.success) == 1 if said.any() else None


def begin(agent: Agent, policy: Policy, observation: Array, mask: Array | None = None) -> Rollout:
    """Right after a reset that gave `observation` [N, ...] and perhaps an action mask [N, P]."""
    blank = jnp.zeros(observation.shape[0])
    usable = True if mask is None else jnp.any(mask, axis=1)
    flaw = _worse(jnp.zeros(observation.shape[0], jnp.int8), finite_observations(observation), usable)
    return Rollout(agent.actor(policy.macros).init(observation, mask), blank, blank, blank, flaw)


def decide(agent: Agent, policy: Policy, rollout: Rollout, tick: Array, key: Array) -> tuple[Rollout, Array]:
    """First half of a tick: [N] the primitives to play."""
    acting, actor = agent.actor(policy.macros), rollout.actor
    values = agent.learner.values(policy.params, acting.inputs(actor), policy.similarity, None)
    first = (actor.age == 0) & ~actor.resetting
    actor, primitives = acting.decide(actor, values, agent.config.eval_epsilon, tick, key)
    begun = Rollout(
        actor,
        predicted=jnp.where(first, jnp.max(acting.masked(actor, values), axis=1), rollout.predicted),
        obtained=jnp.where(first, 0.0, rollout.obtained),
        weight=jnp.where(first, 1.0, rollout.weight),
        flaw=rollout.flaw,
    )
    return begun, primitives


def advance(agent: Agent, policy: Policy, rollout: Rollout, step: Step) -> tuple[Rollout, Episodes]:
    """Second half of a tick: take in what the environments returned."""
    acting, idle = agent.actor(policy.macros), rollout.actor.resetting
    actor, _, episodes = acting.advance(rollout.actor, step)
    obtained = rollout.obtained + jnp.where(idle, 0.0, rollout.weight * acting.learned_reward(step))
    weight = jnp.where(step.life_lost, 0.0, rollout.weight * agent.config.agent.gamma)
    flaw = jnp.where(idle, 0, rollout.flaw).astype(jnp.int8)
    flaw = _worse(flaw, finite_steps(step), True if step.action_mask is None else usable_masks(step))
    return Rollout(actor, rollout.predicted, obtained, weight, flaw), episodes


def _worse(flaw: Array, finite: Array, usable: Array | bool) -> Array:
    """[N] the first flaw of each episode, after a tick whose numbers are `finite` and whose masks are `usable`."""
    newest = jnp.where(finite, jnp.where(usable, 0, _NO_ACTION), _NOT_FINITE)
    return jnp.where(flaw == 0, newest, flaw).astype(jnp.int8)
