"""Reader of Atari Grand Challenge text: one row per emulator frame.

    db traj id : 1                          title, optional
    frame,reward,score,terminal,action      columns, optional (default: these five in this order)
    0,0,0,0,0

Version 1 writes terminal as True or False and contains stray spaces; some forks separate by ", ". A row whose terminal
is set is the last of its episode. Files are read in chunks. Array operations parse a chunk of regular text; any other
chunk is parsed row by row, which either succeeds or names the first broken row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

import numpy as np

from masp.errors import UserError
from masp.macros.episodes import UNKNOWN, Episodes

COLUMNS = ("frame", "reward", "score", "terminal", "action")
_CHUNK_BYTES = 1 << 22
_MAX_ROW_BYTES = 4096  # far above any real row, far below a file without line ends
_TERMINAL_VALUES = {b"0": False, b"1": True, b"false": False, b"true": True}
_COMMA, _NEWLINE, _ZERO, _MINUS, _DOT = b",\n0-."
_IS_DIGIT_OR_SEPARATOR = np.zeros(256, bool)
_IS_DIGIT_OR_SEPARATOR[list(b"0123456789,\n")] = True


@dataclass(frozen=True)
class Rows:
    """The parsed columns of consecutive rows."""

    actions: np.ndarray
    """[R] smallest unsigned type."""
    ends: np.ndarray
    """[T] indices of the rows whose terminal is set."""
    end_scores: list[float]
    """[T] the score in those rows; NaN without a score column."""
    last_score: float
    """The score in the last row."""


class BrokenRow(Exception):
    """A row that cannot be parsed; `index` counts from the first row of the chunk."""

    def __init__(self, index: int, message: str):
        super().__init__(message)
        self.index = index


def read_agc(
    path: str | os.PathLike[str], num_primitives: int, skip_broken: bool = False
) -> tuple[Episodes, UserError | None]:
    """All episodes of a file; with `skip_broken`, those before the first broken row and the error about that row."""
    with open(path, "rb") as file:
        columns, row = _read_head(file, str(path))
        parts: list[Rows] = []
        broken: UserError | None = None
        for text in _chunks(file):
            try:
                if len(text.split(b"\n", 1)[0]) > _MAX_ROW_BYTES:
                    raise BrokenRow(0, f"longer than {_MAX_ROW_BYTES} bytes")
                parts.append(parse_rows(text, columns, num_primitives))
            except BrokenRow as error:
                where = f"{path}, row {row + error.index}"
                broken = UserError(f"{where}: {error}; repair the file, or skip the rest of it with --skip-broken")
                if not skip_broken:
                    raise broken from None
                intact = b"".join(line + b"\n" for line in text.split(b"\n")[: error.index])
                parts.append(parse_rows(intact, columns, num_primitives))
                break
            row += text.count(b"\n")
    if not sum(len(part.actions) for part in parts) and broken is None:
        raise UserError(f"{path}, row {row}: no rows of play; is the file complete?")
    return _episodes(parts), broken


def _read_head(file: BufferedReader, where: str) -> tuple[tuple[str, ...], int]:
    """The columns and the line number of the first data row, where `file` is left."""
    head = file.peek(_MAX_ROW_BYTES)[:_MAX_ROW_BYTES]
    if not head:
        raise UserError(f"{where}: the file is empty")
    if (zero := head.find(b"\0")) >= 0:
        row = 1 + head.count(b"\n", 0, zero)
        raise UserError(f"{where}, row {row}: a binary file, not Atari Grand Challenge text")
    columns: tuple[str, ...] = COLUMNS
    row, start = 1, 3 if head.startswith(b"\xef\xbb\xbf") else 0  # skip a byte order mark
    file.seek(start)
    for _ in range(2):
        line = file.readline(_MAX_ROW_BYTES).decode("latin-1").strip().lower()
        names = tuple(name.strip() for name in line.split(","))
        if "action" in names:
            if len(set(names)) < len(names) or "terminal" not in names:
                shown = repr(",".join(names)[:80])
                raise UserError(f"{where}, row {row}: columns {shown}; expected {','.join(COLUMNS)!r}")
            columns = names
        elif not line.startswith("db traj id"):
            file.seek(start)
            break
        row, start = row + 1, file.tell()
    first = file.readline(_MAX_ROW_BYTES)
    file.seek(start)
    if row == 1 and not first.lstrip()[:1].isdigit() and not first.lstrip().startswith(b"-"):
        shown = first[:40].decode("latin-1").strip()
        raise UserError(f"{where}, row 1: not Atari Grand Challenge text: {shown!r}; expected 'db traj id : ...'")
    return columns, row


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    """Pieces of text that end with a line end; a line above the limit is cut, which `read_agc` reports as broken."""
    rest = b""
    while data := file.read(_CHUNK_BYTES):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > _MAX_ROW_BYTES:
            yield data[: _MAX_ROW_BYTES + 1] + b"\n"
            return
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest.strip():
        yield rest + b"\n"


def _episodes(parts: list[Rows]) -> Episodes:
    """Split the rows after each terminal row; rows after the last one form an episode too."""
    actions = np.concatenate([np.zeros(0, np.uint8), *(part.actions for part in parts)])
    offsets = np.cumsum([0] + [len(part.actions) for part in parts])
    ends = [offset + part.ends + 1 for offset, part in zip(offsets, parts, strict=False)]
    episode_ends = np.concatenate([np.zeros(0, np.int64), *ends])
    scores = [score for part in parts for score in part.end_scores]
    if len(actions) and (not len(episode_ends) or episode_ends[-1] < len(actions)):
        episode_ends = np.append(episode_ends, len(actions))
        scores.append(next(part.last_score for part in reversed(parts) if len(part.actions)))
    lengths = np.diff(episode_ends, prepend=0)
    return Episodes(actions, lengths, np.array(scores, np.float64), np.full(len(lengths), UNKNOWN, np.int8))


def parse_rows(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows:
    """Parse lines, each with its line end; raises `BrokenRow` at the first invalid one."""
    rows = _parse_vectorised(text.translate(None, b" \t\r"), columns, num_primitives)
    return rows if rows is not None else _parse_by_row(text, columns, num_primitives)


def _parse_vectorised(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows | None:
    """Parse by array operations; None if any field is not in the regular form."""
    data = np.frombuffer(text, np.uint8)
    separators = np.flatnonzero((data == _COMMA) | (data == _NEWLINE))
    if not len(separators) or len(separators) % len(columns):
        return None
    ends = separators.reshape(-1, len(columns))  # [R, C], where each field ends
    separator_bytes = data[ends]
    if (separator_bytes[:, :-1] != _COMMA).any() or (separator_bytes[:, -1] != _NEWLINE).any():
        return None
    starts = np.concatenate([[0], separators[:-1] + 1]).reshape(ends.shape)
    if (ends == starts).any():
        return None
    column = columns.index("terminal")
    terminal = _terminals(data, starts[:, column], ends[:, column])
    column = columns.index("action")
    actions = _small_integers(data, starts[:, column], ends[:, column])
    if terminal is None or actions is None or actions.max() >= num_primitives:
        return None
    if not _numbers_are_regular(data, separators, starts, ends, columns):
        return None
    end_rows = np.flatnonzero(terminal)
    if "score" not in columns:
        return Rows(actions, end_rows, [float("nan")] * len(end_rows), float("nan"))
    column = columns.index("score")
    scores = [float(text[starts[row, column] : ends[row, column]]) for row in [*end_rows.tolist(), -1]]
    if not all(map(math.isfinite, scores)):
        return None
    return Rows(actions, end_rows, scores[:-1], scores[-1])


def _terminals(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """[R] bool from 0, 1, True or False; None if there is any other word."""
    values = np.zeros(len(starts), bool)
    is_valid = np.zeros(len(starts), bool)
    for word, value in _TERMINAL_VALUES.items():
        match = ends - starts == len(word)
        for offset, letter in enumerate(word):
            byte = data[np.minimum(starts + offset, len(data) - 1)]
            match &= (byte | 0x20 if len(word) > 1 else byte) == letter  # ignore the case of letters
        values[match] = value
        is_valid |= match
    return values if is_valid.all() else None


def _small_integers(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """[R] numbers of one to three digits; None if there is any other field."""
    widths = ends - starts
    if widths.max() > 3:
        return None
    values = np.zeros(len(starts), np.uint16)
    for offset in range(int(widths.max())):
        inside = offset < widths
        digits = data[np.where(inside, starts + offset, starts)] - _ZERO  # bytes below '0' wrap to above 9
        if (digits > 9).any():
            return None
        values = np.where(inside, values * 10 + digits, values)
    return values.astype(np.min_scalar_type(int(values.max())))


def _numbers_are_regular(
    data: np.ndarray, separators: np.ndarray, starts: np.ndarray, ends: np.ndarray, columns: tuple[str, ...]
) -> bool:
    """Whether all fields but the terminal are digits with at most a leading minus and one dot."""
    other = ~_IS_DIGIT_OR_SEPARATOR[data]
    column = columns.index("terminal")
    for offset in range(5):  # `_terminals` has checked these
        inside = starts[:, column] + offset < ends[:, column]
        other[(starts[:, column] + offset)[inside]] = False
    positions = np.flatnonzero(other)
    is_dot = data[positions] == _DOT
    if not ((data[positions] == _MINUS) | is_dot).all():
        return False
    digit_follows = (data[positions + 1] - _ZERO) <= 9
    field = np.searchsorted(separators, positions)
    is_leading = positions == starts.ravel()[field]
    one_dot = len(np.unique(field[is_dot])) == int(is_dot.sum())
    return bool(digit_follows.all() and (is_leading | is_dot).all() and one_dot)


def _parse_by_row(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows:
    """Parse row by row; raises `BrokenRow` with the reason; empty lines are skipped."""
    actions: list[int] = []
    ends: list[int] = []
    end_scores: list[float] = []
    last_score = float("nan")
    for index, line in enumerate(text.split(b"\n")):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(b",", len(columns))]
        if len(fields) != len(columns):
            expected = f"{len(columns)} columns ({','.join(columns)})"
            raise BrokenRow(index, f"expected {expected}, got {line.count(b',') + 1}: {_shown(line)}")
        row = dict(zip(columns, fields, strict=True))
        _check_row(index, row, num_primitives)
        last_score = float(row["score"]) if "score" in row else last_score
        if _TERMINAL_VALUES[row["terminal"].lower()]:
            ends.append(len(actions))
            end_scores.append(last_score)
        actions.append(int(row["action"]))
    dtype = np.min_scalar_type(max(actions, default=0))
    return Rows(np.array(actions, dtype), np.array(ends, np.int64), end_scores, last_score)


def _check_row(index: int, row: dict[str, bytes], num_primitives: int) -> None:
    """Raise `BrokenRow` unless every field is valid."""
    for name, field in row.items():
        if name not in ("terminal", "action") and not _is_number(field):
            raise BrokenRow(index, f"{name} {_shown(field)} is not a number")
    terminal, action = row["terminal"], row["action"]
    if terminal.lower() not in _TERMINAL_VALUES:
        raise BrokenRow(index, f"terminal {_shown(terminal)} is not 0, 1, True or False")
    if not action.isdigit():
        raise BrokenRow(index, f"action {_shown(action)} is not a whole number")
    if len(action) > 9 or int(action) >= num_primitives:
        raise BrokenRow(index, f"action {_shown(action)} is not one of 0..{num_primitives - 1}: play of another game?")


def _is_number(field: bytes) -> bool:
    try:
        return math.isfinite(float(field))
    except ValueError:
        return False


def _shown(field: bytes) -> str:
    """A short, printable form."""
    text = field[:40].decode("latin-1").encode("unicode_escape").decode()
    return f"'{text}{'…' if len(field) > 40 else ''}'"
