"""Names of the Atari games, and their scores on a scale where a random player has 0 and a human 100.

The reference scores are those of Wang et al. (2016), "Dueling Network Architectures for Deep Reinforcement Learning",
for 57 games, which Hessel et al. (2018), "Rainbow", and most later work use. `no-ops`: episodes that start with up to
30 no-ops, as here. `human-starts`: episodes that start from a state of human play, as in the paper's Rainbow column.
(Mnih et al. 2015 had fewer games and other humans.)
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from masp.errors import UserError

DATA_FILE = Path(__file__).with_name("atari_scores.json")

Starts = Literal["no-ops", "human-starts"]

NOT_IN_PAPER = ("Jamesbond", "Riverraid", "UpNDown")
"""Games of the usual 57 that are not in the paper's table."""


class Reference(NamedTuple):
    """Undiscounted scores of one game."""

    random: float
    human: float


@cache
def references(starts: Starts = "no-ops") -> dict[str, Reference]:
    """The reference scores by game."""
    data = json.loads(DATA_FILE.read_text())
    return {game: Reference(*scores[starts]) for game, scores in data.items()}


@cache
def known_games() -> tuple[str, ...]:
    """The 57 games with reference scores."""
    return tuple(references())


def game_of(env_id: str) -> str | None:
    """The game `Breakout` of the id `Breakout` or `ALE/Breakout-v5`; None: not an Atari game.

    Games without reference scores have the long form only.
    """
    long_form = re.fullmatch(r"ALE/(\w+)-v5", env_id)
    if long_form:
        return long_form[1]
    return env_id if env_id in known_games() else None


@cache
def paper_games() -> tuple[str, ...]:
    """The 54 games of the paper's table."""
    return tuple(game for game in known_games() if game not in NOT_IN_PAPER)


def human_normalised(game: str, score: float, starts: Starts = "no-ops") -> float:
    """`score` in percent of the way from the random to the human player: 100 (score - random) / (human - random).

    On VideoPinball the two are so close (with human starts even in reverse order) that the figure means little.
    """
    scores = references(starts)
    if game not in scores:
        raise UserError(f"there is no reference score for {game!r}; there are {', '.join(scores)}")
    random, human = scores[game]
    return 100.0 * (score - random) / (human - random)
