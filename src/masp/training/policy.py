"""The policy file: parameters and similarity, with all that is needed to act by them where nothing else is at hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import masp
from masp.config import TrainConfig, to_flat
from masp.environments.base import EnvInfo
from masp.macros.actions import ActionSet

FORMAT, VERSION = "masp-policy", 2


def about_policy(config: TrainConfig, info: EnvInfo, actions: ActionSet, frames: int) -> dict[str, Any]:
    """What a policy file says beside its arrays; JSON values only."""
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


def environment_of(about: dict[str, Any], actions: ActionSet) -> EnvInfo:
    """The description of the environment that a policy was trained in."""
    stored = about["environment"]
    fields = {field.name for field in dataclasses.fields(EnvInfo)} & set(stored)
    values = {name: stored[name] for name in fields}
    values["observation_shape"] = tuple(values["observation_shape"])
    values["observation_dtype"] = np.dtype(values["observation_dtype"])
    return EnvInfo(actions=actions, **values)
