"""Penalty, projection, entropy and meta-gradient in PyTorch: the functions of `masp.similarity` once more, tested
against those in JAX (tests/interop)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


def batch_penalty(q: Tensor, similarity: Tensor, form: str) -> Tensor:
    """[] mean over the batch of the penalty of values [B, A] under a similarity [A, A]."""
    p = similarity if form == "literal" else similarity / similarity.sum(-1, keepdim=True)
    penalty = (q - q @ p.T).square().sum(1).mean()
    return penalty / q.shape[1] if form == "mean" else penalty


def project(similarity: Tensor) -> Tensor:
    """The nearest similarity that is symmetric, in [0, 1] and one on the diagonal."""
    projected = ((similarity + similarity.T) / 2).clamp(0.0, 1.0)
    return projected.masked_fill(torch.eye(len(projected), dtype=torch.bool, device=projected.device), 1.0)


def row_entropy(similarity: Tensor) -> Tensor:
    """[] mean entropy of the rows of P, as a fraction of log A."""
    p = similarity / similarity.sum(-1, keepdim=True)
    # x log x has an infinite slope at 0; below 1e-6 it is continued by a line.
    terms = torch.where(p > 1e-6, -p * p.clamp(min=1e-6).log(), -p * math.log(1e-6))
    return terms.sum(-1).mean() / math.log(max(len(p), 2))


def meta_gradient(
    q_values: Callable[[Tensors], Tensor],
    penalty: Callable[[Tensor, Tensor], Tensor],
    step: Callable[[Tensors], Tensors],
    params: Tensors,
    gradient: Tensors,
    similarity: Tensor,
    held_out_gradient: Tensors,
) -> Tensor:
    """[A, A] dJ'/dS through one optimiser step; `masp.similarity.metagradient` says why this is all of it.

    Args:
      q_values: action values [B, A] for any parameters.
      penalty: the weighted penalty [] of values [B, A] under a similarity [A, A].
      step: the change of the parameters as a function of the gradient.
    """
    _, pull_back = torch.func.vjp(step, gradient)
    (direction,) = pull_back(held_out_gradient)
    q, tangent = torch.func.jvp(q_values, (params,), (direction,))

    def slope(similarity: Tensor) -> Tensor:
        return torch.func.jvp(lambda q: penalty(q, similarity), (q,), (tangent,))[1]

    return torch.func.grad(slope)(similarity)


class Adam:
    """Adam's direction for the similarity, as `optax.scale_by_adam` gives it."""

    B1, B2, EPS = 0.9, 0.999, 1e-8

    def __init__(self, similarity: Tensor):
        self.mean, self.square = torch.zeros_like(similarity), torch.zeros_like(similarity)
        self.steps = 0

    def direction(self, gradient: Tensor) -> Tensor:
        self.steps += 1
        self.mean = self.B1 * self.mean + (1 - self.B1) * gradient
        self.square = self.B2 * self.square + (1 - self.B2) * gradient.square()
        mean = self.mean / (1 - self.B1**self.steps)
        return mean / ((self.square / (1 - self.B2**self.steps)).sqrt() + self.EPS)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean, self.square = (state[name].to(self.mean) for name in ("mean", "square"))
        self.steps = int(state["steps"])
