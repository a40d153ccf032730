"""Replacing macros in a running agent. Their number stays, so nothing is compiled again.

A macro that leaves takes with it all that was learned of it alone; what others learned stays:

- windows of the replay that start with it are never drawn again. A window in which it is a later decision stays:
  its return was really earned;
- an environment in the middle of it stops there and decides anew; open windows that it is part of are dropped;
- where it leads is unknown again (`outcomes.py`);
- its entries of the similarity go back to the configured start, all others stay;
- its column of the last layer (target network too) becomes a copy of the column of the first primitive of the new
  macro. A macro is worth at most its first step followed by the best steps, so it starts as good as it can be, and no
  better than an action that is known already;
- the moments of both optimisers for these entries become 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp.agent import replay
from masp.agent.acting import ActorState
from masp.agent.agent import AgentState, Discovery, MacroTables
from masp.agent.learner import LearnerState
from masp.similarity import matrix as sim
from masp.similarity import outcomes

HEAD = "advantage_out"
"""The layer of the network whose outputs are [A, atoms]; without dueling heads it is the only head."""


class Replacement(NamedTuple):
    """A round for one seed."""

    replaced: Array  # [A] bool; none: the round changes nothing
    macros: MacroTables  # of all actions, new ones in their places
    first: Array  # [A] int32, first primitive of every action
    similarity: Array  # [A, A] or factors [A, R], a start for all; entries of replaced actions are taken from it


def replace_macros(state: AgentState, change: Replacement) -> AgentState:
    """The agent with other macros in some places; a round begins."""
    discovery: Discovery = state.discovery
    usage = state.actor.usage
    born = jnp.where(change.replaced, usage, discovery.usage_at_birth)
    return state._replace(
        learner=_learner(state.learner, change),
        memory=replay.forget_actions(state.memory, change.replaced),
        actor=_actor(state.actor, change.replaced),
        macros=change.macros,
        discovery=discovery._replace(usage_at_round=usage, usage_at_birth=born),
    )


def _actor(actor: ActorState, replaced: Array) -> ActorState:
    macro, windows = actor.macro, actor.windows
    cut = replaced[macro.action] & (macro.position > 0)
    return actor._replace(
        macro=macro._replace(
            position=jnp.where(cut, 0, macro.position),
            reward=jnp.where(cut, 0.0, macro.reward),
            discount=jnp.where(cut, 1.0, macro.discount),
        ),
        windows=windows._replace(open=windows.open & ~cut[:, None] & ~replaced[windows.action]),
    )


def _learner(learner: LearnerState, change: Replacement) -> LearnerState:
    recent = learner.recent
    if recent != ():
        # Steps that a meta-gradient still reaches back to, as they would have been with the new macros.
        recent = recent._replace(
            params=_copied(recent.params, change),
            opt_state=_cleared(recent.opt_state, change),
            gradient=_cleared(recent.gradient, change),
            context=_restarted(recent.context, change),
            similarity=_restarted(recent.similarity, change),
        )
    known = learner.outcomes
    if known != ():
        known = outcomes.forget(known, change.replaced)
    pairs = change._replace(similarity=jnp.zeros_like(change.similarity))
    moments = jax.tree.map(
        lambda leaf: _restarted(leaf, pairs) if leaf.shape == change.similarity.shape else leaf,
        learner.similarity_opt_state,
    )
    return learner._replace(
        params=_copied(learner.params, change),
        target_params=_copied(learner.target_params, change),
        opt_state=_cleared(learner.opt_state, change),
        similarity=_restarted(learner.similarity, change),
        similarity_opt_state=moments,
        outcomes=known,
        recent=recent,
    )


def _copied(params: Any, change: Replacement) -> Any:
    """Outputs of replaced actions become those of their first primitive."""
    return _in_head(params, change, lambda outputs: outputs[change.first])


def _cleared(moments: Any, change: Replacement) -> Any:
    """Outputs of replaced actions become 0, in anything that holds records shaped like the parameters."""
    return _in_head(moments, change, jnp.zeros_like)


def _in_head(record: Any, change: Replacement, new: Callable[[Array], Array]) -> Any:
    """Replaced actions [A, ...] of every array of the head become `new` of all of them."""

    def along(axis: int, value: Array) -> Array:
        outputs = jnp.moveaxis(value, axis, 0)
        actions = outputs.reshape(change.replaced.size, -1)  # an action has one output per atom
        changed = jnp.where(change.replaced[:, None], new(actions), actions)
        return jnp.moveaxis(changed.reshape(outputs.shape), 0, axis)

    def network(parameters: dict[str, Any]) -> dict[str, Any]:
        layer = parameters[HEAD]
        # Weights are [outputs, inputs].
        changed = {name: along(-2 if "kernel" in name else -1, value) for name, value in layer.items()}
        return {**parameters, HEAD: changed}

    def is_network(part: Any) -> bool:
        return isinstance(part, dict) and HEAD in part

    return jax.tree.map(lambda part: network(part) if is_network(part) else part, record, is_leaf=is_network)


def _restarted(similarity: Array, change: Replacement) -> Array:
    """[..., A, A] with the start in rows and columns of replaced actions; of factors [..., A, R], in their rows."""
    touched = change.replaced[:, None]
    if not sim.is_factored(change.similarity):
        touched = touched | change.replaced[None, :]
    return jnp.where(touched, change.similarity, similarity)
