"""Feed damaged and hostile files to every reader: each must accept them or raise `UserError` with one line.

    python tests/campaign/fuzz_readers.py --inputs 100000 --seed 0

prints a table: reader, inputs, refused, accepted, other exceptions, slowest in seconds of CPU time, growth of the peak
memory in MB. Inputs that raise anything else are kept in --keep. `test_fuzz_readers.py` runs a few hundred of each.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from masp.config import TrainConfig, replace, to_flat
from masp.errors import ReadingWarning, UserError
from masp.experiments.store import Store
from masp.json_text import read as read_json
from masp.macros.actions import ActionSet
from masp.macros.mining.agc import read_agc
from masp.macros.recording import read_recording
from masp.similarity.bundle import load_bundle
from masp.training import array_file, config_file
from masp.training.checkpoints import Checkpoints
from masp.training.policy import environment_of
from masp.training.run_dir import read_lines

BYTES = (b"NaN", b"Infinity", b"1e999", b"-1", b"9" * 5000, b"[" * 100_000, b"\xff\xfe", b"\0", b'"\\ud800"', b"true")
BYTES += (b"null", b"{}", b"\r", b"\n", b",", b'"', b"99999999999999999999", b"\x1b[31m", b"\xef\xbb\xbf", b"0.5")
VALUES = (None, True, False, -1, 0, 1, 10**12, 2**63, 10**400, 1e308, float("nan"), float("-inf"), 0.5, "", "\0")
VALUES += ("\ud800", "\x1b[2J", "../../etc/passwd", [], {}, [[]], [None], [1e400], "x" * 10_000, [0] * 1000)
ACTIONS = ActionSet(3, [(0, 1), (2, 2, 2)], ["noop", "left", "right"], "Game-v0")
CONFIG = replace(TrainConfig(env="planted-grid"), hidden=4, num_atoms=1)


@dataclass(frozen=True)
class Reader:
    """One reader of files, and valid files to begin from."""

    name: str
    file: str
    read: Callable[[Path], Any]
    data: Any
    """A valid content as JSON values (or bytes), which structure mutations change."""
    encode: Callable[[Any], bytes]


@dataclass
class Tally:
    """What happened to the inputs of one reader."""

    refused: int = 0
    accepted: int = 0
    others: int = 0
    slowest: float = 0.0
    grown: float = 0.0


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


def _lines(data: Any) -> bytes:
    entries = data if isinstance(data, list) else [data]
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def _text(data: Any) -> bytes:
    rows = data if isinstance(data, list) else [data]
    fields = [row if isinstance(row, list) else [row] for row in rows]
    return b"".join(b",".join(str(f)[:5000].encode("utf-8", "replace") for f in row) + b"\n" for row in fields)


def _array(values: Any, dtype: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            return np.array(values, dtype)
    except (ValueError, TypeError, OverflowError):
        return np.array([0.5], np.float32)


def _bundle(data: Any) -> bytes:
    """A safetensors file without a checksum, as bundles are."""
    data = data if isinstance(data, dict) else {}
    similarity = _array(data.get("similarity"), "float32" if data.get("float", True) else "int32")
    texts = {name: data[name] if isinstance(data[name], str) else json.dumps(data[name])
             for name in ("format", "version", "actions") if name in data}  # fmt: skip
    return save({"similarity": similarity}, {k: v.encode("utf-8", "replace").decode() for k, v in texts.items()})


def _checked(data: Any) -> bytes:
    """A file of arrays with a fitting checksum, so that mutations get past it."""
    data = data if isinstance(data, dict) else {}
    about, arrays = data.get("about"), data.get("arrays")
    named = {str(name).encode("utf-8", "replace").decode(): _array(values, "float32")
             for name, values in (arrays if isinstance(arrays, dict) else {}).items()}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        array_file.save(path, named, about if isinstance(about, dict) else {})
        return path.read_bytes()


def _read_macros(path: Path) -> None:
    actions = ActionSet.load(path)
    assert actions.table.shape[0] == len(actions.names) == len(actions.lengths)


def _read_policy(path: Path) -> None:
    arrays, about = array_file.read(path)
    actions = ActionSet.from_json(about.get("actions"), str(path))
    from masp.config import from_flat

    from_flat(about.get("config"), str(path))  # type: ignore[arg-type]
    environment_of(about, actions, str(path))
    array_file.fill({"w": np.zeros(2, np.float32)}, arrays, path)


def _read_checkpoint(path: Path) -> None:
    path.rename(path.with_name("checkpoint-000000000003.safetensors"))
    (path.parent / "replay-000000000000.rows").write_bytes(bytes(8))
    like, ring = {"w": np.zeros(2, np.float32)}, np.zeros((4, 1, 2), np.uint8)
    Checkpoints(path.parent).load(3, like, ring)


def _read_store(path: Path) -> None:
    folder = path.parent / "records"
    folder.mkdir(exist_ok=True)
    path.replace(folder / path.name)
    store = Store(path.parent)
    store.records()
    if store.problems:
        raise UserError(next(iter(store.problems.values())))


def _read_plan(path: Path) -> None:
    folder = path.parent / "plans"
    folder.mkdir(exist_ok=True)
    path.replace(folder / "tiny-smoke.json")
    store = Store(path.parent)
    if store.read_plan("tiny", "smoke") is None:
        raise UserError(next(iter(store.problems.values())))


def _read_metrics(path: Path) -> None:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        read_lines(path)
    for note in notes:
        assert note.category is ReadingWarning, note
        raise UserError(str(note.message))


def readers() -> list[Reader]:
    """All readers of files that others may have made."""
    recording = {"format": "masp-recording", "version": 1, "env_id": "e", "num_primitives": 3, "primitive_names": []}
    episodes = [{"actions": [0, 1, 2, 2], "score": 1.5, "success": True, "frames": 4}, {"actions": []}]
    environment = {"env_id": "e", "observation_shape": [4], "observation_dtype": "float32", "frames_per_step": 1}
    environment |= {"observation_kind": "vector", "success_above": None}  # type: ignore[dict-item]
    about = {"format": "masp-policy", "version": 2, "config": to_flat(CONFIG), "actions": ACTIONS.to_json()}
    arrays = {"['w']": [0.5, 1.0]}
    entry = {
        "file": "replay-000000000000.rows",
        "first_tick": 0,
        "ticks": 4,
        "bytes": 8,
        "sha256": hashlib.sha256(bytes(8)).hexdigest(),
    }
    saved = {"format": "masp-checkpoint", "version": 2, "replay": [entry], "seconds": 1.5, "best": None}
    saved |= {"row_frames": 3, "frames_at_row": 3, "row_usage": [1, 2]}
    bundle = {"format": "masp-bundle", "version": "1", "actions": ACTIONS.to_json(), "float": True}
    bundle["similarity"] = np.eye(len(ACTIONS)).tolist()
    row = {"frames": 60, "seconds": 1.5, "updates": 3, "eval_return": None, "decisions": [1, 2, 3]}
    record: dict[str, Any] = dict.fromkeys(("trial", "label", "env", "variant", "control", "commit", "run"), "a")
    record |= {"seed": 0, "k": None, "config": {"hidden": 64}, "chosen": {}, "frames": 4, "frames_per_second": 1.5}
    record |= {"seconds": 1.5, "finished": "now", "return": 1.0, "success": None, "curve_frames": [1, 2]}
    record |= {"curve_return": [0.5, 1.0], "curve_success": [None, None], "format": 2}
    cell = {"row": ["a"], "column": "masp", "trial": "x", "seeds": [0], "env": "e", "frames": 1}
    plan: dict[str, Any] = dict.fromkeys(("experiment", "scale", "title", "measure", "paper_table", "kind", "note"), "")
    plan |= {"row_names": ["task"], "cells": [cell]}
    agc = [["frame", "reward", "score", "terminal", "action"], [0, 0, 0, 0, 3], [1, 2.5, 2.5, "True", 17]]
    return [
        Reader("macros", "macros.json", _read_macros, ACTIONS.to_json(), _json),
        Reader("bundle", "b.safetensors", load_bundle, bundle, _bundle),
        Reader("recording", "play.jsonl", lambda path: list(read_recording(path)), [recording, *episodes], _lines),
        Reader(
            "config",
            "config.json",
            lambda path: config_file.from_file(read_json(path), str(path), lambda: 8),
            config_file.to_file(CONFIG),
            _json,
        ),
        Reader("policy", "p.safetensors", _read_policy,
               {"about": {**about, "environment": environment}, "arrays": arrays}, _checked),
        Reader("checkpoint", "c.safetensors", _read_checkpoint, {"about": saved, "arrays": arrays}, _checked),
        Reader("metrics", "metrics.jsonl", _read_metrics, [row, {**row, "frames": 120}], _lines),
        Reader("records", "r.jsonl", _read_store, [record, {**record, "seed": 1}], _lines),
        Reader("plan", "plan.json", _read_plan, plan, _json),
        Reader("agc", "play.txt", lambda path: read_agc(path, 18), agc, _text),
    ]  # fmt: skip


def mutated(reader: Reader, rng: random.Random) -> bytes:
    """A damaged or hostile input."""
    data = reader.data
    if rng.random() < 0.6:
        data = copy.deepcopy(data)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            data = _mutated_structure(data, rng)
    content = reader.encode(data)
    if data is reader.data or rng.random() < 0.2:
        for _ in range(rng.choice((1, 1, 2, 8))):
            content = _mutated_bytes(content, rng)
    return content


def _mutated_structure(data: Any, rng: random.Random) -> Any:
    """`data` with one node replaced, removed or repeated."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, part in list(items):
            places.append((node, key))
            visit(part)

    visit(data)
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(VALUES))
    node, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.15:
        del node[key]
    elif kind < 0.25 and isinstance(node, list):
        node[key : key + 1] = [node[key]] * rng.choice((0, 2, 1000))
    elif kind < 0.35 and isinstance(node, dict):
        node[rng.choice(("", "x", "\ud800", "format", "frames", "macros", "__metadata__"))] = copy.deepcopy(
            rng.choice(VALUES)
        )
    elif kind < 0.4:
        node[key] = [node[key]]
    else:
        node[key] = copy.deepcopy(rng.choice(VALUES))
    return data


def _mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    at, kind = rng.randrange(len(content) + 1), rng.random()
    if kind < 0.3 and at < len(content):
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if kind < 0.45:
        return content[:at]
    if kind < 0.6:
        return content[:at] + content[at + rng.randrange(1, 40) :]
    if kind < 0.7:
        return content[:at] + content[max(0, at - 30) :]
    if kind < 0.75 and len(content) >= 8:
        return struct.pack("<Q", rng.choice((0, 7, 2**31, 2**62, 2**64 - 1))) + content[8:]
    return content[:at] + rng.choice(BYTES) + content[at + rng.choice((0, 1, 4)) :]


def try_input(reader: Reader, content: bytes, folder: Path, tally: Tally) -> BaseException | None:
    """Read one input; the exception, if it is not the clear one."""
    path = folder / reader.file
    path.write_bytes(content)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        reader.read(path)
        tally.accepted += 1
    except UserError as error:
        tally.refused += 1
        if "\n" in str(error) or len(str(error)) > 1000:
            tally.others += 1
            return error
    except BaseException as error:  # also panics of libraries in Rust
        if isinstance(error, KeyboardInterrupt):
            raise
        tally.others += 1
        return error
    finally:
        tally.slowest = max(tally.slowest, time.process_time() - started)
        tally.grown += (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return None


def fuzz(reader: Reader, inputs: int, seed: int, keep: Path | None = None, seconds: float = 1e9) -> Tally:
    """Try so many inputs, or as many as there is time for."""
    rng, tally = random.Random(f"{reader.name} {seed}"), Tally()
    fast = Path("/dev/shm")
    end = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as folder:
        for _ in range(inputs):
            content = mutated(reader, rng)
            error = try_input(reader, content, Path(folder), tally)
            if error is not None and tally.others <= 3:
                text = "".join(traceback.format_exception(error)[-3:])
                print(f"{reader.name}: {content[:300]!r}\n{text[-1500:]}", file=sys.stderr)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{reader.name}-{seed}-{tally.others}").write_bytes(content)
            if time.perf_counter() > end:
                break
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="over all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="most time per reader")
    parser.add_argument("--only", default="", help="name of one reader")
    parser.add_argument("--keep", type=Path, help="folder for inputs that raise something else")
    args = parser.parse_args()
    chosen = [reader for reader in readers() if args.only in ("", reader.name)]
    print(f"{'reader':12} {'inputs':>8} {'refused':>8} {'accepted':>8} {'others':>7} {'slowest s':>10} {'grown MB':>9}")
    others = 0
    for reader in chosen:
        tally = fuzz(reader, args.inputs // len(chosen), args.seed, args.keep, args.seconds)
        total, others = tally.refused + tally.accepted, others + tally.others
        figures = f"{total:8} {tally.refused:8} {tally.accepted:8} {tally.others:7}"
        print(f"{reader.name:12} {figures} {tally.slowest:10.3f} {tally.grown:9.0f}", flush=True)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
