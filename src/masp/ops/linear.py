"""Linear layers, plain and noisy.

Weights are [outputs, inputs]. XLA computes the gradient of a product in this orientation; with [inputs, outputs], Adam
read it across the rows, which took a third of an update of MinAtar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.ops import kernels
from masp.ops.small_convolution import Deferred, Features, as_array


class Linear(nn.Module):
    """A linear layer, with ReLU where `relu` is set.

    Behind a `SmallConvolution` that a kernel fuses with this layer, the weights are [inputs, outputs] and the
    parameter is called `kernel_t`; `adapt_layout` converts between the two.
    """

    features: int
    initial_scale: float = 1.0
    """Standard deviation of the initial weights, in units of 1 / sqrt(inputs)."""
    relu: bool = False

    @nn.compact
    def __call__(self, x: Features) -> Array:
        """[..., features] of [..., inputs]."""
        variance = self.initial_scale**2
        init = nn.initializers.variance_scaling(variance, "fan_in", "truncated_normal", in_axis=-1, out_axis=-2)
        shape = (self.features, x.shape[-1])
        if isinstance(x, Deferred):
            kernel_t = self.param("kernel_t", lambda key: init(key, shape).T)
            return x.linear(kernel_t, self._bias(), self.relu)
        kernel = self.param("kernel", init, shape)
        y = linear(x, kernel) + self._bias()
        return nn.relu(y) if self.relu else y

    def _bias(self) -> Array:
        return self.param("bias", nn.initializers.zeros_init(), (self.features,))


class NoisyLinear(nn.Module):
    """A linear layer with factorised Gaussian noise on its weights (Fortunato et al. 2018).

    The noise of weight [o, i] is output[o] * input[i]. Both factors are the collection `noise`, an input of the
    network like any other, so that several passes can share one sample. Without it the layer uses its means.
    """

    features: int
    initial_scale: float = 1.0
    """Factor of the initial means and of the initial sigmas."""
    initial_sigma: float = 0.5

    @nn.compact
    def __call__(self, x: Features) -> Array:
        """[B, features] of [B, inputs]."""
        x = as_array(x)
        shape = (self.features, x.shape[-1])
        bound = shape[1] ** -0.5

        def uniform(key: Array, shape: tuple[int, ...]) -> Array:
            return self.initial_scale * jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        sigma = nn.initializers.constant(self.initial_scale * self.initial_sigma * bound)
        kernel = self.param("kernel", uniform, shape)
        bias = self.param("bias", uniform, shape[:1])
        kernel_sigma = self.param("kernel_sigma", sigma, shape)
        bias_sigma = self.param("bias_sigma", sigma, shape[:1])
        if not (self.is_initializing() or self.has_variable("noise", "input")):
            return linear(x, kernel) + bias
        noise_in = self.variable("noise", "input", jnp.zeros, shape[1:]).value
        noise_out = self.variable("noise", "output", jnp.zeros, shape[:1]).value
        return noisy_linear(x, kernel, kernel_sigma, noise_in, noise_out) + (bias + bias_sigma * noise_out)


def linear(x: Array, kernel: Array) -> Array:
    """[..., O] product of [..., I] and [O, I]."""
    if x.ndim == 2 and kernels.usable(x, kernel):
        return kernels.module("linear").linear(x, kernel)
    return jnp.einsum("...i,oi->...o", x, kernel)


def noisy_linear(x: Array, kernel: Array, sigma: Array, noise_in: Array, noise_out: Array) -> Array:
    """[B, O] product of [B, I] and the weights kernel + noise_out * sigma * noise_in, [O, I].

    The noise is added to the weights before the product, so that one product gives the gradients of both.
    """
    if kernels.usable(x, kernel, sigma, noise_in, noise_out):
        return kernels.module("linear").noisy_linear(x, kernel, sigma, noise_in, noise_out)
    return linear(x, kernel + noise_out[:, None] * sigma * noise_in)


def adapt_layout(arrays: Mapping[str, np.ndarray], names: Iterable[str]) -> dict[str, np.ndarray]:
    """Saved `arrays` with the weight orientation that a state with these `names` has.

    A name is the path of an array as `jax.tree_util.keystr` writes it. Where `names` has ['kernel_t'] and `arrays` has
    ['kernel'] at the same path, or the reverse, the array is transposed and renamed: the file was written on a machine
    with kernels and is read on one without, or the reverse.
    """
    adapted = dict(arrays)
    for name in names:
        twin = name.replace("['kernel_t']", "['kernel']")
        twin = name.replace("['kernel']", "['kernel_t']") if twin == name else twin
        if name not in arrays and twin in arrays:
            adapted[name] = np.ascontiguousarray(np.swapaxes(adapted.pop(twin), -1, -2))
    return adapted
