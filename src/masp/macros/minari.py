"""Minari data sets: reading those with discrete actions, and writing recorded play as a new one."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from masp.errors import UserError
from masp.json_text import first_line
from masp.macros.actions import MAX_ACTIONS
from masp.macros.episodes import UNKNOWN, Episodes
from masp.macros.recording import RecordedEpisode, RecordingHeader, Seen

_METADATA_KEY = "masp"  # holds the names of environment and primitives, for which Minari has no field
_INSTALL = "a Minari data set needs: pip install 'masp-rl[minari]'"


def is_minari_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has the layout of Minari's storage."""
    data = Path(path) / "data"
    return (data / "metadata.json").is_file() or (data / "main_data.hdf5").is_file()


def read_minari(source: str) -> tuple[RecordingHeader, Episodes]:
    """Read the data set in a folder, or the local one with that id; nothing is downloaded."""
    header, data = _open(source)
    actions, scores, success = [], [], []
    try:
        for episode in data.iterate_episodes():
            actions.append(_checked_actions(episode.actions, header.num_primitives))
            scores.append(float(np.sum(episode.rewards)))
            success.append(_success(episode.infos))
    except Exception as error:
        raise UserError(f"{source}: episode {len(actions)} cannot be read: {first_line(error)}") from None
    return header, Episodes.of(actions, scores, success)


def read_minari_play(
    source: str, shape: tuple[int, ...], dtype: np.dtype
) -> tuple[RecordingHeader, list[RecordedEpisode]]:
    """The same with rewards and observations; observations of another layout, as a Dict, are flattened to `shape`."""
    header, data = _open(source)
    space, episodes = data.observation_space, []
    direct = space.shape == shape
    if not direct and not (space.is_np_flattenable and gymnasium.spaces.flatdim(space) == math.prod(shape)):
        raise UserError(f"{source}: its observations are {space}; expected shape {shape}")
    try:
        for episode in data.iterate_episodes():
            actions = _checked_actions(episode.actions, header.num_primitives).tolist()
            if direct:
                observations = np.asarray(episode.observations, dtype)
            else:
                rows = [_at(episode.observations, row) for row in range(len(actions) + 1)]
                flat = [gymnasium.spaces.flatten(space, row) for row in rows]
                observations = np.asarray(flat, dtype).reshape(len(rows), *shape)
            rewards = np.asarray(episode.rewards, np.float32)
            seen = Seen(observations, rewards, np.zeros(len(actions), bool), bool(episode.terminations[-1]))
            success = _success(episode.infos)
            solved = None if success == UNKNOWN else bool(success)
            episodes.append(RecordedEpisode(actions, float(rewards.sum()), solved, None, None, seen))
    except Exception as error:
        raise UserError(f"{source}: episode {len(episodes)} cannot be read: {first_line(error)}") from None
    return header, episodes


def _at(observations: Any, row: int) -> Any:
    """One row of the observations of an episode, in which Minari keeps the parts of a Dict or Tuple apart."""
    if isinstance(observations, dict):
        return {name: _at(part, row) for name, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(part, row) for part in observations)
    return observations[row]


def _open(source: str) -> tuple[RecordingHeader, Any]:
    try:
        import minari
    except ImportError:
        raise UserError(f"{source}: {_INSTALL}") from None
    try:
        data = minari.MinariDataset(Path(source) / "data") if is_minari_folder(source) else minari.load_dataset(source)
    except Exception as error:  # Minari, h5py and pyarrow raise many kinds
        raise UserError(f"{source}: cannot be opened as a local Minari data set: {first_line(error)}") from None
    space = data.action_space
    first, number = getattr(space, "start", 0), getattr(space, "n", None)
    if number is None or np.ndim(number) != 0 or first != 0 or not 1 <= number <= MAX_ACTIONS:
        raise UserError(f"{source}: its actions are {space}; macros need discrete actions that count from 0")
    return _header(data, int(number)), data


class MinariWriter:
    """Adds episodes to a new data set in `folder`, which can be loaded at any time while it grows.

    Each episode is a folder. It counts only once it is in the metadata file, which is replaced atomically, so a
    writer that is killed leaves a valid data set of all finished episodes.
    """

    def __init__(
        self,
        folder: str | Path,
        header: RecordingHeader,
        observation_shape: tuple[int, ...],
        observation_dtype: np.dtype,
        policy: str,
    ):
        require_new(folder)
        self._path = Path(folder) / "data"
        self._observation_space = _observation_space(observation_shape, observation_dtype)
        self._megabytes = 0.0
        try:
            import minari
            from minari.dataset.minari_storage import MinariStorage

            self._path.mkdir(parents=True)
            self._storage = MinariStorage.new(
                self._path,
                self._observation_space,
                gymnasium.spaces.Discrete(header.num_primitives),
                data_format="parquet",
                jpeg_encoding=False,  # the default stores images lossily
            )
        except ImportError:
            raise UserError(f"{folder}: {_INSTALL}") from None
        self._metadata: dict[str, Any] = json.loads((self._path / "metadata.json").read_text())
        # Minari's own methods rewrite the metadata in place, several times per episode.
        self._storage.update_metadata = self._update_metadata
        self._storage.get_size = lambda: round(self._megabytes, 1)
        self._update_metadata(
            {
                "dataset_id": _dataset_id(Path(folder)),
                "minari_version": minari.__version__,
                "algorithm_name": policy,
                "description": f"play of {header.env_id}, recorded by masp",
                _METADATA_KEY: {"env_id": header.env_id, "primitive_names": list(header.primitive_names)},
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
        """Write one finished episode; `observations` has one more entry than `actions`."""
        from minari.data_collector import EpisodeBuffer

        number = self._metadata["total_episodes"]
        before_last = [False] * (len(actions) - 1)
        episode = EpisodeBuffer(
            id=number,
            observations=[np.asarray(observation, self._observation_space.dtype) for observation in observations],
            actions=list(actions),
            rewards=list(rewards),
            terminations=[*before_last, terminated],
            truncations=[*before_last, not terminated],
            infos=None if success is None else {"success": [False] * len(actions) + [success]},
        )
        self._storage.update_episodes([episode])
        self._megabytes += sum(file.stat().st_size for file in (self._path / str(number)).iterdir()) / 1e6

    def _update_metadata(self, changes: dict[str, Any]) -> None:
        self._metadata.update(changes)
        partial = self._path / "metadata.json.partial"
        partial.write_text(json.dumps(self._metadata))
        partial.replace(self._path / "metadata.json")


def require_new(folder: str | Path) -> None:
    """Raise `UserError` unless `folder` is missing or empty and its parent exists."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{folder}: exists already; choose another folder for the Minari data set")
    if not path.parent.is_dir():
        raise UserError(f"{folder}: cannot be written; the Minari data set needs an existing parent folder")


def _checked_actions(values: Any, num_primitives: int) -> np.ndarray:
    actions = np.asarray(values).reshape(-1)
    if actions.dtype.kind not in "iu" or (actions.size and not 0 <= actions.min() <= actions.max() < num_primitives):
        raise ValueError(f"its actions are not integers in 0..{num_primitives - 1}")
    return actions


def _header(data: Any, num_primitives: int) -> RecordingHeader:
    entry = data.storage.metadata.get(_METADATA_KEY)
    if isinstance(entry, dict):  # written by `MinariWriter`
        names: Any = entry.get("primitive_names")
        usable = isinstance(names, list) and len(names) == num_primitives and all(isinstance(n, str) for n in names)
        return RecordingHeader(str(entry.get("env_id", "")), num_primitives, tuple(names) if usable else ())
    return RecordingHeader(data.env_spec.id if data.env_spec is not None else "", num_primitives)


def _success(infos: Any) -> int:
    """1 if any step's info reports success, 0 if none does, `UNKNOWN` without such an entry."""
    for name in ("success", "is_success"):
        if isinstance(infos, dict) and name in infos:
            return int(np.any(infos[name]))
    return UNKNOWN


def _observation_space(shape: tuple[int, ...], dtype: np.dtype) -> gymnasium.spaces.Box:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":  # Minari cannot store a Box of booleans
        return gymnasium.spaces.Box(0, 1, shape, np.uint8)
    if dtype.kind in "iu":
        return gymnasium.spaces.Box(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), shape, dtype.type)
    return gymnasium.spaces.Box(-np.inf, np.inf, shape, dtype.type)


def _dataset_id(folder: Path) -> str:
    """The folder's name as a valid Minari id, `name-v0`."""
    name = re.sub(r"[^\w-]+", "-", folder.resolve().name).strip("-") or "play"
    return name if re.search(r"-v\d+$", name) else f"{name}-v0"
