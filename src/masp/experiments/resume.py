"""Run directories that a killed process left, made fit to go on from.

Training writes each seed's files one after the other, so a kill can fall between them. Here is decided what is still
usable: all seeds of a unit go on from checkpoints of the same tick, or all start anew; never a mixture.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import safetensors

from masp.config import TrainConfig, to_flat
from masp.experiments.identity import IGNORED
from masp.training.run_dir import RunDir, read_json, write_json


def all_finished(runs: Sequence[RunDir]) -> bool:
    """Whether training of all seeds came to its end."""
    return all(run.finished for run in runs)


def make_resumable(runs: Sequence[RunDir], configs: Sequence[TrainConfig]) -> bool:
    """Put the run directories of a unit in order; whether there is something to go on from."""
    for run, config in zip(runs, configs, strict=True):
        if run.path.exists() and not run.config_file.exists():
            shutil.rmtree(run.path)  # killed before training began
        elif run.path.exists():
            run.summary_file.unlink(missing_ok=True)  # written again when all seeds are done
            _refresh_config(run, config)
    ticks = [_tick(run.checkpoint_file) for run in runs]
    if len(set(ticks)) > 1:  # killed while checkpoints were written
        for run in runs:
            run.checkpoint_file.unlink(missing_ok=True)
    return any(run.config_file.exists() for run in runs)


def _refresh_config(run: RunDir, config: TrainConfig) -> None:
    """What changes no result may differ from when the run began: the store may have been moved since."""
    flat = to_flat(config)
    kept = {name: flat[name] for name in IGNORED if name != "seed"}
    write_json(run.config_file, {**read_json(run.config_file), **kept})


def _tick(checkpoint: Path) -> int | None:
    """When a checkpoint was made; None: there is none that can be read."""
    try:
        with safetensors.safe_open(checkpoint, "np") as file:
            return int(file.get_tensor(".agent.tick"))
    except (OSError, safetensors.SafetensorError):
        return None
