"""The policy file: parameters and similarity, with all that is needed to act without the environment."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, get_args

import numpy as np

import masp
from masp import json_text
from masp.config import TrainConfig, to_flat
from masp.environments.base import EnvInfo, ObservationKind
from masp.errors import UserError
from masp.macros.actions import ActionSet

FORMAT, VERSION = "masp-policy", 2
MAX_OBSERVATION = 1 << 24
"""Upper limit of the numbers in one observation."""


def about_policy(config: TrainConfig, info: EnvInfo, actions: ActionSet, frames: int) -> dict[str, Any]:
    """The description in a policy file, beside its arrays; JSON values only."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "masp": masp.__version__,
        "frames": frames,
        "config": to_flat(config),
        "actions": actions.to_json(),
        "environment": {
            "env_id": info.env_id,
            "observation_shape": list(info.observation_shape),
            "observation_dtype": np.dtype(info.observation_dtype).name,
            "observation_kind": info.observation_kind,
            "frames_per_step": info.frames_per_step,
            "success_above": info.success_above,
        },
    }


def require_version(about: dict[str, Any], where: str) -> None:
    """Raise `UserError` if a policy file or checkpoint is of a version that this masp does not read."""
    if about.get("version") != VERSION:
        version = json_text.shortened(about.get("version"))
        raise UserError(f"{where}: version {version}, but masp here reads version {VERSION}; use the one that wrote it")


def environment_of(about: dict[str, Any], actions: ActionSet, where: str) -> EnvInfo:
    """The description of the environment that a policy was trained in, or a `UserError`."""
    stored = about.get("environment")
    if not isinstance(stored, dict) or not _describes_environment(stored):
        raise UserError(f"{where}: it does not say which observations the policy was trained on")
    fields = {field.name for field in dataclasses.fields(EnvInfo)} & set(stored) - {"actions", "groups"}
    values = {name: stored[name] for name in fields}
    values["observation_shape"] = tuple(values["observation_shape"])
    values["observation_dtype"] = np.dtype(values["observation_dtype"])
    return EnvInfo(actions=actions, **values)


def _describes_environment(stored: dict[str, Any]) -> bool:
    """Whether all that a policy file must say about its environment can be used."""
    shape, above = stored.get("observation_shape"), stored.get("success_above")
    return (
        json_text.is_text(stored.get("env_id"))
        and isinstance(shape, list)
        and len(shape) <= 4
        and all(type(size) is int and 1 <= size <= MAX_OBSERVATION for size in shape)
        and math.prod(shape) <= MAX_OBSERVATION
        and stored.get("observation_dtype") in ("uint8", "int8", "int32", "float32", "float64", "bool")
        and stored.get("observation_kind") in get_args(ObservationKind)
        and type(stored.get("frames_per_step")) is int
        and (above is None or json_text.is_number(above))
    )
