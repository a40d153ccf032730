"""One unit from claim to records: the function that every executor calls."""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from masp.config import TrainConfig, replace, to_flat
from masp.errors import UserError
from masp.experiments import claims, provenance
from masp.experiments.identity import config_hash, config_of
from masp.experiments.plan import Unit
from masp.experiments.resume import all_finished, make_resumable
from masp.experiments.store import Record, Store

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Outcome:
    """How a unit went."""

    unit_id: str
    state: Literal["done", "busy", "failed"]
    """`busy`: another process has it."""
    message: str = ""


def run_unit(unit: Unit, store: Store, command: str, report: Report | None = None) -> Outcome:
    """Train the unit unless it is finished or another process has it; never raises for what a trial does wrong."""
    claim = claims.take(store.work / "claims" / unit.id)
    if claim is None:
        return Outcome(unit.id, "busy")

    def tell(progress: dict[str, Any]) -> None:
        claim.report(progress)
        if report is not None:
            report(progress)

    try:
        store.records()
        if not store.finished(unit.trial_id, unit.seeds):  # another may have finished it just before the claim
            _train_and_record(unit, store, command, tell)
        return Outcome(unit.id, "done")
    except claims.ClaimLostError:
        return Outcome(unit.id, "busy")
    except UserError as error:
        return Outcome(unit.id, "failed", str(error))
    except Exception as error:
        file = store.work / "runs" / unit.id / "error.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(traceback.format_exc())
        return Outcome(unit.id, "failed", f"{type(error).__name__}: {error} (see {file})")
    finally:
        claim.release()


def _train_and_record(unit: Unit, store: Store, command: str, tell: Report) -> None:
    import jax

    from masp.experiments.materials import chosen_settings, keep_bundle, prepare
    from masp.training.run_dir import RunDir
    from masp.training.train import train_seeds

    started = time.time()
    tell({"frames": 0, "total": unit.trial.frames, "doing": "preparing"})
    fields = prepare(unit.trial, unit.seeds, store)
    folder = store.run_dir(unit.id, unit.seeds[0]).parent
    several = len(unit.seeds) > 1
    out = folder if several else store.run_dir(unit.id, unit.seeds[0])
    config = replace(config_of(unit.trial), out=str(out), **fields)
    runs = [RunDir(store.run_dir(unit.id, seed)) for seed in unit.seeds]
    if not all_finished(runs):
        resume = make_resumable(runs, config)
        train_seeds(config, list(unit.seeds), resume, lambda frames, total, row: tell(_progress(frames, total, row)))
    chosen = chosen_settings(unit.trial, store)
    for seed, run in _pairs(unit, runs):
        keep_bundle(unit.trial, unit.trial_id, seed, run, store)
    store.append(
        [_record(unit, seed, run, config, chosen, command, started, store) for seed, run in _pairs(unit, runs)]
    )
    for run in runs:
        run.checkpoint_file.unlink(missing_ok=True)  # large, and of no use to a finished run
    jax.clear_caches()  # compiled programs of one trial are of no use to the next


def _progress(frames: int, total: int, row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: row.get(name) for name in ("frames_per_second", "return", "success")}
    return {"frames": frames, "total": total, "doing": "training", **shown}


def _pairs(unit: Unit, runs: list[Any]) -> list[tuple[int, Any]]:
    return list(zip(unit.seeds, runs, strict=True))


def _speed(rows: list[dict[str, Any]], seeds: int) -> float | None:
    """Frames per second of all seeds together, without compiling: from row to row, as long as the clock went on."""
    pairs = [(a, b) for a, b in itertools.pairwise(rows) if b["seconds"] > a["seconds"]]
    seconds = sum(b["seconds"] - a["seconds"] for a, b in pairs)
    return round(sum(b["frames"] - a["frames"] for a, b in pairs) * seeds / seconds, 1) if pairs else None


def _record(
    unit: Unit,
    seed: int,
    run: Any,
    config: TrainConfig,
    chosen: dict[str, float],
    command: str,
    started: float,
    store: Store,
) -> Record:
    """All that tables, figures and readers of the store need of one finished seed."""
    rows = run.read_metrics()
    last = rows[-1]
    evaluated = [row for row in rows if row["eval_return"] is not None]
    trial = unit.trial
    flat = to_flat(replace(config, seed=seed))
    for name in ("out", "macros", "bundle"):  # folders of this machine mean nothing elsewhere
        flat[name] = flat[name] and flat[name].removeprefix(f"{store.path}/")
    return {
        "format": 1,
        "trial": unit.trial_id,
        "seed": seed,
        "label": unit.label,
        "env": trial.env,
        "env_options": list(trial.env_options),
        "variant": trial.variant,
        "control": trial.control,
        "k": None if trial.macros is None or trial.macros.play is None else trial.macros.k,
        "noise": None if trial.macros is None else trial.macros.noise,
        "actions": len(run.read_actions()),
        "penalty_weight": flat["penalty_weight"],
        "meta_learning_rate": flat["meta_learning_rate"],
        "chosen": chosen,
        "frames": last["frames"],
        "return": last["eval_return"],
        "success": last["eval_success"],
        "similarity_auc": last["similarity_auc"],
        "curve_frames": [row["frames"] for row in evaluated],
        "curve_return": [row["eval_return"] for row in evaluated],
        "curve_success": [row["eval_success"] for row in evaluated],
        "frames_per_second": _speed(rows, len(unit.seeds)),
        "seconds": round(time.time() - started, 1),
        "seeds_together": list(unit.seeds),
        "run": str(run.path.relative_to(store.path)),
        "config_hash": config_hash(trial),
        "config": flat,
        "commit": provenance.commit(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "command": command,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
