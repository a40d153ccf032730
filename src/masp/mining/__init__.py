"""Macros from recorded play: readers, counting, choosing, and what the choice covers."""

from masp.mining.mine import Mined as Mined
from masp.mining.mine import mine as mine
from masp.mining.mine import mine_macros as mine_macros
from masp.mining.settings import MiningSettings as MiningSettings
