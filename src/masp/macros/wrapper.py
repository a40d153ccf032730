"""Macros in one Gymnasium environment, for any library that plays Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium

from masp.environments.gym_vector import env_name, num_actions
from masp.errors import UserError
from masp.macros.actions import ActionSet


class MacroActionEnv(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Every step plays one action of `actions` to its end, or to the end of the episode.

    The reward is the sum of gamma^i r_i over the steps really played. A learner must then discount by
    `info["discount"]` in place of its gamma: gamma^steps, and 0 where the episode terminated; one that was truncated
    keeps its discount, because its value goes on. `info` is that of the last step played, with these added:

      discount: what the value of the next observation is worth.
      steps: how many primitives were played.
      raw_reward: sum of the rewards, not discounted.
    """

    def __init__(self, env: gymnasium.Env, actions: ActionSet, gamma: float = 0.99):
        if not 0.0 <= gamma <= 1.0:
            raise UserError(f"gamma must be between 0 and 1, got {gamma}")
        actions.require_primitives(num_actions(env), env_name(env))
        # Kept so that Gymnasium can build the same wrapper again from the environment's spec.
        gymnasium.utils.RecordConstructorArgs.__init__(self, actions=actions, gamma=gamma)
        gymnasium.Wrapper.__init__(self, env)
        self.actions = actions
        self.gamma = float(gamma)
        self.action_space = gymnasium.spaces.Discrete(len(actions))
        self._sequences = actions.sequences()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, discounted reward, terminated, truncated and info after one decision."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in 0..{len(self.actions) - 1}")
        steps, discount = 0, 1.0
        reward = raw_reward = 0.0
        for primitive in self._sequences[int(action)]:
            observation, step_reward, terminated, truncated, info = self.env.step(primitive)
            reward += discount * float(step_reward)
            raw_reward += float(step_reward)
            discount *= self.gamma
            steps += 1
            if terminated or truncated:
                break
        info = {**info, "discount": 0.0 if terminated else discount, "steps": steps, "raw_reward": raw_reward}
        return observation, reward, terminated, truncated, info
