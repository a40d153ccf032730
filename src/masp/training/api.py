"""`masp.train` and `masp.sweep`: settings by keyword, for environments with an id and for those without one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from masp.agent.torso import torso_text
from masp.config import TrainConfig, replace
from masp.environments import own
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.presets import from_preset
from masp.training.callbacks import Callback
from masp.training.config_file import read_config
from masp.training.run import Run, load_run
from masp.training.sweep import Point
from masp.training.sweep import sweep as sweep_config
from masp.training.train import default_out, train_runs


def train(
    env: str | TrainConfig | own.EnvSource | None = None,
    *,
    config: str | Path | TrainConfig | None = None,
    preset: str | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Train one agent; returns when its run directory is complete (examples/own_environment.py).

    Args:
      env: an id, a `module:id`, a function that makes a Gymnasium environment, a JAX environment (`JaxEnv`), or a
        whole configuration. None: the environment of `config`.
      config: a configuration, or a file of settings: the config.json of a run, or TOML.
      preset: the table of settings to start from; None: the one that fits the environment. A `TrainConfig` is
        complete and takes none: `masp.make_config` gives one that starts from a preset.
      resume: whether to continue the run in `out`.
      callbacks: called during training, see `masp.Callback`.
      settings: fields of `TrainConfig` by name, without their section: `variant="masp", frames=100_000, seed=1`.
        `macros` is a file or an `ActionSet`, `env_options` a mapping or `name=value` texts, `torso` a Flax module or
        `module:Class`, `init_from` a run or its directory.
    """
    made = make_config(env, config=config, preset=preset, **settings)
    result = train_runs([replace(made, out=made.out or default_out(made))], resume, callbacks)[0]
    return load_run(result.run_dir)


def sweep(
    env: str | TrainConfig | own.EnvSource,
    vary: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] = 3,
    out: str | Path = "",
    *,
    preset: str | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> list[Point]:
    """Train all combinations of some settings with all seeds (examples/sweep_in_one_program.py).

    Where the environment is in JAX, runs that differ only in penalty_weight, meta_learning_rate, similarity_start,
    macros and seed train at once, in one compiled program.

    Args:
      vary: values of settings by name.
      seeds: the seeds, or how many.
      out: the runs are in `out/NAME=VALUE,.../seed-N`; empty: sweeps/ENV-VARIANT-SEED.

    Returns:
      One `Point` per combination, with its `settings` and the `results` of its seeds.
    """
    config = make_config(env, preset=preset, **settings)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    vary = {name: [_plain(name, value) for value in values] for name, values in vary.items()}
    return sweep_config(config, vary, numbers, out or default_out(config).replace("runs", "sweeps", 1), callbacks)


def make_config(
    env: str | TrainConfig | own.EnvSource | None = None,
    *,
    config: str | Path | TrainConfig | None = None,
    preset: str | None = None,
    **settings: Any,
) -> TrainConfig:
    """The configuration that the arguments of `train` describe.

    Examples:
      >>> config = make_config("planted-grid", variant="masp", frames=1e5)
      >>> config.frames, config.agent.batch_size  # a setting, and the preset `planted`
      (100000, 64)
    """
    base = _base_config(env, config, preset)
    base = replace(base, **{name: _plain(name, value) for name, value in settings.items() if name != "macros"})
    return replace(base, macros=_macro_file(settings["macros"], base)) if "macros" in settings else base


def _base_config(
    env: str | TrainConfig | own.EnvSource | None, config: str | Path | TrainConfig | None, preset: str | None
) -> TrainConfig:
    """The configuration without the settings by keyword."""
    if isinstance(env, TrainConfig):
        if config is not None:
            raise UserError("masp.train takes a configuration as its first argument or as config, not both")
        return _complete(env, preset)
    env_id = env if env is None or isinstance(env, str) else own.id_of(env)
    if isinstance(config, TrainConfig):
        return _complete(config if env_id is None else replace(config, env=env_id), preset)
    if config is not None:
        return read_config(config, env_id, preset or "auto")
    if env_id is None:
        raise UserError("masp.train needs an environment: masp.train(env), or masp.train(config=FILE)")
    return from_preset(preset or "auto", env_id)


def _complete(config: TrainConfig, preset: str | None) -> TrainConfig:
    """`config` itself, which has a value for every setting."""
    if preset is not None:
        raise UserError(
            f"a TrainConfig is complete and takes no preset: use masp.make_config({config.env!r}, preset={preset!r})"
        )
    return config


def _plain(name: str, value: Any) -> Any:
    """The value of a setting as the configuration keeps it."""
    if name == "torso":
        return torso_text(value)
    if name == "env_options":
        options = [f"{option}={setting}" for option, setting in value.items()] if isinstance(value, Mapping) else value
        return tuple(options)
    if name == "init_from" and isinstance(value, Run):
        return str(value.path)
    return str(value) if isinstance(value, Path) else value


def _macro_file(macros: Any, config: TrainConfig) -> str:
    """The file of the macros; an `ActionSet` is written next to the run directory, under a name by its content."""
    if not isinstance(macros, ActionSet):
        return str(macros)
    digest = hashlib.sha256(json.dumps(macros.to_json(), sort_keys=True).encode()).hexdigest()[:8]
    file = Path(config.out or default_out(config)).parent / f"macros-{digest}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        macros.save(file)
    return str(file)
