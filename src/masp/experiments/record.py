"""The record of one finished seed: everything that tables, figures and readers of the store need.

A record says which source, packages, kernels and kind of machine its figures come from. It names no host and no folder,
because results are published.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import masp
from masp import ops
from masp.config import TrainConfig, to_flat
from masp.experiments.plan import Unit
from masp.experiments.store import FORMAT, Record, Store
from masp.experiments.trial import config_hash
from masp.training.origin import commit, machine, versions
from masp.training.run_dir import RunDir


def make_record(
    unit: Unit, config: TrainConfig, run: RunDir, chosen: dict[str, float], command: str, store: Store
) -> Record:
    """One line of the store, for the run that `config` made; `chosen` are the settings that a sweep chose."""
    rows = run.read_metrics()
    return {
        "format": FORMAT,
        "trial": unit.trial_id,
        "seed": config.seed,
        "label": unit.label,
        **_setting(unit, config, run, store),
        "chosen": chosen,
        **_figures(rows),
        "frames_per_second": _speed(rows, len(unit.seeds)),
        "seconds": _seconds(rows),
        "seeds_together": list(unit.seeds),
        "run": str(run.path.relative_to(store.path)),
        "commit": commit(),
        "version": masp.__version__,
        "versions": versions(),
        "kernels": ops.kernels_used(),
        "machine": machine(),
        "command": command,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _setting(unit: Unit, config: TrainConfig, run: RunDir, store: Store) -> dict[str, Any]:
    """What was trained."""
    trial = unit.trial
    flat = to_flat(config)
    for name in ("out", "macros", "similarity_start", "init_from"):  # paths relative to the store, because stores move
        flat[name] = flat[name].removeprefix(f"{store.path}/")
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
        "config_hash": config_hash(trial),
        "config": flat,
    }


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The last evaluation, and the curve of all evaluations."""
    last = rows[-1]
    evaluations = [row for row in rows if row["eval_return"] is not None]
    return {
        "frames": last["frames"],
        "demonstrated_steps": last.get("demonstrated_steps", 0),
        "return": last["eval_return"],
        "success": last["eval_success"],
        "similarity_auc": last["similarity_auc"],
        "curve_frames": [row["frames"] for row in evaluations],
        "curve_return": [row["eval_return"] for row in evaluations],
        "curve_success": [row["eval_success"] for row in evaluations],
    }


def _seconds(rows: list[dict[str, Any]]) -> float:
    """Time of training and evaluation, summed over the parts of a run that was interrupted."""
    ends = [a["seconds"] for a, b in itertools.pairwise(rows) if b["seconds"] < a["seconds"]]
    return round(sum(ends) + rows[-1]["seconds"], 1)


def _speed(rows: list[dict[str, Any]], seeds: int) -> float | None:
    """Frames per second of all seeds together, without compilation: summed over rows of the same process."""
    pairs = [(a, b) for a, b in itertools.pairwise(rows) if b["seconds"] > a["seconds"]]
    seconds = sum(b["seconds"] - a["seconds"] for a, b in pairs)
    return round(sum(b["frames"] - a["frames"] for a, b in pairs) * seeds / seconds, 1) if pairs else None
