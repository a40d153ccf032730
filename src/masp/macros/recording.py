"""The recording format that `masp record` writes and `masp mine` reads.

A recording is a file of JSON lines. The first line is the header:

    {"format": "masp-recording", "version": 1, "env_id": "...", "num_primitives": 6, "primitive_names": [...]}

and each further line is one finished episode:

    {"actions": [0, 3, 3, ...], "score": 12.0, "success": true, "frames": 480}

`score` (the return), `success` and `frames` (emulator frames) are null if unknown. Play to learn from
(`masp train --demonstrations`) says more. Either the episode can be played again: its `seed`, and `env_options` in the
header. Or it holds what was seen: `rewards` and `life_lost` of every step, whether it `terminated`, and `observations`,
one more than actions, as base64 of compressed bytes; the header then has `observation_shape` and `observation_dtype`.

Each line is written when its
episode ends, so the file can be read at any time. A last line without newline is incomplete (still being written, or
its writer was killed) and is ignored.
"""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from masp import json_text
from masp.errors import UserError
from masp.json_text import shortened
from masp.macros.actions import MAX_ACTIONS

FORMAT = "masp-recording"
VERSION = 1
REQUIRED = ("env_id", "num_primitives", "primitive_names")
"""What every header says."""
_MAX_LINE_BYTES = 1 << 28  # an episode of about 50 million actions
MAX_OBSERVATION_BYTES = 1 << 32
"""Upper limit of the observations of one episode."""


@dataclass(frozen=True)
class RecordingHeader:
    """The environment that all episodes of a recording were played in."""

    env_id: str
    num_primitives: int
    primitive_names: tuple[str, ...] = ()
    env_options: tuple[str, ...] = ()
    """Options of the environment, as name=value."""
    observation_shape: tuple[int, ...] = ()
    """Shape of an observation, if the episodes hold them."""
    observation_dtype: str = ""


@dataclass(frozen=True)
class Seen:
    """What an agent learns from in an episode of L steps."""

    observations: np.ndarray  # [L + 1, ...]
    rewards: np.ndarray  # [L]
    life_lost: np.ndarray  # [L] bool
    terminated: bool
    """Whether the last step ended the task; otherwise the episode was cut there."""


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
    seed: int | None = None
    """Seed with which the environment repeats the episode, if it can."""
    seen: Seen | None = None
    """Observations and rewards, if they were recorded."""


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
            fields = {name: value for name, value in header.__dict__.items() if name in REQUIRED or value}
            self._write({"format": FORMAT, "version": VERSION, **fields})

    def add(self, episode: RecordedEpisode) -> None:
        """Write one episode."""
        actions = [int(action) for action in episode.actions]
        if actions and not 0 <= min(actions) <= max(actions) < self._header.num_primitives:
            raise ValueError(f"actions {min(actions)}..{max(actions)} with {self._header.num_primitives} primitives")
        entry: dict[str, Any] = {**episode.__dict__, "actions": actions}
        seen = entry.pop("seen")
        if entry["seed"] is None:
            del entry["seed"]
        self._write(entry if seen is None else entry | _seen_to_json(seen))

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
    return RecordingHeader(env_id, number, tuple(names), *_what_was_seen(entry, where))


def _what_was_seen(entry: dict[str, Any], where: str) -> tuple[tuple[str, ...], tuple[int, ...], str]:
    """The options of the environment, and shape and type of observations, where the header has them."""
    options, shape = entry.get("env_options") or [], entry.get("observation_shape") or []
    dtype = entry.get("observation_dtype") or ""
    if not isinstance(options, list) or not all(map(json_text.is_text, options)):
        raise UserError(f"{where}, row 1: env_options must be a list of texts, got {shortened(options)}")
    if not isinstance(shape, list) or len(shape) > 4 or not all(_is_int(n) and 1 <= n < 1 << 24 for n in shape):
        raise UserError(f"{where}, row 1: observation_shape must be a list of whole numbers, got {shortened(shape)}")
    if dtype not in ("", "uint8", "int8", "int32", "float32", "float64", "bool") or bool(dtype) != bool(shape):
        raise UserError(f"{where}, row 1: observation_dtype does not fit, got {shortened(dtype)}")
    return tuple(options), tuple(shape), dtype


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
    seed = entry.get("seed")
    if seed is not None and not (_is_int(seed) and 0 <= seed < 2**63):
        raise UserError(f"{where}: 'seed' must be an integer or null, got {shortened(seed)}")
    seen = _seen_from_json(entry, len(actions), header, where) if "observations" in entry else None
    return RecordedEpisode(actions, score, success, frames, seed, seen)


def _seen_to_json(seen: Seen) -> dict[str, Any]:
    compressed = zlib.compress(np.ascontiguousarray(seen.observations).tobytes(), 6)
    return {
        "rewards": [float(reward) for reward in seen.rewards],
        "life_lost": np.flatnonzero(seen.life_lost).tolist(),
        "terminated": bool(seen.terminated),
        "observations": base64.b64encode(compressed).decode(),
    }


def _seen_from_json(entry: dict[str, Any], steps: int, header: RecordingHeader, where: str) -> Seen:
    rewards, lost, terminated = entry.get("rewards"), entry.get("life_lost"), entry.get("terminated")
    if not isinstance(rewards, list) or len(rewards) != steps or not all(map(json_text.is_number, rewards)):
        raise UserError(f"{where}: 'rewards' must be {steps} numbers, one per action")
    if not isinstance(lost, list) or not all(_is_int(step) and 0 <= step < steps for step in lost):
        raise UserError(f"{where}: 'life_lost' must be numbers of steps")
    if not isinstance(terminated, bool):
        raise UserError(f"{where}: 'terminated' must be true or false, got {shortened(terminated)}")
    life_lost = np.zeros(steps, bool)
    life_lost[lost] = True
    observations = _unpacked(entry["observations"], (steps + 1, *header.observation_shape), header, where)
    return Seen(observations, np.array(rewards, np.float32), life_lost, terminated)


def _unpacked(text: Any, shape: tuple[int, ...], header: RecordingHeader, where: str) -> np.ndarray:
    """The observations of one episode, [L + 1, ...]."""
    if not header.observation_dtype:
        raise UserError(f"{where}: it holds observations, but row 1 does not say their shape and type")
    dtype = np.dtype(header.observation_dtype)
    size = math.prod(shape) * dtype.itemsize
    try:
        if size > MAX_OBSERVATION_BYTES:
            raise ValueError
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
        if len(data) != size:
            raise ValueError
    except (ValueError, TypeError, zlib.error):
        raise UserError(f"{where}: 'observations' are not {list(shape)} numbers of type {dtype}") from None
    return np.frombuffer(data, dtype).reshape(shape)


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
