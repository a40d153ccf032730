"""Reader of Minari data sets with discrete actions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masp.errors import UserError
from masp.macros.mining.episodes import UNKNOWN, Episodes
from masp.macros.recording import RecordingHeader

OURS = "masp"
"""Key of the metadata under which 'masp record' puts what Minari has no field for."""


@dataclass(frozen=True)
class MinariData:
    """A whole data set: its actions, and what it says about their environment."""

    header: RecordingHeader
    episodes: Episodes


def is_minari_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a Minari data set (as its own storage lays it out)."""
    return (Path(path) / "data" / "metadata.json").is_file() or (Path(path) / "data" / "main_data.hdf5").is_file()


def read_minari(source: str) -> MinariData:
    """Read the data set at a folder, or the local one of that id; nothing is downloaded."""
    try:
        import minari
    except ImportError:
        raise UserError(f"{source}: reading Minari data sets needs: pip install 'masp-rl[minari]'") from None
    try:
        data = minari.MinariDataset(Path(source) / "data") if is_minari_folder(source) else minari.load_dataset(source)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{source}: cannot be opened as a local Minari data set: {_reason(error)}") from None
    space = data.action_space
    first, number = int(getattr(space, "start", 0)), getattr(space, "n", None)
    if number is None or np.ndim(number) != 0 or first != 0:
        raise UserError(f"{source}: its actions are {space}; macros need discrete actions that count from 0")
    episodes, scores, success = [], [], []
    try:
        for episode in data.iterate_episodes():
            episodes.append(np.asarray(episode.actions).reshape(-1))
            scores.append(float(np.sum(episode.rewards)))
            success.append(_success(episode.infos))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{source}: episode {len(episodes)} cannot be read: {_reason(error)}") from None
    return MinariData(_header(data, int(number)), Episodes.of(episodes, scores, success))


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _header(data: Any, num_primitives: int) -> RecordingHeader:
    ours = data.storage.metadata.get(OURS)
    if isinstance(ours, dict):  # recorded by 'masp record'
        return RecordingHeader(str(ours["env_id"]), num_primitives, tuple(ours["primitive_names"]))
    return RecordingHeader(data.env_spec.id if data.env_spec is not None else "", num_primitives)


def _success(infos: Any) -> int:
    """Whether the infos ever say that the task was solved; `UNKNOWN` if they do not speak of it."""
    for name in ("success", "is_success"):
        if isinstance(infos, dict) and name in infos:
            return int(np.any(infos[name]))
    return UNKNOWN
