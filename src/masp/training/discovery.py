"""Which macros to replace during training, and by what: mining from the agent's own good episodes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent.agent import Agent, AgentState, Discovery
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.macros.episodes import Episodes
from masp.macros.mining.mine import mine
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.sources import Source
from masp.macros.recording import RecordingHeader
from masp.similarity import matrix as sim
from masp.training.adaptive import Replacement, replace_macros
from masp.training.history import MacroHistory
from masp.training.journal import finished_episodes


class Seen(NamedTuple):
    """What a round reads of the state of one seed."""

    discovery: Discovery
    usage: Any  # [A]
    steps: Any  # []
    actions: Any  # [T, N] first decisions of the windows in the replay
    priorities: Any  # [at least T * N] 0: cannot be drawn


class Exchange(NamedTuple):
    """One place and the macro that it gets."""

    action: int
    macro: Macro


def require_macros(agent: Agent) -> None:
    """Raise unless the agent has macros to replace, and so few primitives that mining can pack its sequences."""
    if not agent.actions.macros:
        raise UserError(f"mine_every_frames replaces macros, but {agent.config.env} is played without any here")
    if agent.actions.num_primitives > 255:
        raise UserError(
            f"mine_every_frames: {agent.config.env} has {agent.actions.num_primitives} primitives; at most 255 work"
        )


def good_episodes(episodes: Episodes, share: float) -> Episodes:
    """Those worth learning from: of the successful ones the best `share`, rounded up; of equals the later.

    Where success has no meaning, of all; but none if all scored the same, for then nothing tells good from bad.
    """
    able = episodes.success == 1
    if not (episodes.success >= 0).any():
        able = np.full(episodes.count, episodes.count > 0 and episodes.scores.min() < episodes.scores.max())
    candidates = np.flatnonzero(able)
    order = np.lexsort((-candidates, -episodes.scores[candidates]))
    good = np.zeros(episodes.count, bool)
    good[candidates[order[: math.ceil(share * len(candidates))]]] = True
    return episodes.take(good)


def mined_macros(actions: ActionSet, good: Episodes) -> list[Macro]:
    """As many macros as there are, as mining would choose them from these episodes."""
    if not good.count:
        return []
    header = RecordingHeader(actions.env_id, actions.num_primitives, actions.primitive_names)
    settings = MiningSettings(k=len(actions.macros))
    return list(mine([Source("the agent's play", header, good, 0)], settings).actions.macros)


def exchanges(actions: ActionSet, mined: list[Macro], used: np.ndarray, share: float) -> list[Exchange]:
    """Mined macros that are new, in their order, for the places of the least used macros that were not mined again.

    Args:
      used: [A] decisions since the last round; ties: earlier places first.
      share: of all macros, the most that leave.
    """
    there = {macro.actions for macro in actions.macros}
    again = {macro.actions for macro in mined}
    new = [macro for macro in mined if macro.actions not in there]
    first = actions.num_primitives
    places = [first + i for i, macro in enumerate(actions.macros) if macro.actions not in again]
    places.sort(key=lambda place: (used[place], place))
    most = max(1, int(share * len(actions.macros)))
    return [Exchange(place, macro) for place, macro in zip(places[:most], new, strict=False)]


def randomised(found: list[Exchange], num_primitives: int, rng: np.random.Generator) -> list[Exchange]:
    """The same places and lengths with uniformly random primitives: the control."""
    return [
        Exchange(action, Macro(tuple(rng.integers(0, num_primitives, len(macro.actions)).tolist())))
        for action, macro in found
    ]


def with_exchanges(actions: ActionSet, found: list[Exchange]) -> ActionSet:
    """`actions` after the exchanges."""
    macros = list(actions.macros)
    for action, macro in found:
        macros[action - actions.num_primitives] = macro
    return ActionSet(actions.num_primitives, macros, actions.primitive_names, actions.env_id)


class Discoverer:
    """Rounds of replacing macros, for all seeds of a run; each seed has macros of its own."""

    def __init__(self, agent: Agent, seeds: list[int], histories: list[MacroHistory]):
        self._agent, self._seeds, self._histories = agent, seeds, histories

    @property
    def actions(self) -> list[ActionSet]:
        """The newest actions of every seed."""
        return [history.actions for history in self._histories]

    def round(self, loop: Any, state: Any) -> Any:
        """The state of a loop with some macros replaced; what was done goes to the histories."""
        agent: AgentState = state.agent
        tick = int(agent.tick)
        seen = Seen(agent.discovery, agent.actor.usage, agent.actor.steps, agent.memory.action, agent.memory.tree[0])
        changes = [self._seed_round(i, seen, tick) for i, seen in enumerate(loop.per_seed(seen))]
        return loop.changed(replace_macros, state, jax.tree.map(lambda *leaves: jnp.stack(leaves), *changes))

    def _seed_round(self, i: int, seen: Seen, tick: int) -> Replacement:
        config, actions = self._agent.config, self.actions[i]
        episodes = finished_episodes(seen.discovery.journal, tick, self._agent.info.success_above)
        good = good_episodes(episodes, config.mine_top_share)
        mined = mined_macros(actions, good)
        used = seen.usage - seen.discovery.usage_at_round
        found = exchanges(actions, mined, used, config.mine_replace_share)
        if config.mine_from == "random":
            found = randomised(found, actions.num_primitives, np.random.default_rng([self._seeds[i], tick]))
        if not _windows_are_left(seen, found):
            found = []
        about = {"episodes": episodes.count, "good_episodes": good.count, "replaced": _lines(actions, found, seen)}
        frames = int(seen.steps) * self._agent.info.frames_per_step
        self._histories[i].add(frames, with_exchanges(actions, found), about)
        return self._replacement(i, found, tick)

    def _replacement(self, i: int, found: list[Exchange], tick: int) -> Replacement:
        actions = self.actions[i]
        replaced = np.zeros(len(actions), bool)
        replaced[[action for action, _ in found]] = True
        s = self._agent.config.similarity
        key = jax.random.fold_in(jax.random.PRNGKey(self._seeds[i]), tick)
        # Factors of another matrix have other axes than those learned so far: no overlap can be read into them.
        kind = "constant" if s.similarity_rank and s.similarity_start == "overlap" else s.similarity_start
        start = sim.start(kind, actions.sequences(), s.start_value(len(actions)), key, s.similarity_rank)
        first = [sequence[0] for sequence in actions.sequences()]
        return Replacement(jnp.asarray(replaced), self._agent.tables(actions), jnp.asarray(first, jnp.int32), start)


def _windows_are_left(seen: Seen, found: list[Exchange]) -> bool:
    """Whether the replay still holds a window that starts with an action that stays."""
    known = seen.actions.reshape(-1)[seen.priorities[: seen.actions.size] > 0]
    return bool((~np.isin(known, [action for action, _ in found])).any())


def _lines(actions: ActionSet, found: list[Exchange], seen: Seen) -> list[dict[str, Any]]:
    """What left, how often it was used, and what came."""
    lived = seen.usage - seen.discovery.usage_at_birth
    return [
        {
            "action": action,
            "old": list(actions.sequence(action)),
            "decisions": int(lived[action]),
            "new": list(macro.actions),
        }
        for action, macro in found
    ]
