"""stub until the ops room is merged"""

import dataclasses

import jax

from masp.agent import optimiser as _o
from masp.ops.ordering import after
from masp.similarity.metagradient import adam as _adam


@dataclasses.dataclass(frozen=True)
class Adam:
    learning_rate: float
    eps: float
    max_gradient_norm: float

    def init(self, params):
        return _adam(self.learning_rate, self.eps, self.max_gradient_norm).init(params)

    def step(self, gradient, opt_state, params, after=()):
        done = [leaf.reshape(-1)[0].astype(float) for leaf in jax.tree.leaves(after)]
        return _o.descend(self.learning_rate, self.eps, self.max_gradient_norm, gradient, opt_state, params, done)

    @property
    def transformation(self):
        return _o.to_differentiate(self.learning_rate, self.eps, self.max_gradient_norm)


def expected_values(outputs, support, forward_mode=False):
    import jax.numpy as jnp
    from masp_kernels import library as native
    from masp_kernels import softmax as ns

    if support.shape[0] == 1:
        return outputs[..., 0]
    if native.usable(outputs, support):
        return (ns.expected_values_pushed if forward_mode else ns.expected_values)(outputs, support)
    return jnp.sum(jax.nn.softmax(outputs) * support, axis=-1)
