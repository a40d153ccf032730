"""Results of a search: the best settings as a file, a picture of what mattered, and a check with other seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from matplotlib.ticker import NullFormatter
from optuna.trial import TrialState

from masp import json_text
from masp.config import TrainConfig, replace, to_flat
from masp.errors import UserError
from masp.presets import from_preset
from masp.report.figures import save_figure, subplots
from masp.report.statistics import bootstrap_interval, compare, difference_of
from masp.training.callbacks import Callback
from masp.training.run_dir import RunDir
from masp.training.train import train_runs
from masp.tuning.search import Search
from masp.tuning.space import values_of

GREY, RED, BLUE = "#b0b0b0", "#d62728", "#1f77b4"


def complete(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def best_config(study: optuna.Study, what: Search) -> TrainConfig:
    """The configuration of the best trial."""
    if not complete(study):
        raise UserError(f"{what.out}: no trial has been completed")
    return what.trial_config(study.best_trial.params)


def write_best(study: optuna.Study, what: Search, preset: str) -> Path:
    """Write the settings of the best trial as TOML, for `masp train --config`."""
    config, file = best_config(study, what), what.out / "best.toml"
    base = to_flat(from_preset(preset, config.env))
    settings = {
        name: value
        for name, value in to_flat(config).items()
        if name not in ("env", "seed", "out") and value != base[name]
    }
    trial = study.best_trial
    lines = [
        f"# Trial {trial.number} of {len(complete(study))} completed ones: mean {what.metric} {trial.value:.4g} of "
        f"{what.seeds} seeds.",
        f"env = {_toml(config.env)}",
        f"preset = {_toml(preset)}",
        *[f"{name} = {_toml(value)}" for name, value in settings.items()],
    ]
    json_text.replace_text(file, "\n".join(lines) + "\n")
    return file


def _toml(value: Any) -> str:
    """Texts, numbers, booleans and lists of them look in TOML as in JSON."""
    return json_text.dumps(value)


def importances(study: optuna.Study) -> dict[str, float]:
    """Share of each setting in what makes a trial good (PED-ANOVA); empty for fewer than four completed trials."""
    varied = {name for trial in complete(study) for name in trial.params}
    if len(complete(study)) < 4 or len({trial.value for trial in complete(study)}) < 2 or len(varied) < 2:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return optuna.importance.get_param_importances(study, evaluator=evaluator)


def preset_trials(study: optuna.Study, what: Search) -> list[optuna.trial.FrozenTrial]:
    """The completed trials of the preset: none while it trains or if it is outside of the ranges."""
    preset = values_of(what.config, what.axes)
    return [trial for trial in complete(study) if trial.params == preset]


def draw(study: optuna.Study, what: Search) -> Path | None:
    """A panel per setting, the most important first: the score of every trial over the setting's value."""
    trials, shares = complete(study), importances(study)
    if not trials:
        return None
    axes = sorted(what.axes, key=lambda axis: -shares.get(axis.name, 0.0))
    marked = [(trial, BLUE) for trial in preset_trials(study, what)] + [(study.best_trial, RED)]
    figure, panels = subplots(1, len(axes), (2.6 * len(axes) + 0.6, 3.0), squeeze=False)
    for panel, axis in zip(panels[0], axes, strict=True):
        values = [trial.params[axis.name] for trial in trials]
        x = [axis.choices.index(value) for value in values] if axis.choices else values
        panel.scatter(x, [trial.value for trial in trials], color=GREY, s=16)
        for trial, colour in marked:
            place = trial.params[axis.name]
            panel.scatter([axis.choices.index(place) if axis.choices else place], [trial.value], color=colour, s=30)
        if axis.choices:
            panel.set_xticks(range(len(axis.choices)), [str(choice) for choice in axis.choices])
        elif axis.is_logarithmic:
            panel.set_xscale("log")
            panel.set_xlim(axis.low / 1.2, axis.high * 1.2)  # at least one power of ten; minor labels overlap
            panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_title(f"importance {shares[axis.name]:.2f}" if axis.name in shares else "", fontsize=9)
        panel.set_xlabel(axis.name)
    panels[0][0].set_ylabel(f"mean {what.metric}")
    figure.suptitle(f"{what.config.env}: {len(trials)} trials; blue the preset, red the best", fontsize=10)
    save_figure(figure, what.out / "tuning.png")
    return what.out / "tuning.png"


@dataclass(frozen=True)
class Check:
    """The preset and the best settings on seeds that the search never used."""

    preset: list[float]
    tuned: list[float]

    def figures(self) -> dict[str, Any]:
        """Means with bootstrap intervals, and of the difference."""
        difference, low, high = compare([self.tuned], [self.preset], difference_of)
        return {
            "preset": float(np.mean(self.preset)),
            "preset_interval": list(bootstrap_interval(self.preset)),
            "tuned": float(np.mean(self.tuned)),
            "tuned_interval": list(bootstrap_interval(self.tuned)),
            "difference": difference,
            "difference_interval": [low, high],
        }


def check(study: optuna.Study, what: Search, seeds: int, callbacks: Sequence[Callback] = ()) -> Check:
    """Train the preset and the best settings with seeds 0 to `seeds` - 1; finished runs are not repeated."""
    number = study.best_trial.number
    arms = {"preset": what.config, f"trial-{number:04d}": best_config(study, what)}
    scores = []
    for name, config in arms.items():
        runs = [replace(config, seed=i, out=str(what.out / "check" / name / f"seed-{i}")) for i in range(seeds)]
        missing = [run for run in runs if not RunDir(run.out).finished]
        if missing:
            train_runs(missing, resume=any(Path(run.out).exists() for run in missing), callbacks=callbacks)
        scores.append([_score(Path(run.out), what.metric) for run in runs])
    return Check(*scores)


def _score(path: Path, metric: str) -> float:
    """The mean of all evaluations of a run, as in the search."""
    return float(np.mean([row[metric] for row in RunDir(path).read_metrics() if row.get(metric) is not None]))
