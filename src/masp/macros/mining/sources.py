"""Where play comes from: files, folders, data sets, or sequences already in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masp.errors import UserError
from masp.macros.mining.agc import read_agc
from masp.macros.mining.episodes import UNKNOWN, Episodes
from masp.macros.mining.minari_source import is_minari_folder, read_minari
from masp.macros.mining.names import ALE_ACTIONS
from masp.macros.recording import RecordingHeader, read_header, read_recording

MINARI_PREFIX = "minari:"
Progress = Callable[[int, int], None]
"""Called with (files read so far, files in all)."""


@dataclass(frozen=True)
class Source:
    """All play of one source."""

    name: str
    """As the user wrote it."""
    header: RecordingHeader
    """Environment and primitives."""
    episodes: Episodes
    files: int
    """How many files it took; 0 in memory."""
    games: tuple[str, ...] = ()
    """Names of the folders that Atari Grand Challenge files lie in: one folder per game."""
    warnings: tuple[str, ...] = ()


def open_sources(
    sources: Sequence[str | os.PathLike[str]],
    num_primitives: int | None = None,
    skip_broken: bool = False,
    progress: Progress | None = None,
) -> list[Source]:
    """Read every source whole.

    Args:
      sources: Atari Grand Challenge files, recordings of `masp record`, folders of either, Minari folders, or
        `minari:ID`.
      num_primitives: how many primitives Atari Grand Challenge rows may use; None: the 18 of the full set.
      skip_broken: leave out what cannot be read, with a warning, instead of raising `UserError`.
      progress: told after every file.
    """
    plans = [(str(source), _files_of(str(source))) for source in sources]
    total = sum(max(1, len(files)) for _, files in plans)
    opened: list[Source] = []
    done = 0
    for name, files in plans:
        if not files:
            data = read_minari(name.removeprefix(MINARI_PREFIX))
            opened.append(Source(name, data.header, data.episodes, 1))
            done += 1
        else:
            reader = _FolderReader(name, num_primitives, skip_broken)
            for path in files:
                reader.read(path)
                done += 1
                if progress:
                    progress(done, total)
            opened.append(reader.finish())
    return opened


def in_memory(episodes: Sequence[Sequence[int] | np.ndarray], header: RecordingHeader | None = None) -> Source:
    """Sequences of actions as a source."""
    pool = Episodes.of(episodes)
    number = int(pool.actions.max(initial=0)) + 1
    return Source("memory", header or RecordingHeader("", number), pool, 0)


def _files_of(source: str) -> list[Path]:
    """The files of a source; none for a Minari data set."""
    path = Path(source)
    if source.startswith(MINARI_PREFIX) or is_minari_folder(path):
        return []
    if path.is_dir():
        files = sorted((p for s in ("*.txt", "*.jsonl") for p in path.rglob(s) if p.is_file()), key=_natural)
        if not files:
            raise UserError(f"{source}: the folder holds no recorded play (.txt or .jsonl files)")
        return files
    if path.is_file():
        return [path]
    if path.exists():
        raise UserError(f"{source}: neither a file nor a folder")
    raise UserError(f"{source}: no such file or folder{_neighbours(path)}")


def _neighbours(path: Path) -> str:
    """A hint at what is there instead."""
    if not path.parent.is_dir():
        return "; for a Minari data set write minari:ID"
    names = sorted(p.name for p in path.parent.iterdir() if not p.name.startswith("."))[:8]
    return f"; {path.parent} has {', '.join(names)}" if names else ""


def _natural(path: Path) -> tuple[str, int, str]:
    """Sorts 2.txt before 10.txt."""
    return (str(path.parent), int(path.stem) if path.stem.isascii() and path.stem.isdigit() else -1, path.name)


class _FolderReader:
    """Collects the files of one source."""

    def __init__(self, name: str, num_primitives: int | None, skip_broken: bool):
        self._name, self._num_primitives, self._skip_broken = name, num_primitives, skip_broken
        self._header: tuple[RecordingHeader, Path] | None = None
        self._parts: list[Episodes] = []
        self._warnings: list[str] = []
        self._games: set[str] = set()

    def read(self, path: Path) -> None:
        """Add one file."""
        try:
            with open(path, "rb") as file:
                is_recording = file.read(64).lstrip().startswith(b"{")
            if is_recording:
                self._read_recording(path)
            else:
                self._read_agc(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        except UserError as error:
            if not self._skip_broken:
                raise
            self._warnings.append(f"left out: {error}")

    def finish(self) -> Source:
        """All that was read."""
        header = self._header[0] if self._header else RecordingHeader("", len(ALE_ACTIONS), ALE_ACTIONS)
        games = tuple(sorted(self._games))
        return Source(self._name, header, Episodes.joined(self._parts), len(self._parts), games, tuple(self._warnings))

    def _read_agc(self, path: Path) -> None:
        number = self._num_primitives or len(ALE_ACTIONS)
        names = ALE_ACTIONS if number == len(ALE_ACTIONS) else ()
        episodes, broken = read_agc(path, number, self._skip_broken)
        self._agree(RecordingHeader("", number, names), path)
        self._parts.append(episodes)
        self._games.add(path.resolve().parent.name)
        if broken:
            self._warnings.append(f"left out from there on: {broken}")

    def _read_recording(self, path: Path) -> None:
        self._agree(read_header(path), path)
        actions, scores, success = [], [], []
        for episode in read_recording(path, self._warnings.append):
            actions.append(np.asarray(episode.actions, np.uint16))
            scores.append(float("nan") if episode.score is None else episode.score)
            success.append(UNKNOWN if episode.success is None else int(episode.success))
        self._parts.append(Episodes.of(actions, scores, success))

    def _agree(self, header: RecordingHeader, path: Path) -> None:
        if self._header is None:
            self._header = (header, path)
        else:
            require_same_actions(self._header[0], str(self._header[1]), header, str(path))


def require_same_actions(a: RecordingHeader, a_name: str, b: RecordingHeader, b_name: str) -> None:
    """Raise `UserError` unless an action number means the same in both."""
    if a.num_primitives != b.num_primitives:
        raise UserError(
            f"{b_name}: its play has {b.num_primitives} primitive actions, that of {a_name} has {a.num_primitives}; "
            "only play of one action set can be pooled"
        )
    if a.primitive_names and b.primitive_names and a.primitive_names != b.primitive_names:
        raise UserError(f"{b_name}: its actions are named otherwise than those of {a_name}; they cannot be pooled")
