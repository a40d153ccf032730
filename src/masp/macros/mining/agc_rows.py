"""Rows of Atari Grand Challenge text to numbers: a fast way for clean text, a careful way for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COLUMNS = ("frame", "reward", "score", "terminal", "action")
_TERMINAL = {b"0": False, b"1": True, b"false": False, b"true": True}
_COMMA, _NEWLINE, _ZERO, _MINUS, _DOT = b",\n0-."
_PLAIN = np.zeros(256, bool)
_PLAIN[list(b"0123456789,\n")] = True


@dataclass(frozen=True)
class Rows:
    """What mining needs of some rows."""

    actions: np.ndarray
    """[R] smallest unsigned type."""
    ends: np.ndarray
    """[T] rows whose terminal is set."""
    end_scores: list[float]
    """[T] the score in those rows; NaN without such a column."""
    last_score: float
    """The score in the last row."""


class BrokenRow(Exception):
    """A row that cannot be read; `index` counts from the first row of the text."""

    def __init__(self, index: int, message: str):
        super().__init__(message)
        self.index = index


def parse_rows(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows:
    """Read lines, each with its line end; raises `BrokenRow` at the first that is not as announced."""
    rows = _parse_fast(text.translate(None, b" \t\r"), columns, num_primitives)
    return rows if rows is not None else _parse_carefully(text, columns, num_primitives)


def _parse_fast(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows | None:
    """By array operations; None if anything is not plain."""
    data = np.frombuffer(text, np.uint8)
    separators = np.flatnonzero((data == _COMMA) | (data == _NEWLINE))
    if not len(separators) or len(separators) % len(columns):
        return None
    ends = separators.reshape(-1, len(columns))  # [R, C], where each field ends
    kinds = data[ends]
    if (kinds[:, :-1] != _COMMA).any() or (kinds[:, -1] != _NEWLINE).any():
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
    if not _numbers_are_plain(data, separators, starts, ends, columns):
        return None
    at = np.flatnonzero(terminal)
    if "score" not in columns:
        return Rows(actions, at, [float("nan")] * len(at), float("nan"))
    column = columns.index("score")
    scores = [float(text[starts[row, column] : ends[row, column]]) for row in [*at.tolist(), -1]]
    return Rows(actions, at, scores[:-1], scores[-1])


def _terminals(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """[R] bool from 0, 1, True or False."""
    result = np.zeros(len(starts), bool)
    known = np.zeros(len(starts), bool)
    for word, value in _TERMINAL.items():
        match = ends - starts == len(word)
        for offset, letter in enumerate(word):
            byte = data[np.minimum(starts + offset, len(data) - 1)]
            match &= (byte | 0x20 if len(word) > 1 else byte) == letter  # True and true alike
        result[match] = value
        known |= match
    return result if known.all() else None


def _small_integers(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """[R] numbers of one to three digits."""
    widths = ends - starts
    if widths.max() > 3:
        return None
    values = np.zeros(len(starts), np.uint16)
    for offset in range(int(widths.max())):
        inside = offset < widths
        digits = data[np.where(inside, starts + offset, starts)] - _ZERO  # below '0' wraps to above 9
        if (digits > 9).any():
            return None
        values = np.where(inside, values * 10 + digits, values)
    return values.astype(np.min_scalar_type(int(values.max())))


def _numbers_are_plain(
    data: np.ndarray, separators: np.ndarray, starts: np.ndarray, ends: np.ndarray, columns: tuple[str, ...]
) -> bool:
    """Whether all fields but the terminal are digits with at most a leading minus and one dot."""
    odd = ~_PLAIN[data]
    column = columns.index("terminal")
    for offset in range(5):  # terminals have been checked already
        inside = starts[:, column] + offset < ends[:, column]
        odd[(starts[:, column] + offset)[inside]] = False
    at = np.flatnonzero(odd)
    is_dot = data[at] == _DOT
    if not ((data[at] == _MINUS) | is_dot).all():
        return False
    digit_follows = (data[at + 1] - _ZERO) <= 9
    field = np.searchsorted(separators, at)
    minus_leads = at == starts.ravel()[field]
    one_dot = len(np.unique(field[is_dot])) == int(is_dot.sum())
    return bool(digit_follows.all() and (minus_leads | is_dot).all() and one_dot)


def _parse_carefully(text: bytes, columns: tuple[str, ...], num_primitives: int) -> Rows:
    """Row by row, with a reason for the first row that cannot be read; empty lines are passed over."""
    actions: list[int] = []
    ends: list[int] = []
    end_scores: list[float] = []
    last_score = float("nan")
    for index, line in enumerate(text.split(b"\n")):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(b",", len(columns))]
        if len(fields) != len(columns):
            found = line.count(b",") + 1
            expected = f"{len(columns)} columns ({','.join(columns)})"
            raise BrokenRow(index, f"expected {expected}, got {found}: {_shown(line)}")
        row = dict(zip(columns, fields, strict=True))
        for name, field in row.items():
            if name not in ("terminal", "action") and not _is_number(field):
                raise BrokenRow(index, f"{name} {_shown(field)} is not a number")
        if row["terminal"].lower() not in _TERMINAL:
            raise BrokenRow(index, f"terminal {_shown(row['terminal'])} is not 0, 1, True or False")
        if not row["action"].isdigit():
            raise BrokenRow(index, f"action {_shown(row['action'])} is not a whole number")
        if len(row["action"]) > 9 or int(row["action"]) >= num_primitives:
            known = f"0..{num_primitives - 1}"
            raise BrokenRow(index, f"action {_shown(row['action'])} is not one of {known}: play of another game?")
        last_score = float(row["score"]) if "score" in row else last_score
        if _TERMINAL[row["terminal"].lower()]:
            ends.append(len(actions))
            end_scores.append(last_score)
        actions.append(int(row["action"]))
    dtype = np.min_scalar_type(max(actions, default=0))
    return Rows(np.array(actions, dtype), np.array(ends, np.int64), end_scores, last_score)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _shown(field: bytes) -> str:
    """A short, printable form."""
    text = field[:40].decode("latin-1").encode("unicode_escape").decode()
    return f"'{text}{'…' if len(field) > 40 else ''}'"
