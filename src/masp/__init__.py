"""Reinforcement learning with macro-actions whose similarity is meta-learned (MASP)."""

from masp.actions import ActionSet as ActionSet
from masp.actions import Macro as Macro
from masp.errors import UserError as UserError

__version__ = "0.1.0"
