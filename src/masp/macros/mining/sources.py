"""Sources of recorded play: files, folders, data sets, or sequences in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS
from masp.macros.episodes import UNKNOWN, Episodes
from masp.macros.minari import is_minari_folder, read_minari
from masp.macros.mining.agc import read_agc
from masp.macros.recording import RecordingHeader, read_header, read_recording

MINARI_PREFIX = "minari:"
ReadProgress = Callable[[int, int], None]
"""Called with (files read so far, files in total)."""


@dataclass(frozen=True)
class Source:
    """All episodes of one source."""

    name: str
    """As the user wrote it."""
    header: RecordingHeader
    """Environment and primitives."""
    episodes: Episodes
    files: int
    """Number of files read; 0 for play in memory."""
    games: tuple[str, ...] = ()
    """Names of the folders that contain the Atari Grand Challenge files: one folder per game."""
    warnings: tuple[str, ...] = ()


def open_sources(
    sources: Sequence[str | os.PathLike[str]],
    num_primitives: int | None = None,
    skip_broken: bool = False,
    progress: ReadProgress | None = None,
) -> list[Source]:
    """Read every source completely.

    Args:
      sources: Atari Grand Challenge files, recordings of `masp record`, folders of either, Minari folders, or
        `minari:ID`.
      num_primitives: number of primitives that Atari Grand Challenge rows may use; None: the 18 of the full set.
      skip_broken: skip what cannot be read, with a warning, instead of raising `UserError`.
      progress: called after every file.
    """
    files_of = [(str(source), _files_of(str(source))) for source in sources]
    total = sum(max(1, len(files)) for _, files in files_of)
    results: list[Source] = []
    done = 0
    for name, files in files_of:
        reader = _FilesReader(name, num_primitives, skip_broken)
        for path in files:
            reader.read(path)
            done += 1
            if progress:
                progress(done, total)
        if files:
            results.append(reader.result())
        else:
            results.append(Source(name, *read_minari(name.removeprefix(MINARI_PREFIX)), files=1))
            done += 1
            if progress:
                progress(done, total)
    return results


def in_memory(episodes: Sequence[Sequence[int] | np.ndarray]) -> Source:
    """Sequences of actions, one per episode, as a source."""
    pool = Episodes.of(episodes)
    return Source("memory", RecordingHeader("", int(pool.actions.max(initial=0)) + 1), pool, 0)


def require_same_actions(a: RecordingHeader, a_name: str, b: RecordingHeader, b_name: str) -> None:
    """Raise `UserError` unless an action number means the same in both."""
    if a.num_primitives != b.num_primitives:
        raise UserError(
            f"{b_name}: its play has {b.num_primitives} primitive actions, that of {a_name} has {a.num_primitives}; "
            "only play with the same action set can be pooled"
        )
    if a.primitive_names and b.primitive_names and a.primitive_names != b.primitive_names:
        raise UserError(f"{b_name}: its actions have other names than those of {a_name}; they cannot be pooled")


def _files_of(source: str) -> list[Path]:
    """The files of a source; none for a Minari data set."""
    path = Path(source)
    if source.startswith(MINARI_PREFIX) or is_minari_folder(path):
        return []
    if path.is_dir():
        files = sorted((p for s in ("*.txt", "*.jsonl") for p in path.rglob(s) if p.is_file()), key=_natural_key)
        if not files:
            raise UserError(f"{source}: the folder holds no recorded play (.txt or .jsonl files)")
        return files
    if path.is_file():
        return [path]
    if path.exists():
        raise UserError(f"{source}: neither a file nor a folder")
    raise UserError(f"{source}: no such file or folder{_hint(path)}")


def _hint(path: Path) -> str:
    """What the user may have meant by a path that does not exist."""
    if not path.parent.is_dir():
        return "; for a Minari data set write minari:ID"
    names = sorted(p.name for p in path.parent.iterdir() if not p.name.startswith("."))[:8]
    return f"; {path.parent} has {', '.join(names)}" if names else ""


def _natural_key(path: Path) -> tuple[str, int, str]:
    """Sort key that places 2.txt before 10.txt."""
    return (str(path.parent), int(path.stem) if path.stem.isascii() and path.stem.isdigit() else -1, path.name)


class _FilesReader:
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
            self._warnings.append(f"skipped: {error}")

    def result(self) -> Source:
        """All files read so far as one source."""
        header = self._header[0] if self._header else RecordingHeader("", len(ALE_ACTIONS), ALE_ACTIONS)
        games = tuple(sorted(self._games))
        return Source(self._name, header, Episodes.joined(self._parts), len(self._parts), games, tuple(self._warnings))

    def _read_agc(self, path: Path) -> None:
        number = self._num_primitives or len(ALE_ACTIONS)
        names = ALE_ACTIONS if number == len(ALE_ACTIONS) else ()
        episodes, broken = read_agc(path, number, self._skip_broken)
        self._check_header(RecordingHeader("", number, names), path)
        self._parts.append(episodes)
        self._games.add(path.resolve().parent.name)
        if broken:
            self._warnings.append(f"skipped from this row on: {broken}")

    def _read_recording(self, path: Path) -> None:
        self._check_header(read_header(path), path)
        actions, scores, success = [], [], []
        for episode in read_recording(path, self._warnings.append):
            actions.append(np.asarray(episode.actions, np.uint16))
            scores.append(float("nan") if episode.score is None else episode.score)
            success.append(UNKNOWN if episode.success is None else int(episode.success))
        self._parts.append(Episodes.of(actions, scores, success))

    def _check_header(self, header: RecordingHeader, path: Path) -> None:
        """Raise `UserError` unless `header` agrees with that of the first file."""
        if self._header is None:
            self._header = (header, path)
        else:
            require_same_actions(self._header[0], str(self._header[1]), header, str(path))
