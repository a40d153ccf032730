"""Reinforcement learning with macro-actions whose similarity is meta-learned (MASP)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from masp.errors import UserError as UserError

if TYPE_CHECKING:
    from masp.config import TrainConfig as TrainConfig
    from masp.macros.actions import ActionSet as ActionSet
    from masp.macros.actions import Macro as Macro
    from masp.macros.mining import mine_macros as mine_macros
    from masp.macros.vector import MacroVectorEnv as MacroVectorEnv
    from masp.macros.wrapper import MacroActionEnv as MacroActionEnv
    from masp.report.video import Videos as Videos
    from masp.similarity.bundle import Bundle as Bundle
    from masp.similarity.bundle import load_bundle as load_bundle
    from masp.similarity.bundle import save_bundle as save_bundle
    from masp.similarity.matrix import similarity_penalty as similarity_penalty
    from masp.similarity.meta_similarity import MetaSimilarity as MetaSimilarity
    from masp.training.api import make_config as make_config
    from masp.training.api import sweep as sweep
    from masp.training.api import train as train
    from masp.training.callbacks import Callback as Callback
    from masp.training.callbacks import EarlyStopping as EarlyStopping
    from masp.training.run import Run as Run
    from masp.training.run import load_run as load_run
    from masp.training.tracking import MLflow as MLflow
    from masp.training.tracking import TensorBoard as TensorBoard
    from masp.training.tracking import WandB as WandB
    from masp.training.trained import TrainedAgent as TrainedAgent
    from masp.training.trained import load_agent as load_agent

__version__ = "0.2.0"

_HOME = {
    "ActionSet": "masp.macros.actions",
    "Macro": "masp.macros.actions",
    "TrainConfig": "masp.config",
    "MacroActionEnv": "masp.macros.wrapper",
    "MacroVectorEnv": "masp.macros.vector",
    "mine_macros": "masp.macros.mining",
    "Bundle": "masp.similarity.bundle",
    "load_bundle": "masp.similarity.bundle",
    "save_bundle": "masp.similarity.bundle",
    "MetaSimilarity": "masp.similarity.meta_similarity",
    "similarity_penalty": "masp.similarity.matrix",
    "load_run": "masp.training.run",
    "make_config": "masp.training.api",
    "sweep": "masp.training.api",
    "train": "masp.training.api",
    "Videos": "masp.report.video",
    "Callback": "masp.training.callbacks",
    "EarlyStopping": "masp.training.callbacks",
    "MLflow": "masp.training.tracking",
    "TensorBoard": "masp.training.tracking",
    "WandB": "masp.training.tracking",
    "Run": "masp.training.run",
    "TrainedAgent": "masp.training.trained",
    "load_agent": "masp.training.trained",
}
_MODULES = ("sb3", "torch")
"""Modules with names of their own, which import libraries that masp does not need."""

__all__ = ["ActionSet", "Bundle", "Callback", "EarlyStopping", "MLflow", "Macro", "MacroActionEnv", "MacroVectorEnv"]
__all__ += [
    "MetaSimilarity",
    "Run",
    "TensorBoard",
    "TrainConfig",
    "TrainedAgent",
    "UserError",
    "Videos",
    "WandB",
    "load_agent",
    "load_bundle",
    "load_run",
    "make_config",
    "mine_macros",
    "save_bundle",
    "similarity_penalty",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used, so that `masp --help` does not wait for JAX."""
    if name in _MODULES:
        return importlib.import_module(f"masp.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'masp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
