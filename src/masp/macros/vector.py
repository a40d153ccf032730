"""Macros in a vector of Gymnasium environments that step together, for vectorised code of any library."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.wrapper import env_name, require_fit

HANDLED = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


class MacroVectorEnv(gymnasium.vector.VectorWrapper):
    """N environments that play macros, each at its own position in its own macro.

    A step plays one primitive in every environment. Where a decision is due, it begins the action in `actions` [N];
    where a macro is under way, that entry is ignored and the macro goes on. The reward of a decision, the sum of
    gamma^i r_i over its primitive steps, is returned in the step in which it ends; until then it is 0. A macro ends
    early with its episode. `infos` has these arrays, and under `_name` which of their entries have a meaning:

      decided: [N] bool, where a decision ended in this step; the next five describe it.
      action: [N] the decision.
      observation: [N, ...] what the environment returned before the decision.
      discount: [N] factor of the value of the next observation: gamma^steps, or 0 if the episode terminated.
      steps: [N] number of primitive steps that were played.
      raw_reward: [N] undiscounted sum of the rewards.
      decision_due: [N] bool, where the next step begins a decision; also in the `infos` of `reset`.

    A transition of a replay buffer is, where `decided`: (`observation`, `action`, reward, returned observation,
    `discount`). With next-step autoreset, `decided` is false in the step that resets an environment, which so never
    gives a transition. With same-step autoreset, the next observation of an episode's last decision is in
    `infos["final_obs"]`, as always. Environments that are not reset automatically are refused.

    Examples:
      >>> import gymnasium, masp
      >>> envs = MacroVectorEnv(gymnasium.make_vec("CartPole-v1", 2), masp.ActionSet(2, [(1, 1)]), gamma=0.9)
      >>> observations, infos = envs.reset(seed=0)
      >>> for _ in range(2):
      ...     observations, rewards, terminated, truncated, infos = envs.step([0, 2])  # a primitive, and the macro
      >>> rewards.round(2).tolist(), infos["steps"].tolist()
      ([1.0, 1.9], [1, 2])
    """

    def __init__(self, env: VectorEnv, actions: ActionSet, gamma: float = 0.99):
        if not isinstance(env, VectorEnv):
            raise UserError(f"MacroVectorEnv needs a gymnasium.vector.VectorEnv, got {type(env).__name__}")
        if not 0.0 <= gamma <= 1.0:
            raise UserError(f"gamma must be between 0 and 1, got {gamma}")
        require_fit(actions, env)
        self._resets_next_step = _autoreset_mode(env) == AutoresetMode.NEXT_STEP
        super().__init__(env)
        self.actions = actions
        self.gamma = float(gamma)
        self.single_action_space = spaces.Discrete(len(actions))
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._table, self._lengths = actions.table, actions.lengths
        self._action = np.zeros(self.num_envs, np.int64)  # the decision under way
        self._position = np.zeros(self.num_envs, np.int64)  # its steps so far; 0: a decision is due
        self._discount = np.ones(self.num_envs)  # gamma^position
        self._reward = np.zeros(self.num_envs)
        self._raw_reward = np.zeros(self.num_envs)
        self._resetting = np.zeros(self.num_envs, bool)  # the next step only resets
        self._before: Any = None  # observations before the decisions under way

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """First observations and infos; with `options["reset_mask"]` [N] only of those environments."""
        mask = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            mask = np.array(options["reset_mask"], bool)  # Gymnasium takes it out of the options
        observation, infos = self.env.reset(seed=seed, options=options)
        self._resetting &= ~mask
        self._begin_decisions(mask, observation)
        return observation, {**infos, **self._due()}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observations, rewards, terminations, truncations and infos after one primitive step."""
        self._action = np.where(self._position == 0, self._valid(actions), self._action)
        observation, reward, terminated, truncated, infos = self.env.step(self._table[self._action, self._position])
        played = ~self._resetting
        self._reward += played * self._discount * reward
        self._raw_reward += played * reward
        self._discount *= np.where(played, self.gamma, 1.0)
        self._position += played
        over = played & (terminated | truncated)
        decided = over | (played & (self._position >= self._lengths[self._action]))
        decision_reward = np.where(decided, self._reward, 0.0)
        decisions = {
            "action": self._action,
            "observation": self._before,
            "discount": np.where(terminated, 0.0, self._discount),
            "steps": self._position.copy(),
            "raw_reward": self._raw_reward.copy(),
        }
        self._resetting = over & self._resets_next_step
        self._begin_decisions(decided | ~played, observation)
        masks = {f"_{name}": decided for name in decisions}
        infos = {**infos, **decisions, **masks, **self._everywhere("decided", decided), **self._due()}
        return observation, decision_reward, terminated, truncated, infos

    def _begin_decisions(self, mask: np.ndarray, observation: Any) -> None:
        """Where `mask` [N], the next decision begins at `observation` [N, ...]."""
        self._position = np.where(mask, 0, self._position)
        self._discount = np.where(mask, 1.0, self._discount)
        self._reward = np.where(mask, 0.0, self._reward)
        self._raw_reward = np.where(mask, 0.0, self._raw_reward)
        before = observation if self._before is None else self._before
        self._before = _where(self.single_observation_space, mask, observation, before)

    def _due(self) -> dict[str, np.ndarray]:
        return self._everywhere("decision_due", (self._position == 0) & ~self._resetting)

    def _everywhere(self, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
        """An entry of `infos` that has a meaning in every environment."""
        return {name: values, f"_{name}": np.ones(self.num_envs, bool)}

    def _valid(self, actions: Any) -> np.ndarray:
        """`actions` as an array, or an error: an index out of range would play a wrong primitive."""
        array = np.asarray(actions)
        if array.shape != (self.num_envs,):
            raise ValueError(f"actions have the shape {array.shape}, expected ({self.num_envs},)")
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= len(self.actions):
            raise ValueError(f"actions {array} are not all in 0..{len(self.actions) - 1}")
        return array


def _autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """How the environments are reset at the end of an episode, or a `UserError` if macros cannot follow it."""
    mode = env.metadata.get("autoreset_mode")
    if mode in [handled.value for handled in HANDLED]:
        mode = AutoresetMode(mode)
    if mode not in HANDLED:
        stated = "does not state its autoreset mode" if mode is None else f"has the autoreset mode {mode}"
        raise UserError(
            f"{env_name(env)} {stated}; MacroVectorEnv needs metadata['autoreset_mode'] to be AutoresetMode.NEXT_STEP "
            "or SAME_STEP"
        )
    return mode


def _where(space: spaces.Space, mask: np.ndarray, new: Any, old: Any) -> Any:
    """A copy of the batched observations `old` of single observations in `space`, replaced by `new` where `mask`."""
    if isinstance(space, spaces.Dict):
        return {name: _where(part, mask, new[name], old[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_where(part, mask, new[i], old[i]) for i, part in enumerate(space))
    if isinstance(new, tuple):  # texts and graphs are batched as one object per environment
        return tuple(new[i] if chosen else old[i] for i, chosen in enumerate(mask))
    return np.where(mask.reshape(-1, *[1] * (np.ndim(new) - 1)), new, old)
