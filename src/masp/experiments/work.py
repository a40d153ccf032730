"""One unit from claim to records: the function that every executor calls."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from masp.config import TrainConfig, replace
from masp.environments.registry import family_of
from masp.errors import UserError
from masp.experiments import claims
from masp.experiments.identity import config_of
from masp.experiments.plan import Unit
from masp.experiments.record import Context, make_record
from masp.experiments.resume import all_finished, make_resumable
from masp.experiments.store import Store
from masp.ops import tune_this_process

if TYPE_CHECKING:
    from masp.training.run_dir import RunDir
    from masp.training.train import Progress

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Outcome:
    """How a unit went."""

    unit_id: str
    state: Literal["done", "busy", "failed"]
    """`busy`: another process has it."""
    message: str = ""


def tune_for(unit: Unit) -> None:
    """Tune a worker process for a unit, see `tune_this_process`; threads are chosen for the first unit it runs."""
    tune_this_process(family_of(unit.trial.env).preset if len(unit.seeds) == 1 else None)


def run_unit(unit: Unit, store: Store, command: str, report: Report | None = None) -> Outcome:
    """Train the unit unless it is finished or another process has it; never raises for what a trial does wrong."""
    try:
        claim = claims.take(store.work / "claims" / unit.id)
    except OSError as error:
        return Outcome(unit.id, "failed", f"the store cannot be written, or knows no hard links: {error}")
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

    tell({"frames": 0, "total": unit.trial.frames, "doing": "preparing"})
    folders = {seed: store.run_dir(unit.id, seed) for seed in unit.seeds}
    configs = [
        replace(config_of(unit.trial), seed=seed, out=str(folder), **prepare(unit.trial, seed, store))
        for seed, folder in folders.items()
    ]
    runs = [RunDir(folder) for folder in folders.values()]
    if not all_finished(runs):
        _train(configs, runs, lambda frames, total, row: tell(_progress(frames, total, row)))
    for seed, run in zip(unit.seeds, runs, strict=True):
        keep_bundle(unit.trial, unit.trial_id, seed, run, store)
    context = Context(chosen_settings(unit.trial, store), command)
    store.append([make_record(unit, config, run, context, store) for config, run in zip(configs, runs, strict=True)])
    for run in runs:
        run.checkpoint_file.unlink(missing_ok=True)  # large, and of no use to a finished run
    jax.clear_caches()  # compiled programs of one trial are of no use to the next


def _train(configs: list[TrainConfig], runs: list[RunDir], progress: Progress) -> None:
    """Train to the end, from the last checkpoint if there is one that can be used."""
    from masp.training.checkpoint import OtherLayoutError
    from masp.training.train import train_runs

    try:
        train_runs(configs, make_resumable(runs, configs), progress)
    except OtherLayoutError:  # the settings are the same, so the package has changed since
        for run in runs:
            shutil.rmtree(run.path)
        train_runs(configs, False, progress)


def _progress(frames: int, total: int, row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: row.get(name) for name in ("frames_per_second", "return", "success")}
    return {"frames": frames, "total": total, "doing": "training", **shown}
