"""One step of a similarity down its meta-gradient: the meta-optimiser, the entropy term and the projection."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import optax
from jax import Array

from masp.similarity.matrix import project, row_entropy


@dataclass(frozen=True)
class Descent:
    """How a similarity follows its meta-gradient; the learning rate is an argument, because runs may differ in it."""

    optimiser: str = "adam"
    """`adam` or `sgd`."""
    entropy_weight: float = 0.0

    def init(self, similarity: Array) -> optax.OptState:
        return self._transformation.init(similarity)

    def step(
        self, similarity: Array, opt_state: optax.OptState, gradient: Array, learning_rate: Array | float
    ) -> tuple[Array, optax.OptState]:
        """The similarity [A, A] (or its factors) and the state of the meta-optimiser after one step."""
        direction, opt_state = self._transformation.update(gradient, opt_state)
        direction = direction - self._entropy_slope(similarity)
        return project(similarity - learning_rate * direction), opt_state

    @property
    def _transformation(self) -> optax.GradientTransformation:
        return optax.scale_by_adam() if self.optimiser == "adam" else optax.identity()

    def _entropy_slope(self, similarity: Array) -> Array | float:
        """Slope of the row entropy, in units of a meta-step (appendix A.3).

        It is added to the direction, not to the gradient: Adam would otherwise rescale the two together, and the
        meta-gradient is smaller than any weight one would write down.
        """
        return self.entropy_weight * jax.grad(row_entropy)(similarity) if self.entropy_weight else 0.0
