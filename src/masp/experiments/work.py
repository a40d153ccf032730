"""One unit from claim to records: the function that every executor calls.

A killed process leaves run directories behind, and training writes the files of each seed one after the other. Either
all seeds of a unit resume from checkpoints of the same tick, or all start again; never a mixture.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from masp.config import TrainConfig, replace, to_flat
from masp.environments.registry import family_of
from masp.errors import UserError
from masp.experiments import claims
from masp.experiments.plan import Unit
from masp.experiments.store import Store
from masp.experiments.trial import IGNORED, config_of
from masp.ops import cache_programs, tune_this_process
from masp.training.callbacks import Callback, RunView
from masp.training.run_dir import RunDir, read_json, write_json

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Outcome:
    """How a unit ended."""

    unit_id: str
    state: Literal["done", "busy", "failed"]
    """`busy`: another process has claimed it."""
    message: str = ""


def prepare_process(unit: Unit, store: Store) -> None:
    """Tune a worker process for a unit, see `tune_this_process`; threads are chosen for the first unit it runs.

    Its programs are kept in the store: trials of an experiment mostly differ in values, not in shapes.
    """
    tune_this_process(family_of(unit.trial.env).preset if len(unit.seeds) == 1 else None)
    cache_programs(store.work / "compiled")


def run_unit(unit: Unit, store: Store, command: str, report: Report | None = None) -> Outcome:
    """Train the unit unless it is finished or claimed by another process; errors of a trial become outcomes."""
    try:
        claim = claims.take(store.work / "claims" / unit.id)
    except OSError as error:
        return Outcome(unit.id, "failed", f"the store is not writable, or does not support hard links: {error}")
    if claim is None:
        return Outcome(unit.id, "busy")

    def report_progress(progress: dict[str, Any]) -> None:
        claim.report(progress)
        if report is not None:
            report(progress)

    try:
        store.records()
        if not store.finished(unit.trial_id, unit.seeds):  # another process may have finished it before the claim
            _train_and_record(unit, store, command, report_progress)
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


def _train_and_record(unit: Unit, store: Store, command: str, report: Report) -> None:
    import jax

    from masp.experiments.materials import chosen_settings, keep_bundle, prepare
    from masp.experiments.record import make_record

    report({"frames": 0, "total": unit.trial.frames, "doing": "preparing"})
    configs = [
        replace(
            config_of(unit.trial),
            seed=seed,
            out=str(store.run_dir(unit.id, seed)),
            **prepare(unit.trial, seed, store),
        )
        for seed in unit.seeds
    ]
    runs = [RunDir(config.out) for config in configs]
    if not all(run.finished for run in runs):
        _train(configs, runs, _Progress(report))
    for seed, run in zip(unit.seeds, runs, strict=True):
        keep_bundle(unit.trial, seed, run, store)
    chosen = chosen_settings(unit.trial, store)
    pairs = zip(configs, runs, strict=True)
    store.append([make_record(unit, config, run, chosen, command, store) for config, run in pairs])
    for run in runs:
        run.checkpoints.remove_after(-1)  # large, and a finished run does not need them
    jax.clear_caches()  # the next trial has other programs


def _train(configs: list[TrainConfig], runs: list[RunDir], progress: Callback) -> None:
    """Train to the end, from the last checkpoint if there is a usable one."""
    from masp.training.array_file import OtherLayoutError
    from masp.training.train import train_runs

    try:
        train_runs(configs, make_resumable(runs, configs), [progress])
    except OtherLayoutError:  # same settings, but the checkpoint is of another version of the package
        for run in runs:
            shutil.rmtree(run.path)
        train_runs(configs, False, [progress])


class _Progress(Callback):
    """Passes the newest row on to the runner."""

    def __init__(self, report: Report):
        self._report = report

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        figures = {name: row.get(name) for name in ("frames_per_second", "return", "success")}
        self._report({"frames": row["frames"], "total": run.config.frames, "doing": "training", **figures})


def make_resumable(runs: Sequence[RunDir], configs: Sequence[TrainConfig]) -> bool:
    """Put the run directories of a unit into a consistent state; returns whether there is anything to resume."""
    for run, config in zip(runs, configs, strict=True):
        if run.path.exists() and not run.config_file.exists():
            shutil.rmtree(run.path)  # killed before training began
        elif run.path.exists():
            run.summary_file.unlink(missing_ok=True)  # written again when all seeds are done
            _refresh_config(run, config)
    return any(run.config_file.exists() for run in runs)


def _refresh_config(run: RunDir, config: TrainConfig) -> None:
    """Update the settings that change no result: the store may have been moved since the run began."""
    flat = to_flat(config)
    current = {name: flat[name] for name in IGNORED if name != "seed"}
    write_json(run.config_file, {**read_json(run.config_file), **current})
