"""The penalty and its exact meta-gradient for anybody's PyTorch agent.

    meta = masp.torch.MetaSimilarity(q_network, optimizer, actions, max_gradient_norm=10.0)

    loss = td_loss + meta.penalty(q)                      # q [B, A], in the loss of the agent
    optimizer.zero_grad(); loss.backward()
    meta.remember(observations)                           # before clipping and before the optimiser's step
    clip_grad_norm_(q_network.parameters(), 10.0); optimizer.step()
    meta.learn(td_loss_of(other_batch))                   # without the penalty

It agrees with `masp.MetaSimilarity` in JAX: tests/interop compares the two on the same weights and data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from masp.errors import UserError
from masp.importing import one_line
from masp.macros.actions import ActionSet
from masp.similarity import requirements
from masp.similarity.bundle import Bundle, require_similarity
from masp.torch import mathematics
from masp.torch.optimizers import require_supported, step_of

Tensors = dict[str, Tensor]
_LIBRARY = "masp.torch.MetaSimilarity"
_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class InnerStep(NamedTuple):
    """One update of the agent, copied before the optimiser made it."""

    params: Tensors
    buffers: Tensors  # of the network, such as the noise of noisy layers
    gradient: Tensors  # of TD loss plus penalty, before clipping
    step: Callable[[Tensors], Tensors]  # the change of the parameters as a function of the gradient
    inputs: tuple[Any, ...]  # of the Q-network
    similarity: Tensor  # [A, A] that the penalty used


class MetaSimilarity:
    """A similarity between the actions of an agent, learned by meta-gradient while the agent learns.

    Args:
      q_network: gives action values [B, A]; layers that draw random numbers (dropout) are refused, noise that is kept
        in buffers is not.
      optimizer: of the network's parameters: SGD, Adam, AdamW or RMSprop of `torch.optim`.
      actions: the actions, in the order of the network's outputs; or their number, if nothing else is known.
      penalty_weight: weight of the penalty in the loss.
      learning_rate: size of a meta-step; most entries move by about as much in one. 0: the similarity stays.
      penalty_form: mean or sum over actions; `literal` is the paper's equation as printed, which collapses.
      max_gradient_norm: what the agent gives to `clip_grad_norm_`; None: it does not clip.
      start: `constant` (all pairs equally, slightly similar), `overlap` of the macros, `identity` (a stationary point:
        only for use without `learn`), a `Bundle`, or a similarity [A, A].
    """

    def __init__(
        self,
        q_network: nn.Module,
        optimizer: torch.optim.Optimizer,
        actions: ActionSet | int,
        penalty_weight: float = 1.0,
        learning_rate: float = 0.01,
        penalty_form: str = "mean",
        entropy_weight: float = 0.0,
        max_gradient_norm: float | None = None,
        start: str | Bundle | np.ndarray = "constant",
    ):
        requirements.require_settings(penalty_weight, learning_rate, penalty_form, entropy_weight)
        if not isinstance(q_network, nn.Module):
            raise UserError(f"{_LIBRARY}: q_network must be a torch.nn.Module, got {type(q_network).__name__}")
        _require_no_dropout(q_network)
        self.q_network, self.optimizer = q_network, optimizer
        self._params = {name: p for name, p in q_network.named_parameters() if p.requires_grad}
        require_supported(optimizer, q_network.parameters())
        self.action_set = requirements.action_set(actions)
        self.penalty_weight, self.learning_rate = penalty_weight, learning_rate
        self.penalty_form, self.entropy_weight = penalty_form, entropy_weight
        if max_gradient_norm is not None and not (isinstance(max_gradient_norm, Real) and max_gradient_norm > 0):
            raise UserError(f"{_LIBRARY}: max_gradient_norm must be a number above 0 or None, got {max_gradient_norm}")
        self.max_gradient_norm = max_gradient_norm
        matrix = requirements.starting_similarity(start, self.action_set, not isinstance(actions, ActionSet))
        like = next(iter(self._params.values()))
        dtype = torch.promote_types(like.dtype, torch.float32)
        self.similarity = mathematics.project(torch.as_tensor(matrix, dtype=dtype, device=like.device))
        """[A, A], symmetric, in [0, 1], ones on the diagonal."""
        self.skipped = 0
        """Meta-steps left out because the meta-gradient was not finite."""
        self._adam = mathematics.Adam(self.similarity)
        self._inner_step: InnerStep | None = None

    def penalty(self, q: Tensor) -> Tensor:
        """[] the weighted penalty of action values [B, A], to be added to the TD loss; `q` receives gradient."""
        if not isinstance(q, Tensor):
            raise UserError(f"{_LIBRARY}: penalty: q must be a Tensor [B, A], got {type(q).__name__}")
        requirements.require_outputs(tuple(q.shape), None, self.action_set, "penalty: q")
        if torch.is_grad_enabled() and not q.requires_grad:
            raise UserError(
                f"{_LIBRARY}: penalty: q has no gradient, so that the penalty would change nothing; give it the output "
                "of the Q-network, not detached and not computed under no_grad"
            )
        return self._weighted_penalty(q, self.similarity)

    def remember(self, *inputs: Any) -> None:
        """Keep what the meta-gradient must know of the update that is about to be made.

        Call it after `loss.backward()`, before clipping and `optimizer.step()`, if `learn` follows. It copies
        parameters, gradients and the optimiser's moments.

        Args:
          inputs: what the Q-network was given for the penalty, such as observations [B, ...].
        """
        stepped = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        moving = {name: p for name, p in self._params.items() if p.grad is not None and id(p) in stepped}
        gradient = {name: p.grad.clone() for name, p in moving.items() if p.grad is not None}
        if not gradient:
            raise UserError(f"{_LIBRARY}: there are no gradients to remember: call it after loss.backward()")
        self._inner_step = InnerStep(
            {name: p.detach().clone() for name, p in self._params.items()},
            {name: buffer.clone() for name, buffer in self.q_network.named_buffers()},
            gradient,
            step_of(self.optimizer, moving, self.max_gradient_norm),
            tuple(x.detach() if isinstance(x, Tensor) else x for x in inputs),
            self.similarity,
        )

    def meta_gradient(self, held_out_loss: Tensor) -> Tensor:
        """[A, A] derivative of the held-out TD loss after the remembered update in its similarity.

        Args:
          held_out_loss: [] TD loss without the penalty, on other data, of the parameters after the update.
        """
        inner = self._inner_step
        if inner is None:
            raise UserError(f"{_LIBRARY}: call remember(observations) between loss.backward() and optimizer.step()")
        held_out_gradient = self._gradient_of(held_out_loss, inner.gradient)
        moving = {name: inner.params[name] for name in inner.gradient}
        return mathematics.meta_gradient(
            partial(self._q_values, inner),
            self._weighted_penalty,
            inner.step,
            moving,
            inner.gradient,
            inner.similarity,
            held_out_gradient,
        )

    def learn(self, held_out_loss: Tensor) -> None:
        """One step of the similarity down the meta-gradient, lines 14-18 of Algorithm 1; forgets the inner step.

        A meta-gradient that is not finite changes nothing and is counted in `skipped`.
        """
        slope = self.meta_gradient(held_out_loss)
        self._inner_step = None
        if not slope.isfinite().all():
            self.skipped += 1
            return
        direction = self._adam.direction(slope)
        if self.entropy_weight:
            direction = direction - self.entropy_weight * torch.func.grad(mathematics.row_entropy)(self.similarity)
        self.similarity = mathematics.project(self.similarity - self.learning_rate * direction)

    def bundle(self) -> Bundle:
        """Actions and similarity, to save with `masp.save_bundle` and to start another agent from."""
        return Bundle(self.action_set, self.similarity.cpu().numpy().astype(np.float32))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold: tensors and numbers."""
        return {"similarity": self.similarity, "skipped": self.skipped, **self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`."""
        missing = {"similarity", "mean", "square", "steps"} - set(state)
        if missing:
            raise UserError(f"{_LIBRARY}: load_state_dict: there is no {', '.join(sorted(missing))} in the state")
        similarity = state["similarity"]
        require_similarity(similarity.cpu().numpy().astype(np.float32), len(self.action_set), "state_dict")
        self.similarity = similarity.to(self.similarity)
        self._adam.load_state_dict(state)
        self.skipped = int(state.get("skipped", 0))

    def _weighted_penalty(self, q: Tensor, similarity: Tensor) -> Tensor:
        return self.penalty_weight * mathematics.batch_penalty(q, similarity, self.penalty_form)

    def _q_values(self, inner: InnerStep, moving: Tensors) -> Tensor:
        """[B, A] of the remembered inputs for any values of the parameters that the optimiser steps."""
        try:
            q = torch.func.functional_call(self.q_network, inner.params | moving | inner.buffers, inner.inputs)
        except Exception as error:
            raise UserError(f"{_LIBRARY}: the Q-network cannot be differentiated: {one_line(error)}") from error
        requirements.require_outputs(tuple(q.shape), None, self.action_set, "the Q-network's output")
        return q

    def _gradient_of(self, loss: Tensor, names: Tensors) -> Tensors:
        """The gradient of the held-out loss; zeros for parameters that it does not depend on."""
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise UserError(f"{_LIBRARY}: held_out_loss must be a loss [] with a gradient: the TD loss of other data")
        params = [self._params[name] for name in names]
        gradients = torch.autograd.grad(loss, params, allow_unused=True)
        if all(g is None for g in gradients):
            raise UserError(f"{_LIBRARY}: held_out_loss does not depend on the parameters of the Q-network")
        pairs = zip(names, params, gradients, strict=True)
        return {name: torch.zeros_like(p) if g is None else g for name, p, g in pairs}


def _require_no_dropout(q_network: nn.Module) -> None:
    """Raise `UserError` for layers that draw random numbers: the meta-gradient would see other ones than the loss."""
    for name, layer in q_network.named_modules():
        if isinstance(layer, _DROPOUT) and layer.p:
            kind = type(layer).__name__
            raise UserError(f"{_LIBRARY}: {kind} ({name}) draws random numbers, which the meta-gradient cannot repeat")
