"""The newest checkpoints of one run, with the replay's observations in a log beside them.

    checkpoints/checkpoint-TICK.safetensors   everything but the observations of the replay
    checkpoints/replay-TICK.rows              observations, see `replay_log.py`

A checkpoint is written whole or not at all and verified when it is read. The last two are kept: where one is damaged,
the one before is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from masp import json_text
from masp.errors import UserError
from masp.training import array_file
from masp.training.replay_log import ReplayLog, read_ring

FORMAT, VERSION = "masp-checkpoint", 2
KEPT = 2
"""Checkpoints that stay."""


class Checkpoints:
    """The checkpoints in the folder of one run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def file(self, tick: int) -> Path:
        return self.folder / f"checkpoint-{tick:012d}.safetensors"

    def ticks(self) -> list[int]:
        """Ticks of all checkpoints, newest first."""
        names = (path.stem.removeprefix("checkpoint-") for path in self.folder.glob("checkpoint-*.safetensors"))
        return sorted((int(name) for name in names if name.isdigit()), reverse=True)

    def save(self, tick: int, arrays: dict[str, np.ndarray], about: dict[str, Any], log: ReplayLog) -> None:
        """Write a checkpoint and remove older ones, with the rows that only they needed."""
        self.folder.mkdir(exist_ok=True)
        about = {**about, "format": FORMAT, "version": VERSION, "replay": log.entries()}
        array_file.save(self.file(tick), arrays, about)
        for old in self.ticks()[KEPT:]:
            self.file(old).unlink(missing_ok=True)
        used = self._segments_in_use()
        if used is not None:
            log.delete_unless(used)

    def load(self, tick: int, like: Any, ring: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """The state at `tick` and its description; `ring` [T, ...] is filled with the replay's observations."""
        path = self.file(tick)
        arrays, about = array_file.read(path)
        if about.get("format") != FORMAT:
            raise UserError(f"{path}: not a checkpoint of masp")
        if about.get("version") != VERSION:
            version = json_text.shortened(about.get("version"))
            raise array_file.OtherLayoutError(
                f"{path}: a checkpoint of version {version}, but this masp reads version {VERSION}; "
                "go on with the masp that wrote it, or start anew with another --out"
            )
        state = array_file.fill(like, arrays, path, any_shape=".envs", finite=False)
        read_ring(self.folder, about.get("replay"), ring, tick + 1)
        for name in ("seconds", "best", "row_frames", "frames_at_row"):
            if name not in about or not (about[name] is None or json_text.is_number(about[name])):
                raise UserError(f"{path}: the checkpoint has no usable {name!r}")
        usage = about.get("row_usage")
        counted = isinstance(usage, list) and all(type(count) is int and 0 <= count < 2**62 for count in usage)
        if not counted or about["seconds"] is None or about["row_frames"] is None:
            raise UserError(f"{path}: the checkpoint does not say what the run had counted")
        return state, about

    def remove_after(self, tick: int) -> None:
        """Delete the checkpoints after `tick`; -1: all of them, with the rows of the replay."""
        for later in self.ticks():
            if later > tick:
                self.file(later).unlink(missing_ok=True)
        if tick < 0:
            for path in self.folder.glob("replay-*.rows"):
                path.unlink(missing_ok=True)

    def _segments_in_use(self) -> set[str] | None:
        """Names of the segments that a kept checkpoint needs; None: a checkpoint cannot be read, so nobody knows."""
        used: set[str] = set()
        for tick in self.ticks():
            about = array_file.read_about(self.file(tick))
            if about is None:
                return None
            used.update(entry["file"] for entry in about.get("replay", ()))
        return used
