"""The steps of PyTorch's optimisers as functions of the gradient, which the optimisers themselves are not.

`step_of(optimizer, ...)` copies what a step will read, before it is made, and gives the function that computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from masp.errors import UserError

Tensors = dict[str, Tensor]
_REFUSED = ("amsgrad", "centered", "maximize")


def require_supported(optimizer: Any, params: Iterable[Tensor]) -> None:
    """Raise `UserError` unless the optimiser is one of those below and steps none but these parameters."""
    if type(optimizer) not in _STEPS:
        names = ", ".join(kind.__name__ for kind in _STEPS)
        raise UserError(
            f"masp.torch.MetaSimilarity: cannot differentiate a step of {type(optimizer).__name__}; use one of {names}"
        )
    for group in optimizer.param_groups:
        for option in _REFUSED:
            if group.get(option):
                raise UserError(f"masp.torch.MetaSimilarity: {option}=True cannot be differentiated; leave it out")
    stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not stepped <= {id(p) for p in params}:
        raise UserError("masp.torch.MetaSimilarity: the optimiser also steps parameters that are not in the network")


def step_of(optimizer: Any, moving: Mapping[str, Tensor], max_norm: float | None) -> Callable[[Tensors], Tensors]:
    """The next step of some parameters, clipping by the global norm included: their changes for any gradient."""
    groups = {id(param): group for group in optimizer.param_groups for param in group["params"]}
    functions = {}
    for name, param in moving.items():
        settings = {k: _copy(v) for k, v in groups[id(param)].items() if k != "params"}
        state = {k: _copy(v) for k, v in optimizer.state.get(param, {}).items()}
        before = _copy(param) if settings["weight_decay"] else None
        functions[name] = partial(_STEPS[type(optimizer)], before=before, state=state, **settings)

    def step(gradient: Tensors) -> Tensors:
        clipped = _clip(gradient, max_norm) if max_norm else gradient
        return {name: functions[name](g) for name, g in clipped.items()}

    return step


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _clip(gradient: Tensors, max_norm: float) -> Tensors:
    """As `torch.nn.utils.clip_grad_norm_`; with a derivative also where the whole gradient is 0."""
    squared = sum(g.square().sum() for g in gradient.values())
    norm = _sqrt(torch.as_tensor(squared))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return {name: g * scale for name, g in gradient.items()}


def _sqrt(x: Tensor) -> Tensor:
    """The square root, with slope 0 at 0: all that is divided by it here is 0 there as well."""
    return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0)


def _sgd(g: Tensor, before: Tensor | None, state: dict[str, Any], **s: Any) -> Tensor:
    g = g if before is None else g + s["weight_decay"] * before
    if s["momentum"]:
        buffer = state.get("momentum_buffer")
        buffer = g if buffer is None else s["momentum"] * buffer + (1 - s["dampening"]) * g
        g = g + s["momentum"] * buffer if s["nesterov"] else buffer
    return -s["lr"] * g


def _adam(g: Tensor, before: Tensor | None, state: dict[str, Any], **s: Any) -> Tensor:
    decay = 0.0 if before is None else s["weight_decay"] * before
    decoupled = s.get("decoupled_weight_decay")  # AdamW: does not depend on the gradient
    g = g if decoupled else g + decay
    b1, b2 = s["betas"]
    steps = float(state.get("step", 0)) + 1
    mean = b1 * state.get("exp_avg", 0.0) + (1 - b1) * g
    square = b2 * state.get("exp_avg_sq", 0.0) + (1 - b2) * g.square()
    root = _sqrt(square) / (1 - b2**steps) ** 0.5
    direction = mean / (1 - b1**steps) / (root + s["eps"])
    return -s["lr"] * (direction + decay if decoupled else direction)


def _rmsprop(g: Tensor, before: Tensor | None, state: dict[str, Any], **s: Any) -> Tensor:
    g = g if before is None else g + s["weight_decay"] * before
    square = s["alpha"] * state.get("square_avg", 0.0) + (1 - s["alpha"]) * g.square()
    change = g / (_sqrt(square) + s["eps"])
    if s["momentum"]:
        change = s["momentum"] * state.get("momentum_buffer", 0.0) + change
    return -s["lr"] * change


_STEPS: dict[type, Callable[..., Tensor]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.RMSprop: _rmsprop,
}
