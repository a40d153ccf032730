"""Atari scores on a scale where 0 is a random player and 100 a human one.

The reference scores are those of Wang et al. (2016), "Dueling Network Architectures for Deep Reinforcement Learning",
for 57 games, which Hessel et al. (2018), "Rainbow", and most later work use. `no-ops`: episodes that begin with up to
30 no-ops, as here. `human-starts`: episodes that begin where a human had played to; the paper's Rainbow column was
measured so. (Mnih et al. 2015 had fewer games and other humans.)
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from masp.errors import UserError

DATA_FILE = Path(__file__).with_name("atari_scores.json")

Starts = Literal["no-ops", "human-starts"]

NOT_IN_PAPER = ("Jamesbond", "Riverraid", "UpNDown")
"""Games of the usual 57 that the paper's table leaves out."""


class Reference(NamedTuple):
    """Scores of one game, undiscounted."""

    random: float
    human: float


@cache
def references(starts: Starts = "no-ops") -> dict[str, Reference]:
    """The reference scores by game."""
    data = json.loads(DATA_FILE.read_text())
    return {game: Reference(*scores[starts]) for game, scores in data.items()}


@cache
def known_games() -> tuple[str, ...]:
    """The 57 games that have reference scores."""
    return tuple(references())


@cache
def paper_games() -> tuple[str, ...]:
    """The 54 games of the paper's table."""
    return tuple(game for game in known_games() if game not in NOT_IN_PAPER)


def human_normalised(game: str, score: float, starts: Starts = "no-ops") -> float:
    """`score` in percent of the way from the random to the human player: 100 (score - random) / (human - random).

    On VideoPinball the two are so close (and with human starts the wrong way round) that the figure means little.
    """
    known = references(starts)
    if game not in known:
        raise UserError(f"there is no reference score for {game!r}; there are {', '.join(known)}")
    random, human = known[game]
    return 100.0 * (score - random) / (human - random)
