"""Reinforcement learning with macro-actions whose similarity is meta-learned (MASP)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from masp.errors import UserError as UserError

if TYPE_CHECKING:
    from masp.actions import ActionSet as ActionSet
    from masp.actions import Macro as Macro
    from masp.config import TrainConfig as TrainConfig
    from masp.macro_env import MacroActionEnv as MacroActionEnv
    from masp.mining import mine_macros as mine_macros
    from masp.similarity import similarity_penalty as similarity_penalty
    from masp.training.run import load_run as load_run
    from masp.training.train import train as train

__version__ = "0.1.0"

_HOME = {
    "ActionSet": "masp.actions",
    "Macro": "masp.actions",
    "TrainConfig": "masp.config",
    "MacroActionEnv": "masp.macro_env",
    "mine_macros": "masp.mining",
    "similarity_penalty": "masp.similarity",
    "load_run": "masp.training.run",
    "train": "masp.training.train",
}
__all__ = ["ActionSet", "Macro", "MacroActionEnv", "TrainConfig", "UserError", "load_run", "mine_macros"]
__all__ += ["similarity_penalty", "train"]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used, so that `masp --help` does not wait for JAX."""
    if name not in _HOME:
        raise AttributeError(f"module 'masp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
