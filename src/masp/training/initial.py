"""What a run takes over from another one with `init_from`: parameters layer by layer, macros and similarity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from masp import ops
from masp.agent.agent import Agent
from masp.config import TrainConfig, from_flat
from masp.environments.base import EnvInfo
from masp.macros.actions import ActionSet
from masp.similarity.matrix import as_matrix
from masp.training.trained import read_policy

_PARAMS = "['params']"


@dataclass(frozen=True)
class Source:
    """The agent that another run begins with."""

    params: Mapping[str, np.ndarray]
    """Parameters by their path in the network."""
    similarity: np.ndarray  # [A, A]
    actions: ActionSet
    config: TrainConfig

    def fits(self, info: EnvInfo) -> bool:
        """Whether its macros, if it has any, can be played in an environment."""
        return bool(self.actions.macros) and self.actions.num_primitives == info.actions.num_primitives

    def gives_similarity(self, config: TrainConfig, actions: ActionSet) -> bool:
        """Whether a run with these actions begins with its similarity: unless it asks for another start."""
        asked = config.similarity.similarity_start == "constant"
        return asked and self.config.penalised and self.actions.sequences() == actions.sequences()


def read_source(path: str) -> Source:
    """The newest policy of a run directory, or that of a file."""
    file, arrays, about = read_policy(path)
    params = {name.removeprefix(_PARAMS): array for name, array in arrays.items() if name.startswith(_PARAMS)}
    actions = ActionSet.from_json(about.get("actions"), str(file))
    config = from_flat(about.get("config"), str(file))  # type: ignore[arg-type]
    return Source(params, np.asarray(as_matrix(arrays["['similarity']"])), actions, config)


def parameters_for(agent: Agent) -> dict[str, np.ndarray]:
    """The parameters that `agent` begins with, by path, of the layers that fit whole; {} without `init_from`."""
    return _compared(agent)[0] if agent.config.init_from else {}


def messages_for(agent: Agent) -> list[str]:
    """Messages for the user: what the run takes over, and why it does not take the rest."""
    path = agent.config.init_from
    if not path:
        return []
    taken, missing = _compared(agent)
    layers = len({_layer(name) for name in taken})
    lines = [f"{path}: parameters of {layers} of {layers + len(missing)} layers taken"]
    lines += [f"{path}: not the layer {layer}, {reason}" for layer, reason in missing.items()]
    source = read_source(path)
    if agent.config.variant != "rainbow" and source.actions.macros and not source.fits(agent.info):
        there, here = source.actions.num_primitives, agent.info.actions.num_primitives
        lines.append(
            f"{path}: not its macros, which are for {there} primitive actions, and {agent.info.env_id} has {here}"
        )
    if agent.config.penalised and not source.gives_similarity(agent.config, agent.actions):
        reason = "it learned none" if not source.config.penalised else "it is for other actions"
        if agent.config.similarity.similarity_start == "constant":
            lines.append(f"{path}: not its similarity: {reason}")
    return lines


def _compared(agent: Agent) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of the layers that fit, and per layer that does not, the reason."""
    template = jax.eval_shape(agent.policy_template)["params"]
    expected = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(template)}
    arrays = ops.adapt_layout(read_source(agent.config.init_from).params, expected)
    layers: dict[str, list[str]] = {}
    for name in expected:
        layers.setdefault(_layer(name), []).append(name)
    taken: dict[str, np.ndarray] = {}
    missing: dict[str, str] = {}
    for layer, names in layers.items():
        reasons = [reason for name in names if (reason := _reason(arrays.get(name), expected[name]))]
        if reasons:
            missing[layer] = reasons[0]
        else:
            taken |= {name: arrays[name] for name in names}
    return taken, missing


def _layer(name: str) -> str:
    """`WholeGridTorso_0/Convolution_0` of the path of one of its arrays."""
    return "/".join(name.strip("[']").split("']['")[:-1])


def _reason(array: np.ndarray | None, expected: Any) -> str:
    """Why an array cannot be taken; empty if it can."""
    if array is None:
        return "which is not in its network"
    if array.shape != expected.shape:
        return f"of shape {list(array.shape)} there and {list(expected.shape)} here"
    return "" if array.dtype == expected.dtype else f"of type {array.dtype} there and {expected.dtype} here"
