"""The observations of the replay on disk, written once each while training goes on.

The replay is most of a checkpoint: gigabytes for Atari. Its rows never change once they are written, so they are
appended to segment files as they come, and a checkpoint only names the segments that hold its ring. Training waits for
a copy of the newest rows, never for the whole replay, and the ring is in memory once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from masp.errors import UserError
from masp.whole_file import sync_directory

SEGMENT_BYTES = 64 * 2**20
"""Size at which a new segment begins."""


@dataclass
class Segment:
    """A file of consecutive rows; the hash grows with it."""

    path: Path
    first_tick: int
    ticks: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def entry(self) -> dict[str, Any]:
        """What a checkpoint says about the segment as it is now."""
        return {
            "file": self.path.name,
            "first_tick": self.first_tick,
            "ticks": self.ticks,
            "bytes": self.size,
            "sha256": self.digest.copy().hexdigest(),
        }


class ReplayLog:
    """Appends rows of one run; used by one thread at a time."""

    def __init__(self, folder: Path, capacity_ticks: int, segments: Iterable[dict[str, Any]] = ()):
        """`segments`: those of the checkpoint that the run goes on from; their files are only read from now on."""
        self._folder, self._capacity = folder, capacity_ticks
        self._closed: list[dict[str, Any]] = list(segments)
        self._open: Segment | None = None
        self._file: Any = None

    def append(self, first_tick: int, rows: np.ndarray) -> None:
        """Add the rows [ticks, ...] of consecutive ticks.

        Ticks between the last row and `first_tick` have left the ring before they were logged: a segment has no gaps.
        """
        segment = self._open
        if segment is None or segment.size >= SEGMENT_BYTES or first_tick != segment.first_tick + segment.ticks:
            segment = self._begin(first_tick)
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        self._file.write(data)
        segment.digest.update(data)
        segment.ticks, segment.size = segment.ticks + len(rows), segment.size + len(data)

    def entries(self) -> list[dict[str, Any]]:
        """The segments that hold the newest ring, durable when this returns."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        entries = [*self._closed, *([self._open.entry()] if self._open else [])]
        end = max((entry["first_tick"] + entry["ticks"] for entry in entries), default=0)
        needed = [e for e in entries if e["first_tick"] + e["ticks"] > end - self._capacity]
        self._closed = [e for e in self._closed if e in needed]
        return needed

    def delete_unless(self, used: set[str]) -> None:
        """Remove segment files that no kept checkpoint names."""
        current = self._open.path.name if self._open else ""
        for path in self._folder.glob("replay-*.rows"):
            if path.name not in used and path.name != current:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. Rows that cannot be written any more belong to no checkpoint: `entries` raises for those."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _begin(self, first_tick: int) -> Segment:
        if self._open is not None:
            self.entries()
            self._closed.append(self._open.entry())
        self.close()
        path = self._folder / f"replay-{first_tick:012d}.rows"
        path.unlink(missing_ok=True)  # written after the last checkpoint by a process that was killed
        self._file = open(path, "xb")  # noqa: SIM115 - closed by close()
        self._open = Segment(path, first_tick)
        sync_directory(self._folder)
        return self._open


def read_ring(folder: Path, entries: Any, ring: np.ndarray, end_tick: int) -> None:
    """Fill `ring` [T, ...] with the rows of the ticks before `end_tick`; a `UserError` unless all are whole."""
    capacity = len(ring)
    missing = np.zeros(capacity, bool)
    missing[np.arange(max(0, end_tick - capacity), end_tick) % capacity] = True
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise UserError(f"{folder}: the checkpoint does not say where the rows of its replay are")
    for entry in entries:
        rows = _rows(folder / entry["file"], entry, ring)
        ticks = entry["first_tick"] + np.arange(len(rows))
        current = (ticks >= end_tick - capacity) & (ticks < end_tick)
        ring[ticks[current] % capacity] = rows[current]
        missing[ticks[current] % capacity] = False
    if missing.any():
        raise UserError(f"{folder}: {int(missing.sum())} rows of the replay are missing")


def _is_entry(entry: Any) -> bool:
    """Whether an entry of a checkpoint can name a segment in its own folder."""
    if not isinstance(entry, dict) or not re.fullmatch(r"replay-\d{1,20}\.rows", str(entry.get("file"))):
        return False
    return all(type(entry.get(name)) is int and 0 <= entry[name] < 2**62 for name in ("first_tick", "ticks", "bytes"))


def _rows(path: Path, entry: dict[str, Any], ring: np.ndarray) -> np.ndarray:
    """The rows of one segment, as far as the checkpoint knew it."""
    row_bytes = ring[:1].nbytes
    if entry["bytes"] != entry["ticks"] * row_bytes:
        raise UserError(f"{path}: the replay has rows of another size; was it made with other settings?")
    try:
        with open(path, "rb") as file:
            data = file.read(min(entry["bytes"], os.fstat(file.fileno()).st_size))
    except OSError as error:
        raise UserError(f"{path}: the replay cannot be read: {error.strerror}") from None
    if len(data) != entry["bytes"] or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise UserError(f"{path}: the checksum does not fit; the file was damaged after it was written")
    return np.frombuffer(data, ring.dtype).reshape(entry["ticks"], *ring.shape[1:])
