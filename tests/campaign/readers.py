"""All readers of files that others may have made, each with a valid file to begin from."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from masp.config import TrainConfig, from_flat, replace, to_flat
from masp.errors import ReadingWarning, UserError
from masp.experiments import claims
from masp.experiments.store import Store
from masp.json_text import read as read_json
from masp.macros.actions import ActionSet
from masp.macros.mining.agc import read_agc
from masp.macros.recording import RecordingHeader, read_recording
from masp.similarity.bundle import load_bundle
from masp.training import array_file, config_file
from masp.training.checkpoints import Checkpoints
from masp.training.policy import environment_of
from masp.training.run_dir import RunDir, read_lines
from masp.training.similarity_history import FORMAT as HISTORY_FORMAT
from masp.training.similarity_history import VERSION as HISTORY_VERSION
from masp.training.similarity_history import read_history

FAST = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
"""Where files are written; in memory, where the system has such a place."""
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
             for name in ("format", "version", "actions", "card") if name in data}  # fmt: skip
    return save({"similarity": similarity}, {k: v.encode("utf-8", "replace").decode() for k, v in texts.items()})


def _checked(data: Any, dtypes: dict[str, str] | None = None) -> bytes:
    """A file of arrays with a fitting checksum, so that mutations get past it."""
    data = data if isinstance(data, dict) else {}
    about, arrays = data.get("about"), data.get("arrays")
    named = {str(name).encode("utf-8", "replace").decode(): _array(values, (dtypes or {}).get(name, "float32"))
             for name, values in (arrays if isinstance(arrays, dict) else {}).items()}  # fmt: skip
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        path = Path(folder) / "file"
        array_file.save(path, named, about if isinstance(about, dict) else {})
        return path.read_bytes()


def _toml(data: Any) -> bytes:
    """Settings as TOML, whose values are spelled as in JSON, as far as TOML has them."""
    data = data if isinstance(data, dict) else {"x": data}
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in data.items() if not isinstance(value, dict)]
    for name, table in data.items():
        if isinstance(table, dict):
            lines += [f"[{json.dumps(name)}]", *(f"{json.dumps(key)} = {json.dumps(v)}" for key, v in table.items())]
    return "\n".join(lines).encode("utf-8", "replace") + b"\n"


def _as_bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def _read_macros(path: Path) -> None:
    actions = ActionSet.load(path)
    assert actions.table.shape[0] == len(actions.names) == len(actions.lengths)


def _read_policy(path: Path) -> None:
    arrays, about = array_file.read(path)
    actions = ActionSet.from_json(about.get("actions"), str(path))
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


@cache
def _minari_template() -> Path:
    """A small Minari data set, made once for this process."""
    from masp.macros.minari import MinariWriter

    folder = Path(tempfile.mkdtemp(dir=FAST))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    header = RecordingHeader("Game-v0", 3, ("noop", "left", "right"))
    writer = MinariWriter(folder / "play", header, (2,), np.dtype("float32"), "random")
    for score in (0.0, 1.0):
        writer.add([np.zeros(2, np.float32)] * 4, [0, 1, 2], [0.0, 0.5, score], True, score > 0)
    return folder / "play"


def _read_minari(part: str, path: Path) -> None:
    """Read the data set with the file `part` of it replaced."""
    from masp.macros.minari import read_minari

    folder = path.parent / "play"
    if not folder.exists():
        shutil.copytree(_minari_template(), folder)
    shutil.copy(path, folder / "data" / part)
    try:
        read_minari(str(folder))
    finally:
        shutil.copy(_minari_template() / "data" / part, folder / "data" / part)


def _read_metrics(path: Path) -> None:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        read_lines(path)
    for note in notes:
        assert note.category is ReadingWarning, note
        raise UserError(str(note.message))


def _read_claim(path: Path) -> None:
    """Claims that cannot be used count as none."""
    path.replace(path.with_name("1.json"))
    if claims.holder(path.parent) is None:
        raise UserError("not a claim of a process that lives")


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
    bundle["card"] = {"env": "e", "frames": 10, "seed": 1, "figures": {"return": 0.5}, "versions": {"masp": "1"}}
    bundle["similarity"] = np.eye(len(ACTIONS)).tolist()
    row = {"frames": 60, "seconds": 1.5, "updates": 3, "eval_return": None, "decisions": [1, 2, 3]}
    record: dict[str, Any] = dict.fromkeys(("trial", "label", "env", "variant", "control", "commit", "run"), "a")
    record |= {"seed": 0, "k": None, "config": {"hidden": 64}, "chosen": {}, "frames": 4, "frames_per_second": 1.5}
    record |= {"seconds": 1.5, "finished": "now", "return": 1.0, "success": None, "curve_frames": [1, 2]}
    record |= {"curve_return": [0.5, 1.0], "curve_success": [None, None], "format": 2}
    cell = {"row": ["a"], "column": "masp", "trial": "x", "seeds": [0], "env": "e", "frames": 1}
    plan: dict[str, Any] = dict.fromkeys(("experiment", "scale", "title", "measure", "paper_table", "kind", "note"), "")
    plan |= {"row_names": ["task"], "cells": [cell]}
    settings = {"env": "CartPole-v1", "frames": 1000, "variant": "masp", "agent": {"hidden": 8, "epsilon": [1.0, 0.1]}}
    settings["similarity"] = {"penalty_weight": 0.5, "held_out": "next"}
    history = {"about": {"format": HISTORY_FORMAT, "version": HISTORY_VERSION, "stride": 1}}
    history["arrays"] = {"frames": [60, 120], "scales": [0.5, 0.25], "pairs": [[0] * 10, [255] * 10]}
    minari = []
    if importlib.util.find_spec("minari") is not None:
        files = {"metadata.json": json.loads, "0/part-0.parquet": bytes}
        contents = {part: kind((_minari_template() / "data" / part).read_bytes()) for part, kind in files.items()}
        minari = [Reader(f"minari {Path(part).suffix[1:]}", "part", partial(_read_minari, part), data, _as_bytes)
                  for part, data in contents.items()]  # fmt: skip
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
        Reader("toml", "mine.toml", config_file.read_config, settings, _toml),
        Reader("summary", "summary.json", lambda path: RunDir(path.parent).read_summary(), row, _json),
        Reader("history", "h.safetensors", lambda path: read_history(path, 5), history,
               partial(_checked, dtypes={"frames": "int64", "pairs": "uint8"})),
        Reader("claim", "claim.json", _read_claim, json.loads(claims._message({"frames": 3})), _json),
        *minari,
        Reader("agc", "play.txt", lambda path: read_agc(path, 18), agc, _text),
    ]  # fmt: skip
