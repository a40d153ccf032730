"""A trained agent that acts: `masp.load_agent(path)`, without an environment and without a training loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp import ops
from masp.agent.agent import Agent
from masp.agent.torso import require_torso, torso_text
from masp.config import from_flat, replace
from masp.errors import UserError
from masp.json_text import is_number, shortened
from masp.macros.actions import ActionSet
from masp.similarity.bundle import holds_bundle
from masp.training import array_file
from masp.training.checkpoints import Checkpoints
from masp.training.policy import environment_of, require_version

Which = Literal["last", "best", "checkpoint"]

_CHECKPOINT_PARAMS = ".agent.learner.params"
_CHECKPOINT_SIMILARITY = (".agent.learner.similarity.similarity", ".agent.learner.similarity.mean")


class TrainedAgent:
    """Plays one environment, or N side by side, each at its own position in its own macro.

    `act` takes the newest observation and returns the primitive action to play; a macro is played to its end before the
    next decision. Call `reset` when an episode ends. Decisions are greedy, but for the run's `eval_epsilon`. An example
    is examples/acting_in_a_loop.py.

    An action mask says which primitives are allowed, as `info["action_mask"]` of the environment does. A macro ends
    before a primitive that it forbids.
    """

    def __init__(self, agent: Agent, params: Any, similarity: np.ndarray, epsilon: float | None, seed: int):
        self._agent, self._params, self._similarity = agent, params, jnp.asarray(similarity)
        self._epsilon = agent.config.eval_epsilon if epsilon is None else epsilon
        self._rng = np.random.default_rng(seed)
        self._table, self._lengths = agent.actions.table, agent.actions.lengths
        self._choosable = np.array(agent.choosable)
        self._frames: np.ndarray
        self._position: np.ndarray
        self._action: np.ndarray
        self._begin(0)

    def __repr__(self) -> str:
        env, actions = self._agent.info.env_id, self._agent.actions
        return f"TrainedAgent({env}, {actions.num_primitives} primitives, {len(actions.macros)} macros)"

    @property
    def actions(self) -> ActionSet:
        """The primitives and macros that the agent decides among."""
        return self._agent.actions

    def reset(self, ended: np.ndarray | None = None) -> None:
        """Begin new episodes: everywhere, or where `ended` [N] is true."""
        if ended is None:
            self._begin(0)
        else:
            mask = np.asarray(ended, bool)
            if mask.shape != (self._num_envs,):
                raise UserError(
                    f"expected ended of shape ({self._num_envs},), as the last observations, got {mask.shape}"
                )
            self._frames[mask], self._position[mask] = 0, 0

    def act(self, observation: Any, action_mask: Any = None) -> int:
        """The primitive action to play after `observation`, of one environment; `action_mask` [primitives]."""
        masks = None if action_mask is None else _as_array(action_mask, "an action mask")[None]
        return int(self.act_batch(_as_array(observation)[None], masks)[0])

    def act_batch(self, observations: Any, action_masks: Any = None) -> np.ndarray:
        """[N] the primitive actions to play after `observations` [N, ...]; `action_masks` [N, primitives]."""
        observations = self._checked(observations)
        masks = None if action_masks is None else self._checked_masks(action_masks, len(observations))
        if self._num_envs != len(observations):
            self._begin(len(observations))
        self._frames = np.concatenate([self._frames[:, 1:], observations[:, None]], axis=1)
        if masks is not None:  # a macro that cannot go on ends
            going_on = np.take_along_axis(masks, self._table[self._action, self._position][:, None], axis=1)[:, 0]
            self._position = np.where(going_on, self._position, 0)
        due = self._position == 0
        if due.any():
            self._action = np.where(due, self._decisions(masks), self._action)
        primitives = self._table[self._action, self._position]
        self._position = (self._position + 1) % self._lengths[self._action]
        return primitives

    def values(self, observation: Any) -> np.ndarray:
        """[A] values of all actions, macros included, for an observation that begins an episode."""
        observations = self._checked(_as_array(observation)[None])
        frames = np.zeros((1, self._agent.config.agent.stack, *observations.shape[1:]), observations.dtype)
        frames[:, -1] = observations
        return np.asarray(self._values(self._params, self._similarity, frames))[0]

    def _begin(self, num_envs: int) -> None:
        info, stack = self._agent.info, self._agent.config.agent.stack
        self._num_envs = num_envs
        self._frames = np.zeros((num_envs, stack, *info.observation_shape), info.observation_dtype)
        self._position = np.zeros(num_envs, np.int64)
        self._action = np.zeros(num_envs, np.int64)

    def _checked(self, observations: Any) -> np.ndarray:
        """[N, ...] in the type of the network's input, or a `UserError`."""
        info, array = self._agent.info, _as_array(observations)
        if array.ndim == 0 or array.shape[1:] != info.observation_shape:
            raise UserError(f"expected observations of shape {info.observation_shape}, got {array.shape[1:]}")
        if not np.can_cast(array.dtype, info.observation_dtype, "same_kind"):
            raise UserError(f"expected observations of type {info.observation_dtype}, got {array.dtype}")
        with np.errstate(over="ignore"):  # infinite afterwards
            array = array.astype(info.observation_dtype)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            number, *place = np.argwhere(~np.isfinite(array))[0].tolist()
            raise UserError(
                f"expected observations of finite numbers, got {array[(number, *place)]} at {place} of observation "
                f"{number}"
            )
        return array

    def _checked_masks(self, action_masks: Any, num_envs: int) -> np.ndarray:
        """[N, primitives] bool, or a `UserError`."""
        masks, expected = _as_array(action_masks, "action masks"), (num_envs, self.actions.num_primitives)
        if masks.shape != expected or masks.dtype.kind not in "biu":
            raise UserError(
                f"expected action masks of truth values of shape {expected}, got {masks.dtype}{masks.shape}"
            )
        masks = masks.astype(bool)
        if not masks.any(axis=1).all():
            raise UserError(f"the action mask of environment {int(masks.any(axis=1).argmin())} allows no action")
        return masks

    def _decisions(self, masks: np.ndarray | None) -> np.ndarray:
        """[N] epsilon-greedy decisions."""
        values = np.asarray(self._values(self._params, self._similarity, self._frames))
        allowed = np.ones_like(values, bool) if masks is None else masks[:, self._table[:, 0]]
        greedy = np.where(self._choosable & allowed, values, -np.inf).argmax(axis=1)
        if self._epsilon == 0:
            return greedy
        if masks is None:
            random = self._rng.integers(0, values.shape[1], self._num_envs)
        else:
            rank = self._rng.integers(0, allowed.sum(axis=1))
            random = (np.cumsum(allowed, axis=1) > rank[:, None]).argmax(axis=1)
        return np.where(self._rng.random(self._num_envs) < self._epsilon, random, greedy)

    @partial(jax.jit, static_argnums=0)
    def _values(self, params: Any, similarity: Array, frames: Array) -> Array:
        return self._agent.learner.values(params, ops.frames_to_channels(frames), similarity, None)


def _as_array(value: Any, what: str = "observations") -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        raise UserError(f"expected {what} as an array, got a list with parts of different lengths") from None


def load_agent(
    path: str | Path, which: Which = "last", epsilon: float | None = None, seed: int = 0, torso: Any = None
) -> TrainedAgent:
    """Open the policy of a run directory, of a policy file or of a checkpoint, to act (examples/acting_in_a_loop.py).

    Args:
      path: a run directory, or a policy or checkpoint file.
      which: of a run directory, the newest policy, that of the best evaluation, or the newest checkpoint.
      epsilon: probability of a random decision; None: that of the run's evaluations.
      seed: of random decisions.
      torso: the Flax module of a run whose own torso cannot be imported.
    """
    if epsilon is not None and not (is_number(epsilon) and 0 <= epsilon <= 1):
        raise UserError(f"epsilon must be a number between 0 and 1, got {shortened(epsilon)}")
    file, arrays, about = read_policy(path, which)
    actions = ActionSet.from_json(about.get("actions"), str(file))
    config = from_flat(about.get("config"), str(file))  # type: ignore[arg-type]
    if torso is not None:
        config = replace(config, torso=torso_text(torso))
    require_torso(config.agent.torso)
    agent = Agent(config, environment_of(about, actions, str(file)), actions)
    policy = array_file.fill(jax.eval_shape(agent.policy_template), arrays, file)
    return TrainedAgent(agent, policy["params"], policy["similarity"], epsilon, seed)


def read_policy(path: str | Path, which: Which = "last") -> tuple[Path, dict[str, np.ndarray], dict[str, Any]]:
    """The file of a policy, its arrays under the names of a policy file, and their description."""
    file = _policy_file(Path(path), which)
    if holds_bundle(file):
        raise UserError(f"{file}: a bundle of macros and their similarity, in which there is no policy")
    arrays, about = array_file.read(file)
    if about.get("format") not in ("masp-policy", "masp-checkpoint") or "environment" not in about:
        raise UserError(f"{file}: not a policy that says what it was trained for; was it written by an older masp?")
    require_version(about, str(file))
    return file, _as_policy(arrays) if about["format"] == "masp-checkpoint" else arrays, about


def _policy_file(path: Path, which: Which) -> Path:
    if which not in get_args(Which):
        raise UserError(f"which must be one of {', '.join(get_args(Which))}, got {shortened(which)}")
    if path.is_file():
        return path
    if not path.exists():
        raise UserError(f"{path}: there is no such run directory or policy file")
    if which == "checkpoint":
        checkpoints = Checkpoints(path / "checkpoints")
        if not checkpoints.ticks():
            raise UserError(f"{path}: there is no checkpoint")
        return checkpoints.file(checkpoints.ticks()[0])
    file = path / {"last": "policy.safetensors", "best": "best.safetensors"}[which]
    if not file.exists():
        raise UserError(f"{path}: there is no policy; a run writes it at its first evaluation")
    return file


def _as_policy(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a policy file, from those of a checkpoint."""
    policy = {
        "['params']" + name.removeprefix(_CHECKPOINT_PARAMS): array
        for name, array in arrays.items()
        if name.startswith(_CHECKPOINT_PARAMS)
    }
    similarity = [arrays[name] for name in _CHECKPOINT_SIMILARITY if name in arrays]
    return {**policy, **({"['similarity']": similarity[0]} if similarity else {})}
