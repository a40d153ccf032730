"""Macros from recorded play: readers, counting, choosing, and what the choice covers."""

from masp.macros.mining.mine import Mined as Mined
from masp.macros.mining.mine import mine as mine
from masp.macros.mining.mine import mine_macros as mine_macros
from masp.macros.mining.settings import MiningSettings as MiningSettings
