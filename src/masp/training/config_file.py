"""Files of settings: the config.json of a run directory, also of older versions, and TOML that users write.

Files of version 2 say their format and version, and which masp and which kernels made the run: kernels change rounding,
and so results. Older files hold the settings alone, some of which are named differently now or do not exist any more.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import masp
from masp import json_text, ops
from masp.config import SECTIONS, TrainConfig, from_flat, replace, to_flat, typed_settings
from masp.errors import UserError
from masp.json_text import first_line, is_number, shortened
from masp.macros.actions import ActionSet
from masp.presets import from_preset

FORMAT, VERSION = "masp-config", 2


def to_file(config: TrainConfig) -> dict[str, Any]:
    """What config.json holds."""
    header = {"format": FORMAT, "version": VERSION, "masp": masp.__version__, "kernels": ops.kernels_used()}
    return {**header, **to_flat(config)}


def from_file(values: Any, where: str, count_actions: Callable[[], int]) -> TrainConfig:
    """The configuration in a config.json, or a `UserError` that says why it cannot be read.

    Args:
      count_actions: gives the number of actions of the run; called for older files where the penalty depends on it.
    """
    if not isinstance(values, dict):
        raise UserError(f"{where}: not the configuration of a run")
    if "format" not in values:
        return from_flat(_translated(values, where, count_actions), where)
    form, version = values["format"], values.get("version")
    if form != FORMAT:
        raise UserError(f"{where}: format is {shortened(form)}, not {FORMAT!r}")
    if type(version) is not int or version < 1:
        raise UserError(f"{where}: version is {shortened(version)}, not a whole number")
    if version > VERSION:
        version = shortened(version)
        raise UserError(
            f"{where}: version {version} is newer than {VERSION}, which this masp reads; install a newer masp"
        )
    header = ("format", "version", "masp", "kernels")
    return from_flat({name: value for name, value in values.items() if name not in header}, where)


NEUTRAL = {"half_precision": False, "windows": "decisions", "mine_every_frames": 0}
"""Settings of older files that do not exist any more, and the value that left the algorithm as it is now."""
UNUSED = ("mine_replace_share", "mine_top_share", "mine_from", "tensorboard", "similarity_start_value")
"""Settings of older files that concern only logs, adaptive macros (see `NEUTRAL`) or the first update of a run."""
PAIRS = {
    "value_range": ("v_min", "v_max"),
    "importance": ("importance_start", "importance_end"),
    "epsilon": ("epsilon_start", "epsilon_end"),
}
"""Settings that are one pair now."""


def _translated(values: dict[str, Any], where: str, count_actions: Callable[[], int]) -> dict[str, Any]:
    """The settings of an older file under their names of today."""
    old = dict(values)
    neutral = NEUTRAL if old.get("trace_length", 1) == 1 else NEUTRAL | {"trace_decay": 0.9}
    for name, value in neutral.items():
        if old.get(name, value) != value:
            value = old[name] if is_number(old[name]) else shortened(old[name]).strip("'")
            raise UserError(f"{where}: made by an older masp with {name} {value}, a setting that no longer exists")
    for name in (*NEUTRAL, *UNUSED, "trace_decay"):
        old.pop(name, None)
    for pair, names in PAIRS.items():
        if all(name in old for name in names):
            old[pair] = [old.pop(name) for name in names]
    if not old.pop("prioritised", True):
        old["priority_exponent"] = 0.0
    if not old.pop("learn_similarity", True):
        old["meta_learning_rate"] = 0.0
    if old.pop("similarity_from", "meta") == "outcomes" and old.get("variant") == "masp":
        old["variant"] = "outcomes"
    if bundle := old.pop("bundle", ""):
        old |= {"macros": bundle} | ({"similarity_start": bundle} if old.get("variant") == "masp" else {})
    if old.get("penalty_form", "row") == "row":
        old["penalty_form"] = "sum"
    if full_weight := old.pop("full_weight_actions", 0):
        if not is_number(full_weight) or not is_number(old.get("penalty_weight")):
            raise UserError(f"{where}: full_weight_actions and penalty_weight must be numbers")
        old["penalty_weight"] *= min(1.0, full_weight / count_actions())
    return old


def read_config(path: str | Path, env: str | None = None, preset: str = "auto") -> TrainConfig:
    """The configuration in a config.json of a run or in a TOML file.

    A TOML file names some settings, at the top level or in the tables `agent`, `similarity` and `demonstration`; the
    others come from the preset. It may also name the preset.

    Args:
      env: the environment in place of the file's; None: the file's.
      preset: the preset in place of the one that a TOML file names; `auto`: the file's, else that of the environment.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if path.suffix == ".toml":
        return _from_toml(path, env, preset)
    if path.suffix != ".json":
        raise UserError(f"{path}: expected the config.json of a run, or a TOML file (.toml)")
    values = json_text.read(path)
    config = _naming(
        path, lambda: from_file(values, str(path), lambda: len(ActionSet.load(path.parent / "actions.json")))
    )
    return config if env is None else replace(config, env=env)


def _from_toml(path: Path, env: str | None, preset: str) -> TrainConfig:
    named_preset, settings = read_toml(path)
    env = env or settings.get("env")
    if not env:
        raise UserError(f"{path}: 'env' is missing")
    return _naming(
        path, lambda: replace(from_preset(named_preset if preset == "auto" else preset, env), **settings | {"env": env})
    )


def read_toml(path: str | Path) -> tuple[str, dict[str, Any]]:
    """The preset that a TOML file names, else `auto`, and its settings."""
    path = Path(path)
    try:
        values = tomllib.loads(json_text.read_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: broken TOML: {first_line(error)}") from None
    for section in SECTIONS:
        table = values.pop(section, {})
        if not isinstance(table, dict):
            raise UserError(f"{path}: {section} must be a table, got {shortened(table)}")
        values |= table
    for name, value in values.items():
        if isinstance(value, dict):
            raise UserError(f"{path}: there is no table {shortened(name)}; there are {', '.join(SECTIONS)}")
    preset = values.pop("preset", "auto")
    if not isinstance(preset, str):
        raise UserError(f"{path}: preset must be a name, got {shortened(preset)}")
    return preset, typed_settings(values, str(path))


def _naming(path: Path, make: Callable[[], TrainConfig]) -> TrainConfig:
    """`make()`; a `UserError` in it names the file."""
    try:
        return make()
    except UserError as error:
        raise error if str(error).startswith(str(path)) else UserError(f"{path}: {error}") from None
