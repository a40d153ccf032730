"""Macros, their discounts and the learned similarity for Stable-Baselines3 (extra `sb3`)."""

from __future__ import annotations

from masp.errors import UserError

try:
    import stable_baselines3
except ModuleNotFoundError as error:
    if error.name != "stable_baselines3":
        raise
    raise UserError("masp.sb3 needs Stable-Baselines3: pip install 'masp-rl[sb3]'") from None

from masp.sb3.callbacks import StepBudget
from masp.sb3.dqn import MaspDQN
from masp.sb3.replay import MacroDictReplayBuffer, MacroReplayBuffer

if tuple(int(part) for part in stable_baselines3.__version__.split(".")[:2]) < (2, 7):
    raise UserError(
        f"masp.sb3 needs Stable-Baselines3 2.7 or newer, whose DQN reads the discounts of a replay buffer; found "
        f"{stable_baselines3.__version__}"
    )

__all__ = ["MacroDictReplayBuffer", "MacroReplayBuffer", "MaspDQN", "StepBudget"]
