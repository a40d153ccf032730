"""Stable-Baselines3's DQN with the similarity penalty; the similarity is learned by meta-gradient during training."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch import Tensor
from torch.nn import functional

from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.wrapper import MacroActionEnv
from masp.sb3.replay import MacroDictReplayBuffer, MacroReplayBuffer
from masp.similarity.bundle import Bundle
from masp.torch import MetaSimilarity

OUTSIDE = "wrap each environment in masp.MacroActionEnv, outside of Monitor: MacroActionEnv(Monitor(env), actions)"


class _Similarity(MetaSimilarity):
    """A similarity that Stable-Baselines3 saves and loads with the networks."""

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        del strict  # what Stable-Baselines3 gives to every part of a model
        super().load_state_dict(state)


class MaspDQN(DQN):
    """DQN for environments in `masp.MacroActionEnv`: discounts of macros, penalty and learned similarity.

    It takes all arguments of `DQN`, is saved and loaded like it, and logs `train/penalty` and `train/similarity`, the
    mean over pairs of different actions. The discounts of `replay_buffer_class`, by default `MacroReplayBuffer`, serve
    n-step returns too.

    Args:
      penalty_weight: weight of the penalty in the loss; 0: DQN with the right discounts.
      meta_learning_rate: size of a meta-step of the similarity; 0: it stays as it starts.
      meta_period_updates: gradient updates per meta-step.
      similarity_start: `constant`, `overlap` of the macros, a `Bundle` of the same macros, or a similarity [A, A].
    """

    policy_aliases: ClassVar[dict[str, Any]] = DQN.policy_aliases
    meta: _Similarity
    n_steps: int
    replay_buffer_class: Any
    replay_buffer_kwargs: dict[str, Any]
    _remembered: bool

    def __init__(
        self,
        policy: Any,
        env: GymEnv | str,
        *args: Any,
        penalty_weight: float = 0.1,
        meta_learning_rate: float = 0.001,
        meta_period_updates: int = 8,
        similarity_start: str | Bundle | np.ndarray = "constant",
        _init_setup_model: bool = True,
        **kwargs: Any,
    ):
        if not isinstance(meta_period_updates, (int, np.integer)) or meta_period_updates < 1:
            raise UserError(
                f"MaspDQN: meta_period_updates must be a whole number of at least 1, got {meta_period_updates}"
            )
        super().__init__(policy, env, *args, _init_setup_model=False, **kwargs)
        self.penalty_weight, self.meta_learning_rate = penalty_weight, meta_learning_rate
        self.meta_period_updates = meta_period_updates
        self._start: Any = similarity_start
        self._macro_file: dict[str, Any] | None = None  # JSON, so that it is saved as text
        if _init_setup_model:
            self._setup_model()

    @property
    def actions(self) -> ActionSet:
        """Primitives and macros, in the order of the network's outputs."""
        return ActionSet.from_json(self._macro_file, "model")

    @property
    def similarity(self) -> np.ndarray:
        """[A, A]"""
        return self.meta.similarity.cpu().numpy()

    def bundle(self) -> Bundle:
        """Actions and similarity, to start another agent from (`similarity_start`)."""
        return self.meta.bundle()

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        super().set_env(env, force_reset)
        self._adopt_macros()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Algorithm 1, with the batch of an update as held-out data of the update before it."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses, penalties = [], []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            if self._remembered:  # lines 14-18
                self.meta.learn(self._td_loss(batch)[0])
                self._remembered = False
            td_loss, q = self._td_loss(batch)
            penalty = self.meta.penalty(q)
            self.policy.optimizer.zero_grad()
            (td_loss + penalty).backward()  # lines 9-11
            self._n_updates += 1
            if self.meta_learning_rate and self.penalty_weight and self._n_updates % self.meta_period_updates == 0:
                self.meta.remember(batch.observations)
                self._remembered = True
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()  # line 12
            losses.append(td_loss.item())
            penalties.append(penalty.item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.logger.record("train/penalty", np.mean(penalties))
        self.logger.record("train/similarity", _mean_of_pairs(self.meta.similarity))

    def _td_loss(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The Huber loss [] of DQN under the discounts of the batch, and the values [B, A] that it is made from."""
        with torch.no_grad():
            next_values = self.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
            target = batch.rewards + (1 - batch.dones) * batch.discounts * next_values  # [B, 1]
        q = self.q_net(batch.observations)
        return functional.smooth_l1_loss(q.gather(1, batch.actions.long()), target), q

    def _setup_model(self) -> None:
        self._adopt_macros()
        self._choose_buffer()
        n_steps, self.n_steps = self.n_steps, 1  # the buffer knows; DQN would warn that a custom one does not
        super()._setup_model()
        self.n_steps = n_steps
        self.meta = _Similarity(
            self.q_net,
            self.policy.optimizer,
            self.actions,
            penalty_weight=self.penalty_weight,
            learning_rate=self.meta_learning_rate,
            max_gradient_norm=self.max_grad_norm,
            start=self._start,
        )
        self._remembered = False
        self._start = "constant"  # loading a model puts its similarity in place; nothing else needs the start again
        self._require_outputs()

    def _adopt_macros(self) -> None:
        """Take the macros from the environments; raises `UserError` if they are not what the model needs."""
        if self.env is None:  # a loaded model that only predicts
            return
        if not all(self.env.env_is_wrapped(MacroActionEnv)):
            raise UserError(f"MaspDQN: the environment has no macros; {OUTSIDE}")
        if isinstance(self.env, DummyVecEnv) and any(_monitor_is_outside(env) for env in self.env.envs):
            raise UserError(
                f"MaspDQN: Monitor is outside of MacroActionEnv, where it counts decisions and discounted rewards; "
                f"{OUTSIDE}"
            )
        gammas = set(self.env.get_attr("gamma"))
        if gammas != {self.gamma}:
            shown = ", ".join(f"{gamma:g}" for gamma in sorted(gammas))
            raise UserError(f"MaspDQN has gamma {self.gamma:g}, but its MacroActionEnv {shown}; give both the same")
        files = [actions.to_json() for actions in self.env.get_attr("actions")]
        if any(file != files[0] for file in files):
            raise UserError("MaspDQN: its environments have different macros")
        if self._macro_file is not None and _sequences(self._macro_file) != _sequences(files[0]):
            raise UserError("MaspDQN: the model was trained with other macros than those of the environment")
        self._macro_file = files[0]

    def _choose_buffer(self) -> None:
        """The replay buffer keeps discounts, also over `n_steps` decisions."""
        needed = MacroDictReplayBuffer if isinstance(self.observation_space, spaces.Dict) else MacroReplayBuffer
        buffer_class: Any = self.replay_buffer_class or needed
        if not isinstance(buffer_class, type):
            kind, use = type(buffer_class).__name__, f"masp.sb3.{needed.__name__}"
            raise UserError(f"MaspDQN: replay_buffer_class must be a class, not a {kind}; use {use}")
        if not issubclass(buffer_class, needed):
            raise UserError(
                f"MaspDQN: {buffer_class.__name__} keeps no discounts of macros; use masp.sb3.{needed.__name__} or a "
                "class derived from it, or leave replay_buffer_class out"
            )
        self.replay_buffer_class = buffer_class
        self.replay_buffer_kwargs = {"n_steps": self.n_steps, **self.replay_buffer_kwargs}

    def _require_outputs(self) -> None:
        """Raise `UserError` now, not in the first update, if the network has not one output per action."""
        observation, _ = self.policy.obs_to_tensor(self.observation_space.sample())
        self.policy.set_training_mode(False)
        with torch.no_grad():
            self.meta.penalty(self.q_net(observation))

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, variables = super()._get_torch_save_params()
        return [*modules, "meta"], variables

    @staticmethod
    def _wrap_env(env: GymEnv, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        """As in `DQN`, but a missing Monitor is put inside of `MacroActionEnv`."""
        if monitor_wrapper and isinstance(env, MacroActionEnv) and not _has_monitor(env):
            env.env = Monitor(env.env)
        return DQN._wrap_env(env, verbose, monitor_wrapper)


def _mean_of_pairs(similarity: Tensor) -> float:
    """Mean similarity of different actions."""
    count = len(similarity)
    return float((similarity.sum() - similarity.trace()) / max(count * (count - 1), 1))


def _sequences(macro_file: dict[str, Any]) -> list[tuple[int, ...]]:
    return ActionSet.from_json(macro_file, "macros").sequences()


def _wrappers(env: gymnasium.Env) -> list[type]:
    """Classes of the wrappers of an environment, the outermost first."""
    kinds = []
    while isinstance(env, gymnasium.Wrapper):
        kinds.append(type(env))
        env = env.env
    return kinds


def _has_monitor(env: gymnasium.Env) -> bool:
    return any(issubclass(kind, Monitor) for kind in _wrappers(env))


def _monitor_is_outside(env: gymnasium.Env) -> bool:
    kinds = _wrappers(env)
    first = next(i for i, kind in enumerate(kinds) if issubclass(kind, MacroActionEnv))
    return any(issubclass(kind, Monitor) for kind in kinds[:first])
