"""The record of one finished seed: all that tables, figures and readers of the store need."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

from masp.config import TrainConfig, to_flat
from masp.experiments import provenance
from masp.experiments.identity import config_hash
from masp.experiments.plan import Unit
from masp.experiments.store import Record, Store
from masp.training.run_dir import RunDir


@dataclass(frozen=True)
class Context:
    """What all seeds of a unit have in common."""

    chosen: dict[str, float]
    """Settings that a sweep chose."""
    command: str


def make_record(unit: Unit, config: TrainConfig, run: RunDir, context: Context, store: Store) -> Record:
    """One line of the store, of the run that `config` made."""
    rows = run.read_metrics()
    return {
        "format": 1,
        "trial": unit.trial_id,
        "seed": config.seed,
        "label": unit.label,
        **_setting(unit, config, run, context, store),
        **_figures(rows),
        "frames_per_second": _speed(rows, len(unit.seeds)),
        "seconds": _seconds(rows),
        "seeds_together": list(unit.seeds),
        "run": str(run.path.relative_to(store.path)),
        "commit": provenance.commit(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "command": context.command,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _setting(unit: Unit, config: TrainConfig, run: RunDir, context: Context, store: Store) -> dict[str, Any]:
    """What was trained."""
    trial = unit.trial
    flat = to_flat(config)
    for name in ("out", "macros", "similarity_start"):  # folders of this machine mean nothing elsewhere
        flat[name] = flat[name] and flat[name].removeprefix(f"{store.path}/")
    return {
        "env": trial.env,
        "env_options": list(trial.env_options),
        "variant": trial.variant,
        "control": trial.control,
        "k": None if trial.macros is None or trial.macros.play is None else trial.macros.k,
        "noise": None if trial.macros is None else trial.macros.noise,
        "actions": len(run.read_actions()),
        "penalty_weight": flat["penalty_weight"],
        "meta_learning_rate": flat["meta_learning_rate"],
        "chosen": context.chosen,
        "config_hash": config_hash(trial),
        "config": flat,
    }


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What came out: the last evaluation, and the curve of all."""
    last = rows[-1]
    evaluated = [row for row in rows if row["eval_return"] is not None]
    return {
        "frames": last["frames"],
        "return": last["eval_return"],
        "success": last["eval_success"],
        "similarity_auc": last["similarity_auc"],
        "curve_frames": [row["frames"] for row in evaluated],
        "curve_return": [row["eval_return"] for row in evaluated],
        "curve_success": [row["eval_success"] for row in evaluated],
    }


def _seconds(rows: list[dict[str, Any]]) -> float:
    """Of training with its evaluations, of all parts of a run that was stopped and went on."""
    ends = [a["seconds"] for a, b in itertools.pairwise(rows) if b["seconds"] < a["seconds"]]
    return round(sum(ends) + rows[-1]["seconds"], 1)


def _speed(rows: list[dict[str, Any]], seeds: int) -> float | None:
    """Frames per second of all seeds together, without compiling: from row to row, as long as the clock went on."""
    pairs = [(a, b) for a, b in itertools.pairwise(rows) if b["seconds"] > a["seconds"]]
    seconds = sum(b["seconds"] - a["seconds"] for a, b in pairs)
    return round(sum(b["frames"] - a["frames"] for a, b in pairs) * seeds / seconds, 1) if pairs else None
