"""Macros in one Gymnasium environment, for any library that plays Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.errors import UserError
from masp.json_text import shortened
from masp.macros.actions import ActionSet


def env_name(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> str:
    """The id of the environment, or its class name if it was not made by id."""
    return type(env.unwrapped).__name__ if env.spec is None else env.spec.id


def num_actions(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> int:
    """The number of primitive actions; raises `UserError` unless the actions are Discrete and numbered from 0."""
    space = env.action_space if isinstance(env, gymnasium.Env) else env.single_action_space
    if not isinstance(space, spaces.Discrete):
        kind = type(space).__name__
        problem = f"continuous actions ({kind})" if isinstance(space, spaces.Box) else f"{kind} actions"
        raise UserError(f"{env_name(env)} has {problem}; masp needs Discrete")
    if space.start != 0:
        raise UserError(f"{env_name(env)} numbers its actions from {space.start}; masp needs Discrete with start=0")
    return int(space.n)


def require_fit(actions: ActionSet, env: gymnasium.Env | gymnasium.vector.VectorEnv) -> None:
    """Raise `UserError` unless `actions` is an action set made for the primitives of the environment."""
    if not isinstance(actions, ActionSet):
        raise UserError(
            f"actions must be a masp.ActionSet, got {shortened(actions)}; make one with "
            "masp.ActionSet(num_primitives, macros) or masp.ActionSet.load(file)"
        )
    actions.require_primitives(num_actions(env), env_name(env))


class MacroActionEnv(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Each step plays one action of `actions` to its end, or to the end of the episode.

    The reward is the sum of gamma^i r_i over the primitive steps that were played. A learner must discount the next
    value by `info["discount"]` instead of its own gamma: gamma^steps, or 0 if the episode terminated. A truncated
    episode keeps its discount, because it bootstraps. `info` is that of the last primitive step, with these additions:

      discount: factor of the value of the next observation.
      steps: number of primitive steps that were played.
      raw_reward: undiscounted sum of the rewards.

    Where the environment gives `info["action_mask"]` [primitives], a macro ends before a primitive that it forbids, and
    the mask becomes one of all actions [A], macros included: an action is allowed where its first primitive is. To
    choose only allowed actions is up to the learner; the first primitive of any other is played as the environment sees
    fit.

    Whatever counts steps or sums rewards belongs inside: `MacroActionEnv(Monitor(env), actions)` and
    `MacroActionEnv(RecordEpisodeStatistics(env), actions)` report primitive steps and the environment's own return;
    outside, they report decisions and rewards that are already discounted.

    Examples:
      >>> import gymnasium, masp
      >>> env = MacroActionEnv(gymnasium.make("CartPole-v1"), masp.ActionSet(2, [(1, 1, 1)]), gamma=0.9)
      >>> observation, info = env.reset(seed=0)
      >>> observation, reward, terminated, truncated, info = env.step(2)  # plays 1, 1, 1
      >>> info["steps"], round(info["discount"], 3), round(float(reward), 2)  # 3, 0.9^3, 1 + 0.9 + 0.81
      (3, 0.729, 2.71)
    """

    def __init__(self, env: gymnasium.Env, actions: ActionSet, gamma: float = 0.99):
        if not 0.0 <= gamma <= 1.0:
            raise UserError(f"gamma must be between 0 and 1, got {gamma}")
        require_fit(actions, env)
        # Gymnasium rebuilds the wrapper from the environment's spec with these arguments.
        gymnasium.utils.RecordConstructorArgs.__init__(self, actions=actions, gamma=gamma)
        gymnasium.Wrapper.__init__(self, env)
        self.actions = actions
        self.gamma = float(gamma)
        self.action_space = spaces.Discrete(len(actions))
        self._sequences = actions.sequences()
        self._first_primitives = [sequence[0] for sequence in self._sequences]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """First observation and info of a new episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._with_all_actions(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, discounted reward, terminated, truncated and info after one decision."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in 0..{len(self.actions) - 1}")
        steps, discount = 0, 1.0
        reward = raw_reward = 0.0
        info: dict[str, Any] = {}
        for primitive in self._sequences[int(action)]:
            if steps and "action_mask" in info and not info["action_mask"][primitive]:
                break
            observation, step_reward, terminated, truncated, info = self.env.step(primitive)
            reward += discount * float(step_reward)
            raw_reward += float(step_reward)
            discount *= self.gamma
            steps += 1
            if terminated or truncated:
                break
        additions = {"discount": 0.0 if terminated else discount, "steps": steps, "raw_reward": raw_reward}
        return observation, reward, terminated, truncated, {**self._with_all_actions(info), **additions}

    def _with_all_actions(self, info: dict[str, Any]) -> dict[str, Any]:
        """`info` with an action mask [A] in place of one [primitives], of the same type."""
        if "action_mask" not in info:
            return info
        return {**info, "action_mask": np.asarray(info["action_mask"])[self._first_primitives]}
