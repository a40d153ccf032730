"""The results store: a folder of JSON lines that several processes can write to and any tool can read.

Each writing process has a file of its own in `records/`, to which it only appends. A line is on disk before the unit
counts as finished. Readers leave out a last line without its newline: its writer was killed, and the unit is not
finished. In pandas, Polars or DuckDB: `read_json_auto('results/records/*.jsonl')` and the like.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.training.run_dir import read_json, write_json

Record = dict[str, Any]


class Store:
    """One folder; cheap to open, and every object of it sees what the others append."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{path} is a file; --store names a folder")
        self.work = self.path / "work"
        self._records: dict[tuple[str, int], Record] = {}
        self._read_to: dict[Path, int] = {}
        self._writer: Path | None = None
        self.problems: dict[str, str] = {}
        """What was left out while reading: file and place to reason."""

    def records(self) -> dict[tuple[str, int], Record]:
        """All finished trials by (trial id, seed); only what was appended since the last call is read."""
        for file in sorted((self.path / "records").glob("*.jsonl")):
            self._read_more(file)
        return self._records

    def finished(self, trial_id: str, seeds: Sequence[int]) -> bool:
        """Whether all seeds of a trial have a record."""
        return all((trial_id, seed) in self._records for seed in seeds)

    def append(self, records: Iterable[Record]) -> None:
        """Add records; they are on disk when this returns."""
        if self._writer is None:
            folder = self.path / "records"
            folder.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            self._writer = folder / f"{stamp}-{secrets.token_hex(4)}.jsonl"
        lines = "".join(json.dumps(record) + "\n" for record in records)
        with open(self._writer, "a") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def plan_file(self, name: str, scale: str) -> Path:
        return self.path / "plans" / f"{name}-{scale}.json"

    def write_plan(self, name: str, scale: str, data: dict[str, Any]) -> None:
        """Remember which trial stands in which cell."""
        file = self.plan_file(name, scale)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or json.loads(file.read_text()) != data:
            write_json(file, data)

    def read_plan(self, name: str, scale: str) -> dict[str, Any] | None:
        """What `write_plan` wrote; None: the experiment was never started here."""
        file = self.plan_file(name, scale)
        return read_json(file) if file.exists() else None

    def macro_file(self, macro_id: str) -> Path:
        return self._file("macros", f"{macro_id}.json")

    def play_file(self, play_id: str) -> Path:
        return self._file("plays", f"{play_id}.json")

    def bundle_file(self, trial_id: str) -> Path:
        return self._file("bundles", f"{trial_id}.safetensors")

    def run_dir(self, unit_id: str, seed: int) -> Path:
        return self.work / "runs" / unit_id / f"seed-{seed}"

    def run_dir_of(self, trial_id: str, seed: int) -> Path:
        """The run directory of a finished trial, whatever seeds it was run together with."""
        record = self.records().get((trial_id, seed))
        if record is None:
            raise UserError(f"{self.path}: trial {trial_id} has no result for seed {seed}")
        return self.path / record["run"]

    def _file(self, folder: str, name: str) -> Path:
        (self.path / folder).mkdir(parents=True, exist_ok=True)
        return self.path / folder / name

    def _read_more(self, file: Path) -> None:
        start = self._read_to.get(file, 0)
        with open(file, "rb") as stream:
            stream.seek(start)
            new = stream.read()
        whole, newline, torn = new.rpartition(b"\n")
        self.problems.pop(str(file), None)
        if torn:
            self.problems[str(file)] = "the last line is not finished; left out"
        for number, line in enumerate(whole.split(b"\n") if newline else []):
            self._take(line, f"{file.name}, line {number + 1} after byte {start}")
        self._read_to[file] = start + len(whole) + len(newline)

    def _take(self, line: bytes, where: str) -> None:
        try:
            record = json.loads(line)
            key = (record["trial"], record["seed"])
        except (ValueError, TypeError, KeyError):
            if line.strip():
                self.problems[where] = "not a record; left out"
            return
        # A unit may be recorded twice if its claim was lost while it ran; the runs are the same, the first counts.
        self._records.setdefault(key, record)
