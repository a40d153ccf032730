"""The results store: a folder of JSON lines that several processes can write to and any tool can read.

Each writing process appends to a file of its own in `records/`. A line is on disk before its unit counts as finished.
Readers leave out a last line without a newline, whose writer was killed. Lines and plans that cannot be read are left
out and listed in `problems`. In pandas, Polars or DuckDB: `read_json_auto('results/records/*.jsonl')` and the like.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from masp import json_text
from masp.errors import UserError
from masp.json_text import is_number, is_text, shortened
from masp.training.run_dir import write_json

Record = dict[str, Any]

FORMAT = 2
"""Of the records that this version writes; format 1 had neither `kernels` nor `version`."""
RECORD_FIELDS = frozenset(
    (
        *("trial", "seed", "label", "env", "variant", "control", "k", "config", "chosen", "commit", "run"),
        *("frames", "frames_per_second", "seconds", "finished"),
        *("return", "success", "curve_frames", "curve_return", "curve_success"),
    )
)
"""Fields that tables, listings and estimates need."""
PLAN_FIELDS = frozenset(
    ("experiment", "scale", "title", "measure", "row_names", "paper_table", "kind", "note", "cells")
)
PLAN_CELL_FIELDS = frozenset(["row", "column", "trial", "seeds", "env", "frames"])


class Store:
    """One folder. Every object sees what the others append."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{path} is a file; --store names a folder")
        self.work = self.path / "work"
        self._records: dict[tuple[str, int], Record] = {}
        self._position: dict[Path, tuple[int, int]] = {}  # bytes and lines of a file that have been read
        self._writer: Path | None = None
        self.problems: dict[str, str] = {}
        """What was left out while reading: file and line to reason."""

    def records(self) -> dict[tuple[str, int], Record]:
        """All finished runs by (trial id, seed); reads only what was appended since the last call."""
        for file in sorted((self.path / "records").glob("*.jsonl")):
            self._read_more(file)
        return self._records

    def finished(self, trial_id: str, seeds: Sequence[int]) -> bool:
        """Whether all seeds of a trial had a record at the last call of `records`."""
        return all((trial_id, seed) in self._records for seed in seeds)

    def append(self, records: Iterable[Record]) -> None:
        """Add records; they are on disk when this returns."""
        if self._writer is None:
            folder = self.path / "records"
            folder.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            self._writer = folder / f"{stamp}-{secrets.token_hex(4)}.jsonl"
        lines = "".join(json_text.dumps(record) + "\n" for record in records)
        with open(self._writer, "a") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def write_plan(self, name: str, scale: str, data: dict[str, Any]) -> None:
        """Keep which trial fills which cell."""
        file = self._file("plans", f"{name}-{scale}.json")
        if self.read_plan(name, scale) != data:
            write_json(file, data)

    def read_plan(self, name: str, scale: str) -> dict[str, Any] | None:
        """The plan that `write_plan` wrote; None: there is none, or none that can be read."""
        file = self.path / "plans" / f"{name}-{scale}.json"
        self.problems.pop(str(file), None)
        try:
            text = file.read_bytes().decode()
            data: dict[str, Any] = json.loads(text, parse_constant=_refuse)
            _require_plan(data)
            return data
        except FileNotFoundError:
            return None
        except json.JSONDecodeError as error:
            self.problems[str(file)] = f"line {error.lineno}: broken JSON ({error.msg}); left out"
        except RecursionError:
            self.problems[str(file)] = "not a plan (nested too deep); left out"
        except (ValueError, TypeError, OSError) as error:
            self.problems[str(file)] = f"not a plan ({error}); left out"
        return None

    def macro_file(self, macro_id: str) -> Path:
        return self._file("macros", f"{macro_id}.json")

    def play_file(self, play_id: str) -> Path:
        return self._file("plays", f"{play_id}.json")

    def recording_file(self, recording_id: str) -> Path:
        return self._file("plays", f"{recording_id}.jsonl")

    def bundle_file(self, name: str) -> Path:
        return self._file("bundles", f"{name}.safetensors")

    def run_dir(self, unit_id: str, seed: int) -> Path:
        return self.work / "runs" / unit_id / f"seed-{seed}"

    def run_dir_of(self, trial_id: str, seed: int) -> Path:
        """The run directory of a finished trial, whatever seeds it was trained together with."""
        record = self.records().get((trial_id, seed))
        if record is None:
            raise UserError(f"{self.path}: trial {trial_id} has no result for seed {seed}")
        return self.path / record["run"]

    def _file(self, folder: str, name: str) -> Path:
        (self.path / folder).mkdir(parents=True, exist_ok=True)
        return self.path / folder / name

    def _read_more(self, file: Path) -> None:
        """Read the complete lines that were appended since the last call."""
        start, line_number = self._position.get(file, (0, 0))
        self.problems.pop(str(file), None)
        try:
            with open(file, "rb") as stream:
                stream.seek(start)
                *lines, rest = stream.read().split(b"\n")
        except OSError as error:
            self.problems[str(file)] = f"{error.strerror}; left out"
            return
        for line in lines:
            line_number += 1
            if line.strip():
                self._add(line, f"{file}, line {line_number}")
        self._position[file] = start + sum(len(line) + 1 for line in lines), line_number
        if rest:
            self.problems[str(file)] = f"line {line_number + 1}: the last line is not finished; left out"

    def _add(self, line: bytes, where: str) -> None:
        try:
            record = json.loads(line.decode(), parse_constant=lambda name: None)  # older files have NaN
            _require_fields(record, RECORD_FIELDS)
            if record.get("format", 1) not in range(1, FORMAT + 1):
                raise ValueError(f"format {shortened(record['format'])}, this version reads up to {FORMAT}")
            key = str(record["trial"]), int(record["seed"])
            _require_record(record)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            broken = isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError))
            reason = "broken JSON" if broken else str(error)
            self.problems[where] = f"not a record ({reason}); left out"
            return
        # A unit is recorded twice if its claim was lost while it ran. Both runs are equal; the first counts.
        self._records.setdefault(key, record)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _require_record(record: Record) -> None:
    """Raise `ValueError` unless every field that tables, listings and estimates need has its type."""
    texts = ("trial", "label", "env", "variant", "control", "commit", "run", "finished")
    _require_kind(record, texts, is_text, "text")
    _require_kind(record, ("seed", "frames"), _is_count, "a whole number")
    _require_kind(record, ("k",), lambda k: k is None or _is_count(k), "a whole number or null")
    figures = ("frames_per_second", "seconds", "return", "success")
    _require_kind(record, figures, _is_figure, "a number or null")
    _require_kind(record, ("config", "chosen"), lambda part: isinstance(part, dict), "an object")
    curves = ("curve_frames", "curve_return", "curve_success")
    _require_kind(record, curves, _is_curve, "a list of numbers")
    if len({len(record[name]) for name in curves if record[name]}) > 1:
        raise ValueError("curves of different lengths")
    if Path(record["run"]).is_absolute() or ".." in Path(record["run"]).parts:
        raise ValueError("run is not a path inside the store")


def _require_plan(data: Any) -> None:
    """Raise `ValueError` unless a plan can be printed as a table."""
    _require_fields(data, PLAN_FIELDS)
    if not isinstance(data["cells"], list):
        raise ValueError("cells is not a list")
    for cell in data["cells"]:
        _require_fields(cell, PLAN_CELL_FIELDS)
        _require_kind(cell, ("column", "trial", "env"), is_text, "text")
        _require_kind(cell, ("frames",), _is_count, "a whole number")
        _require_kind(cell, ("row",), _is_texts, "a list of texts")
        _require_kind(cell, ("seeds",), lambda seeds: isinstance(seeds, list) and all(map(_is_count, seeds)), "seeds")
    texts = ("experiment", "scale", "title", "measure", "paper_table", "kind", "note")
    _require_kind(data, texts, is_text, "text")
    _require_kind(data, ("row_names",), _is_texts, "a list of texts")
    if any(len(cell["row"]) != len(data["row_names"]) for cell in data["cells"]):
        raise ValueError("a row has not as many names as row_names says")


def _require_kind(data: dict[str, Any], names: Iterable[str], fits: Callable[[Any], bool], kind: str) -> None:
    for name in names:
        if not fits(data[name]):
            raise ValueError(f"{name} is not {kind}: {shortened(data[name])}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _is_figure(value: Any) -> bool:
    return value is None or is_number(value)


def _is_curve(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_figure, value))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _require_fields(data: Any, names: frozenset[str]) -> None:
    """Raise `ValueError` unless `data` is a JSON object with these fields."""
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    if missing := sorted(names - set(data)):
        raise ValueError(f"without {', '.join(missing)}")
