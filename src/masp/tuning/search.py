"""The search: trials with several seeds each, pruned early, in a journal that any number of workers share.

out/journal.log       all trials, as lines of JSON (Optuna's journal): the only state of a search
out/trials/NNNN/      one run directory per seed, without its checkpoints once the trial has ended
out/workers/          a folder per worker, locked while its process lives
out/best.toml         the best settings so far, for `masp train --config`
out/tuning.png        which settings mattered

A worker that was killed leaves a trial that is running but whose worker holds no lock; the next worker to look gives
its settings back to the queue.
"""

from __future__ import annotations

import os
import shutil
import socket
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from masp import json_text
from masp.config import SEED_LIMIT, TrainConfig, replace, to_flat
from masp.environments import is_jax, make_env
from masp.errors import TrainingError, UserCodeError, UserError
from masp.training.callbacks import Callback, RunView
from masp.training.lock import RunLock
from masp.training.train import train_runs
from masp.tuning.space import Axis, values_of

FIRST_SEED = SEED_LIMIT // 2
"""Seeds of trials are this one and above: what is selected on is never what is reported."""
STARTUP_TRIALS = 5
"""Trials that are drawn at random and never pruned."""


@dataclass(frozen=True)
class Search:
    """What is searched for, and where."""

    config: TrainConfig
    axes: tuple[Axis, ...]
    seeds: int
    metric: str
    out: Path

    def about(self) -> dict[str, Any]:
        """What all workers of a search must agree on."""
        axes = [[a.name, *(a.choices or ("range", a.low, a.high))] for a in self.axes]
        settings = {name: value for name, value in to_flat(self.config).items() if name not in ("out", "seed")}
        return {"settings": settings, "axes": axes, "seeds": self.seeds, "metric": self.metric}

    def trial_config(self, values: Mapping[str, Any]) -> TrainConfig:
        return replace(self.config, **values)


def search(what: Search, trials: int, callbacks: Sequence[Callback] = ()) -> optuna.Study:
    """Work on the search until `trials` trials have ended or are in the hands of other workers."""
    what.out.mkdir(parents=True, exist_ok=True)
    study = open_study(what)
    name = f"{socket.gethostname()}-{os.getpid()}"
    folder = what.out / "workers" / name
    folder.mkdir(parents=True, exist_ok=True)
    lock = RunLock(folder)
    try:
        while True:
            give_back_abandoned(study, what.out)
            if len(_in_state(study, TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)) >= trials:
                return study
            _work_on_one(study, what, name, callbacks)
    finally:
        lock.release()


def open_study(what: Search) -> optuna.Study:
    """The study of a search, begun or gone on with; its first trial is the preset."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(what.out / "journal.log")))
    period = what.config.eval_every_frames or what.config.frames
    pruner = optuna.pruners.MedianPruner(STARTUP_TRIALS, n_warmup_steps=what.config.frames // period // 4)
    study = optuna.create_study(
        storage=storage, study_name="masp", direction="maximize", pruner=pruner, load_if_exists=True
    )
    about = json_text.dumps(what.about())
    before = study.user_attrs.get("about")
    if before is None:
        study.set_user_attr("about", about)
        study.enqueue_trial(values_of(what.config, what.axes), skip_if_exists=True)
    elif before != about:
        names = ", ".join(_differing(*(json_text.parse(text, str(what.out)) for text in (before, about))))
        raise UserError(
            f"{what.out} holds a search with other settings ({names}); give the same ones, or another --out"
        )
    return study


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Names of the settings that two searches do not have in common."""
    one, other = ({**about["settings"], **about, "settings": None} for about in (before, now))
    missing = object()
    return sorted(name for name in {*one, *other} if one.get(name, missing) != other.get(name, missing))


def give_back_abandoned(study: optuna.Study, out: Path) -> None:
    """Queue the settings of trials whose worker has died."""
    for trial in _in_state(study, TrialState.RUNNING):
        worker = trial.user_attrs.get("worker")
        if worker is not None and not _is_alive(out / "workers" / worker):
            _give_back(study, trial.number, trial.params)


def _is_alive(folder: Path) -> bool:
    try:
        RunLock(folder).release()
    except UserError:
        return True
    return False


def _give_back(study: optuna.Study, number: int, values: dict[str, Any]) -> None:
    try:
        study.tell(number, state=TrialState.FAIL)
    except ValueError:  # another worker was quicker
        return
    if values:
        study.enqueue_trial(values)


def _in_state(study: optuna.Study, *states: TrialState) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=states)


def ended(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that were completed or pruned; interrupted ones have been queued again under another number."""
    return _in_state(study, TrialState.COMPLETE, TrialState.PRUNED)


def _work_on_one(study: optuna.Study, what: Search, worker: str, callbacks: Sequence[Callback]) -> None:
    """Take a trial and bring it to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # The seed differs between workers that start at different numbers of trials, and repeats for a single one.
        study.sampler = optuna.samplers.TPESampler(
            seed=len(study.get_trials(deepcopy=False)), n_startup_trials=STARTUP_TRIALS, constant_liar=True
        )
    trial = study.ask()
    trial.set_user_attr("worker", worker)
    judge = Judge(trial, what)
    try:
        config = what.trial_config({axis.name: axis.suggest(trial) for axis in what.axes})
        _train(config, what, trial.number, judge, callbacks)
    except TrainingError as error:
        if isinstance(error, UserCodeError):
            _give_back(study, trial.number, trial.params)
            raise
        judge.pruned = True  # a setting that diverges is a bad one
        trial.set_user_attr("error", str(error))
    except BaseException:
        _give_back(study, trial.number, trial.params)
        raise
    if judge.pruned:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, judge.score())


def _train(config: TrainConfig, what: Search, number: int, judge: Judge, callbacks: Sequence[Callback]) -> None:
    """All seeds of a trial: at once where the environment is in JAX, else one after another."""
    folder = what.out / "trials" / f"{number:04d}"
    shutil.rmtree(folder, ignore_errors=True)
    runs = [replace(config, seed=FIRST_SEED + i, out=str(folder / f"seed-{FIRST_SEED + i}")) for i in range(what.seeds)]
    together = is_jax(make_env(config.env, config.env_options))
    for group in [runs] if together else [[run] for run in runs]:
        judge.group = [Path(run.out) for run in group]
        train_runs(group, callbacks=[judge, *callbacks])
        if judge.pruned:
            break
    for run in runs:
        shutil.rmtree(Path(run.out) / "checkpoints", ignore_errors=True)


class Judge(Callback):
    """Reports a trial's evaluations to Optuna, and stops its runs when the trial is pruned.

    The score of a run is the mean of its evaluations so far, so that fast learning counts; that of a trial is the mean
    over its seeds. Seeds that train one after another are judged at different steps.
    """

    def __init__(self, trial: optuna.Trial, what: Search):
        self._trial, self._metric = trial, what.metric
        self.pruned = False
        self.group: list[Path] = []
        """The runs that train now."""
        self._evaluations: dict[Path, list[float]] = {}
        self._reports = 0

    def score(self) -> float:
        """Mean over the runs of the mean of their evaluations."""
        return float(np.mean([np.mean(values) for values in self._evaluations.values()]))

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> bool:
        del run, row
        return self.pruned

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> bool:
        value = row.get(self._metric)
        if value is None:
            raise UserError(f"{run.config.env} has no value for the metric {self._metric}; choose another --metric")
        self._evaluations.setdefault(run.path, []).append(float(value))
        counts = {len(self._evaluations.get(path, ())) for path in self.group}
        if run.path == self.group[-1] and len(counts) == 1:
            self._trial.report(self.score(), self._reports)
            self._reports += 1
            self.pruned = self._trial.should_prune()
        return self.pruned
