"""Mining macros from recorded play: readers, counting, selection, report."""

from masp.macros.mining.mine import mine_macros as mine_macros
from masp.macros.mining.settings import MiningSettings as MiningSettings
