"""People's play of Atari games from a folder as the Atari Grand Challenge has it: one folder of text files per game."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from masp.errors import UserError
from masp.experiments.trial import Play

STRIDE = 4
"""Frames per action of the agents."""
OTHER_NAMES = {"montezumarevenge": "revenge"}
"""What the collection calls a game, where that differs from its id in lower case."""


def human_play(folder: str) -> Callable[[str], Play | None]:
    """From the id of a game to people's play of it; `folder` empty: there is none."""
    if folder and not Path(folder).is_dir():
        raise UserError(f"--human {folder}: there is no such folder")

    def find(env: str) -> Play | None:
        name = env.lower()
        places = [Path(folder) / found for found in (name, OTHER_NAMES.get(name, name))] if folder else []
        place = next((place for place in places if place.is_dir()), None)
        return None if place is None else Play(files=(str(place),), digest=_digest(place), stride=STRIDE)

    return find


@cache
def _digest(place: Path) -> str:
    """The same for the same play, wherever it lies."""
    total = hashlib.sha256()
    for file in sorted(place.rglob("*.txt")):
        total.update(file.name.encode())
        with open(file, "rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:16]
