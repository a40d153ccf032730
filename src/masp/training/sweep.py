"""Every combination of some settings with every seed, in as few compiled programs as possible."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masp.config import TrainConfig, replace, to_flat
from masp.environments import is_jax, make_env
from masp.errors import UserError
from masp.training.callbacks import Callback
from masp.training.lanes import VARYING
from masp.training.train import Result, train_runs

FIXED = ("env", "env_options", "out", "seed")
"""Settings that are no axis of a sweep."""


@dataclass(frozen=True)
class Point:
    """One combination of the settings, and its runs, one per seed."""

    settings: dict[str, Any]
    results: list[Result]


def sweep(
    config: TrainConfig,
    vary: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    out: str | Path,
    callbacks: Sequence[Callback] = (),
) -> list[Point]:
    """Train all combinations of `vary` with all `seeds`, into `out/NAME=VALUE,.../seed-N`.

    Where the environment is in JAX, runs that differ only in `lanes.VARYING` are one program and train at once.
    """
    for name in vary:
        if name in FIXED:
            raise UserError(f"{name} cannot be swept over")
    points = [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]
    runs = [[_run(config, point, seed, Path(out)) for seed in seeds] for point in points]
    together = is_jax(make_env(config.env, config.env_options))
    results: dict[str, Result] = {}
    for group in _by_program([run for of_point in runs for run in of_point], together):
        results.update(zip([run.out for run in group], train_runs(group, callbacks=callbacks), strict=True))
    return [Point(point, [results[run.out] for run in of]) for point, of in zip(points, runs, strict=True)]


def _run(config: TrainConfig, point: Mapping[str, Any], seed: int, out: Path) -> TrainConfig:
    name = ",".join(f"{setting}={value}" for setting, value in point.items()) or "all"
    return replace(config, **point, seed=seed, out=str(out / name.replace("/", "_") / f"seed-{seed}")).resolved()


def _by_program(runs: Sequence[TrainConfig], together: bool) -> list[list[TrainConfig]]:
    """The runs in groups that one program can train."""
    if not together:
        return [[run] for run in runs]
    groups: dict[str, list[TrainConfig]] = {}
    for run in runs:
        program = {name: value for name, value in to_flat(run).items() if name not in VARYING}
        groups.setdefault(json.dumps(program), []).append(run)
    return list(groups.values())
