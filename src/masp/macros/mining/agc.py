"""Reader of Atari Grand Challenge text: one row per emulator frame.

    db traj id : 1                          title, may be missing
    frame,reward,score,terminal,action      columns, may be missing (then these five in this order)
    0,0,0,0,0

Version 1 writes terminal as True or False and has stray spaces; some forks separate by ", ". A row whose terminal
is set is the last of its episode. Files are read in chunks; columns are cut out of the bytes by array operations,
and only a chunk in which those find something odd is read row by row, to accept it or to name the broken row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader

import numpy as np

from masp.errors import UserError
from masp.macros.mining.agc_rows import COLUMNS, BrokenRow, Rows, parse_rows
from masp.macros.mining.episodes import UNKNOWN, Episodes

_CHUNK_BYTES = 1 << 22
_LONGEST_ROW = 4096  # bytes; far above any real row, far below a file without line ends


def read_agc(
    path: str | os.PathLike[str], num_primitives: int, skip_broken: bool = False
) -> tuple[Episodes, UserError | None]:
    """All episodes of a file; with `skip_broken` those up to the first broken row, and the error it would raise."""
    with open(path, "rb") as file:
        columns, row = _read_head(file, str(path))
        parts: list[Rows] = []
        broken: UserError | None = None
        for text in _chunks(file):
            try:
                if len(text.split(b"\n", 1)[0]) > _LONGEST_ROW:
                    raise BrokenRow(0, f"longer than {_LONGEST_ROW} bytes")
                parts.append(parse_rows(text, columns, num_primitives))
            except BrokenRow as error:
                where = f"{path}, row {row + error.index}"
                broken = UserError(f"{where}: {error}; repair the file, or leave it out with --skip-broken")
                if not skip_broken:
                    raise broken from None
                kept = b"".join(line + b"\n" for line in text.split(b"\n")[: error.index])
                parts.append(parse_rows(kept, columns, num_primitives))
                break
            row += text.count(b"\n")
    if not sum(len(part.actions) for part in parts) and broken is None:
        raise UserError(f"{path}, row {row}: no rows of play; is the file complete?")
    return _episodes(parts), broken


def _read_head(file: BufferedReader, where: str) -> tuple[tuple[str, ...], int]:
    """The columns and the row (line number) where data starts; leaves `file` there."""
    head = file.peek(_LONGEST_ROW)[:_LONGEST_ROW]
    if not head:
        raise UserError(f"{where}: the file is empty")
    if (zero := head.find(b"\0")) >= 0:
        row = 1 + head.count(b"\n", 0, zero)
        raise UserError(f"{where}, row {row}: a binary file, not Atari Grand Challenge text")
    columns: tuple[str, ...] = COLUMNS
    row, start = 1, 3 if head.startswith(b"\xef\xbb\xbf") else 0  # a byte order mark is no text
    file.seek(start)
    for _ in range(2):
        line = file.readline(_LONGEST_ROW).decode("latin-1").strip().lower()
        names = tuple(name.strip() for name in line.split(","))
        if "action" in names:
            columns = _checked_columns(names, f"{where}, row {row}")
        elif not line.startswith("db traj id"):
            file.seek(start)
            break
        row, start = row + 1, file.tell()
    first = file.readline(_LONGEST_ROW)
    file.seek(start)
    if row == 1 and not first.lstrip()[:1].isdigit() and not first.lstrip().startswith(b"-"):
        shown = first[:40].decode("latin-1").strip()
        raise UserError(f"{where}, row 1: not Atari Grand Challenge text: {shown!r}; expected 'db traj id : ...'")
    return columns, row


def _checked_columns(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    if len(set(names)) < len(names) or "terminal" not in names:
        raise UserError(f"{where}: columns {','.join(names)[:80]!r}; expected {','.join(COLUMNS)!r}")
    return names


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    """Bytes that end with a line end; a line that is too long comes in pieces and is then found broken."""
    rest = b""
    while data := file.read(_CHUNK_BYTES):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > _LONGEST_ROW:
            yield data[: _LONGEST_ROW + 1] + b"\n"
            return
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest.strip():
        yield rest + b"\n"


def _episodes(parts: list[Rows]) -> Episodes:
    """Cut rows into episodes after each terminal row; rows after the last one are an episode too."""
    actions = np.concatenate([part.actions for part in parts]) if parts else np.zeros(0, np.uint8)
    offsets = np.cumsum([0] + [len(part.actions) for part in parts])
    ends = [offset + part.ends for offset, part in zip(offsets, parts, strict=False)]
    ends_all = np.concatenate(ends) + 1 if ends else np.zeros(0, np.int64)
    scores = [score for part in parts for score in part.end_scores]
    if len(actions) and (not len(ends_all) or ends_all[-1] < len(actions)):
        ends_all = np.append(ends_all, len(actions))
        scores.append(next(part.last_score for part in reversed(parts) if len(part.actions)))
    lengths = np.diff(ends_all, prepend=0)
    return Episodes(actions, lengths, np.array(scores, np.float64), np.full(len(lengths), UNKNOWN, np.int8))
