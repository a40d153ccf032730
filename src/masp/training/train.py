"""Training from configurations to finished run directories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masp.config import TrainConfig, replace
from masp.environments import is_jax, make_env
from masp.environments.registry import stated_options
from masp.importing import require_no_import
from masp.training.callbacks import Callback, require_callbacks
from masp.training.session import Session


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run_dir: Path
    summary: dict[str, Any]


def train(config: TrainConfig, resume: bool = False, callbacks: Sequence[Callback] = ()) -> Result:
    """Train one seed; returns when the run directory is complete."""
    return train_seeds(config, [config.seed], resume, callbacks)[0]


def train_seeds(
    config: TrainConfig, seeds: Sequence[int], resume: bool = False, callbacks: Sequence[Callback] = ()
) -> list[Result]:
    """Train several seeds, each into its own directory; at once where the environment is in JAX."""
    return train_runs([_for_seed(config, seed, len(seeds) > 1) for seed in seeds], resume, callbacks)


def train_runs(
    configs: Sequence[TrainConfig], resume: bool = False, callbacks: Sequence[Callback] = ()
) -> list[Result]:
    """Train runs that differ only in `lanes.VARYING`, each into its own directory; at once where possible."""
    require_no_import()
    require_callbacks(callbacks)
    options = stated_options(configs[0].env, configs[0].env_options)
    runs = [replace(config, env_options=options).resolved() for config in configs]
    together = len(runs) == 1 or is_jax(make_env(runs[0].env, options))
    results = []
    for group in [runs] if together else [[run] for run in runs]:
        with Session(group, resume, callbacks) as session:
            summaries = session.run()
        results += [Result(Path(run.out), summary) for run, summary in zip(group, summaries, strict=True)]
    return results


def _for_seed(config: TrainConfig, seed: int, several: bool) -> TrainConfig:
    """The configuration of one seed, with its own directory."""
    config = replace(config, seed=seed)
    if not config.out:
        return replace(config, out=default_out(config))
    return replace(config, out=f"{config.out}/seed-{seed}") if several else config


def default_out(config: TrainConfig) -> str:
    """The run directory of a configuration that names none; ids may have slashes and colons, directories do not."""
    return f"runs/{re.sub(r'[^A-Za-z0-9._-]+', '-', config.env)}-{config.variant}-{config.seed}"
