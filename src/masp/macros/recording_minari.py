"""Recorded play as a Minari data set, which can be loaded at any time while it grows.

Each episode is a folder of its own; it counts only once the metadata says so, and the metadata is replaced whole. A
writer that dies leaves a data set of all finished episodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.mining.minari_source import OURS


class MinariWriter:
    """Adds episodes to a new data set in `folder`."""

    def __init__(self, folder: str | Path, info: EnvInfo, policy: str):
        try:
            import minari
            from minari.dataset.minari_storage import MinariStorage
        except ImportError:
            raise UserError(f"{folder}: a Minari data set needs: pip install 'masp-rl[minari]'") from None
        self._path = Path(folder) / "data"
        require_new(folder)
        self._path.mkdir(parents=True)
        primitives = info.actions
        # Lossless and small: frames of games are otherwise stored as JPEG.
        options: dict[str, Any] = {"data_format": "parquet", "jpeg_encoding": False}
        action_space = gymnasium.spaces.Discrete(primitives.num_primitives)
        try:
            self._storage = MinariStorage.new(self._path, _observation_space(info), action_space, **options)
        except ImportError:
            raise UserError(f"{folder}: a Minari data set needs: pip install 'masp-rl[minari]'") from None
        self._metadata: dict[str, Any] = json.loads((self._path / "metadata.json").read_text())
        # Minari's own way reads and rewrites the file in place, several times per episode.
        self._storage.update_metadata = self._update_metadata
        self._storage.get_size = self._size
        self._megabytes = 0.0
        self._update_metadata(
            {
                "dataset_id": _dataset_id(Path(folder)),
                "minari_version": minari.__version__,
                "algorithm_name": policy,
                "description": f"play of {info.env_id}, recorded by masp",
                OURS: {"env_id": info.env_id, "primitive_names": list(primitives.primitive_names)},
            }
        )

    def add(
        self,
        observations: Sequence[np.ndarray],
        actions: Sequence[int],
        rewards: Sequence[float],
        terminated: bool,
        success: bool | None,
    ) -> None:
        """Write one finished episode; `observations` holds one more than there are actions."""
        from minari.data_collector import EpisodeBuffer

        steps = len(actions)
        number = self._metadata["total_episodes"]
        last = [False] * (steps - 1)
        infos = None if success is None else {"success": [False] * steps + [success]}
        episode = EpisodeBuffer(
            id=number,
            observations=[np.asarray(o, self._storage.observation_space.dtype) for o in observations],
            actions=list(actions),
            rewards=list(rewards),
            terminations=[*last, terminated],
            truncations=[*last, not terminated],
            infos=infos,
        )
        self._storage.update_episodes([episode])
        self._megabytes += sum(file.stat().st_size for file in (self._path / str(number)).iterdir()) / 1e6

    def _update_metadata(self, changes: dict[str, Any]) -> None:
        self._metadata.update(changes)
        partial = self._path / "metadata.json.partial"
        partial.write_text(json.dumps(self._metadata))
        partial.replace(self._path / "metadata.json")

    def _size(self) -> float:
        return round(self._megabytes, 1)


def require_new(folder: str | Path) -> None:
    """Raise unless a data set can be made at `folder` without touching anything that is there."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{folder}: exists already; choose another folder for the Minari data set")
    if not path.parent.is_dir():
        raise UserError(f"{folder}: cannot be written; the Minari data set needs an existing parent folder")


def _observation_space(info: EnvInfo) -> gymnasium.spaces.Box:
    dtype = np.dtype(info.observation_dtype)
    if dtype.kind == "b":  # no space holds truth values
        return gymnasium.spaces.Box(0, 1, info.observation_shape, np.uint8)
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        return gymnasium.spaces.Box(low, high, info.observation_shape, dtype.type)
    return gymnasium.spaces.Box(-np.inf, np.inf, info.observation_shape, dtype.type)


def _dataset_id(folder: Path) -> str:
    """An id as Minari wants it, after the name of the folder: `name-v0`."""
    name = re.sub(r"[^\w-]+", "-", folder.resolve().name).strip("-") or "play"
    return name if re.search(r"-v\d+$", name) else f"{name}-v0"
