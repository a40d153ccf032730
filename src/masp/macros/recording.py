"""The recording format that `masp record` writes and `masp mine` reads.

A recording is a file of JSON lines. The first line is the header:

    {"format": "masp-recording", "version": 1, "env_id": "...", "num_primitives": 6, "primitive_names": [...]}

and each further line is one finished episode:

    {"actions": [0, 3, 3, ...], "score": 12.0, "success": true, "frames": 480}

`score` (the return), `success` and `frames` (emulator frames) are null if unknown. Each line is written when its
episode ends, so the file can be read at any time. A last line without newline is incomplete (still being written, or
its writer was killed) and is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from masp import json_text
from masp.errors import UserError
from masp.json_text import shortened
from masp.macros.actions import MAX_ACTIONS

FORMAT = "masp-recording"
VERSION = 1
_MAX_LINE_BYTES = 1 << 28  # an episode of about 50 million actions


@dataclass(frozen=True)
class RecordingHeader:
    """The environment that all episodes of a recording were played in."""

    env_id: str
    num_primitives: int
    primitive_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedEpisode:
    """One finished episode."""

    actions: Sequence[int]
    """Primitive actions, one per step."""
    score: float | None = None
    """Undiscounted return, if known."""
    success: bool | None = None
    """Whether the task was solved, if known."""
    frames: int | None = None
    """Number of emulator frames, if known."""


class RecordingWriter:
    """Appends episodes to a recording; an episode is on disk when `add` returns.

    If the file already is a recording of the same environment, an incomplete last line is removed and further
    episodes are appended. Any other existing file is an error.
    """

    def __init__(self, path: str | os.PathLike[str], header: RecordingHeader):
        self._path, self._header = Path(path), header
        if self._path.exists() and self._path.stat().st_size:
            self._open_existing()
        else:
            self._file: BinaryIO = open(self._path, "wb", buffering=0)  # noqa: SIM115
            self._write({"format": FORMAT, "version": VERSION, **header.__dict__})

    def add(self, episode: RecordedEpisode) -> None:
        """Write one episode."""
        actions = [int(action) for action in episode.actions]
        if actions and not 0 <= min(actions) <= max(actions) < self._header.num_primitives:
            raise ValueError(f"actions {min(actions)}..{max(actions)} with {self._header.num_primitives} primitives")
        self._write({**episode.__dict__, "actions": actions})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, entry: dict[str, Any]) -> None:
        line = memoryview((json.dumps(entry, separators=(",", ":"), allow_nan=False) + "\n").encode())
        while line:  # a raw write may take only part of a long line
            line = line[self._file.write(line) :]

    def _open_existing(self) -> None:
        with open(self._path, "rb") as file:
            header = _read_header(file, str(self._path))
        if header != self._header:
            raise UserError(
                f"{self._path}: holds a recording of {header.env_id or 'another environment'} with "
                f"{header.num_primitives} primitives, not of {self._header.env_id} with "
                f"{self._header.num_primitives}; choose another file"
            )
        self._file = open(self._path, "r+b", buffering=0)  # noqa: SIM115
        self._file.seek(_end_of_last_line(self._file))
        self._file.truncate()


def read_header(path: str | os.PathLike[str]) -> RecordingHeader:
    """The header of a recording."""
    with open(path, "rb") as file:
        return _read_header(file, str(path))


def read_recording(
    path: str | os.PathLike[str], warn: Callable[[str], None] = lambda message: None
) -> Iterator[RecordedEpisode]:
    """Iterate over the complete episodes of a recording; `warn` is called if the last line is incomplete."""
    with open(path, "rb") as file:
        header = _read_header(file, str(path))
        row = 1
        while line := file.readline(_MAX_LINE_BYTES):
            row += 1
            where = f"{path}, row {row}"
            if not line.endswith(b"\n"):
                if len(line) == _MAX_LINE_BYTES:
                    raise UserError(f"{where}: longer than {_MAX_LINE_BYTES} bytes; is this a masp recording?")
                warn(f"{where}: incomplete (still being written?); ignored")
                return
            if line.strip():
                yield _episode(line, header, where)


def _read_header(file: BinaryIO, where: str) -> RecordingHeader:
    line = file.readline(1 << 20)
    try:
        entry = json_text.parse(line, where)
    except UserError:
        raise UserError(f"{where}, row 1: not the header of a masp recording; 'masp record' writes one") from None
    if not isinstance(entry, dict) or entry.get("format") != FORMAT:
        raise UserError(f"{where}, row 1: not the header of a masp recording; 'masp record' writes one")
    if entry.get("version") != VERSION:
        version = shortened(entry.get("version"))
        raise UserError(f"{where}, row 1: version {version} is not supported, expected {VERSION}")
    number, names = entry.get("num_primitives"), entry.get("primitive_names") or []
    if type(number) is not int or not 1 <= number <= MAX_ACTIONS:
        raise UserError(f"{where}, row 1: num_primitives must be in 1..{MAX_ACTIONS}, got {shortened(number)}")
    if not isinstance(names, list) or not all(map(json_text.is_text, names)) or len(names) not in (0, number):
        raise UserError(f"{where}, row 1: primitive_names must be a list of {number} names, or empty")
    env_id = entry.get("env_id") or ""
    if not json_text.is_text(env_id):
        raise UserError(f"{where}, row 1: env_id must be a string, got {shortened(env_id)}")
    return RecordingHeader(env_id, number, tuple(names))


def _episode(line: bytes, header: RecordingHeader, where: str) -> RecordedEpisode:
    try:
        entry = json_text.parse(line, where, constant=float)
    except UserError as error:
        raise UserError(f"{where}: broken JSON ({str(error).removeprefix(f'{where}: ')}); remove the line") from None
    actions = entry.get("actions") if isinstance(entry, dict) else None
    if not isinstance(actions, list):
        raise UserError(f"{where}: expected an object with a list 'actions'; remove the line")
    if not all(map(_is_int, actions)):
        raise UserError(f"{where}: 'actions' must hold integers only; remove the line")
    if actions and not 0 <= min(actions) <= max(actions) < header.num_primitives:
        invalid = next(action for action in actions if not 0 <= action < header.num_primitives)
        raise UserError(
            f"{where}: action {shortened(invalid)} is not one of 0..{header.num_primitives - 1}, the range in row 1"
        )
    score, success, frames = entry.get("score"), entry.get("success"), entry.get("frames")
    if score is not None and not json_text.is_number(score):
        raise UserError(f"{where}: 'score' must be a number or null, got {shortened(score)}")
    if success is not None and not isinstance(success, bool):
        raise UserError(f"{where}: 'success' must be true, false or null, got {shortened(success)}")
    if frames is not None and not (_is_int(frames) and 0 <= frames < 2**53):
        raise UserError(f"{where}: 'frames' must be an integer or null, got {shortened(frames)}")
    return RecordedEpisode(actions, score, success, frames)


def _is_int(value: Any) -> bool:
    return type(value) is int


def _end_of_last_line(file: BinaryIO) -> int:
    """The position after the last newline."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - (1 << 16))
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
