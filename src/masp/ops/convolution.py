"""Convolutions without padding over images.

On CPU, XLA's gradient of a convolution is slow, and inside a loop a single thread computes it: an update of the Nature
network took about 0.8 s. There, convolutions are matrix products of patches; other backends use their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from masp.ops import kernels


class ConvolutionStack(nn.Module):
    """Convolutions with ReLU over images of bytes [B, H, W, C], which stand for 0 to 1, flattened to features."""

    layers: Sequence[tuple[int, int, int]]
    """Features, size and stride of each convolution."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """[B, features]."""
        channels = [x.shape[-1], *[features for features, _, _ in self.layers]]
        convolutions = [Convolution(*layer) for layer in self.layers]
        weights = [layer.weights(before) for layer, (before, _) in zip(convolutions, pairwise(channels), strict=True)]
        y = convolution_stack(x, weights, [stride for _, _, stride in self.layers])
        return y.reshape(y.shape[0], -1)


class Convolution(nn.Module):
    """A convolution; parameters as in `flax.linen.Conv`."""

    features: int
    size: int
    stride: int = 1

    @nn.compact
    def weights(self, channels: int) -> tuple[Array, Array]:
        """Kernel [k, k, C, F] and bias [F] for images of C channels."""
        shape = (self.size, self.size, channels, self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        return kernel, self.param("bias", nn.initializers.zeros_init(), (self.features,))

    def __call__(self, x: Array) -> Array:
        kernel, bias = self.weights(x.shape[-1])
        return convolve(x, kernel, self.stride) + bias


def convolution_stack(x: Array, weights: Sequence[tuple[Array, Array]], strides: Sequence[int]) -> Array:
    """[B, H', W', F] the last activation for bytes [B, H, W, C] and (kernel, bias) of every layer."""
    flat = [array for layer in weights for array in layer]
    if kernels.usable(*flat) and kernels.module("torso").fits(x, weights):
        return kernels.module("torso").torso(x, weights, strides)
    y = x.astype(jnp.result_type(float)) / 255.0
    for (kernel, bias), stride in zip(weights, strides, strict=True):
        y = nn.relu(convolve(y, kernel, stride) + bias)
    return y


def convolve(x: Array, kernel: Array, stride: int) -> Array:
    """[B, H', W', F] convolution of [B, H, W, C] with [k, k, C, F]."""
    if kernels.usable(x, kernel):
        return kernels.module("convolution").convolve(x, kernel, stride)
    if jax.default_backend() == "cpu" and kernel.shape[0] % stride == 0:
        return convolve_as_product(x, kernel, stride)
    return convolve_by_xla(x, kernel, stride)


def convolve_by_xla(x: Array, kernel: Array, stride: int) -> Array:
    """The same by the backend's own convolution."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=layout)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def convolve_as_product(x: Array, kernel: Array, stride: int) -> Array:
    """The same by matrix products, for a kernel whose size is a multiple of the stride.

    Blocks of stride x stride cells become channels first, which leaves a convolution of stride one. In the forward
    pass, a large stride leaves few shifts, and shifting the products avoids copying patches. Gradients are faster with
    patches.
    """
    return _by_shifts(x, kernel, stride) if stride > 1 else _by_patches(x, kernel, stride)


@convolve_as_product.defjvp
def _derivative(stride: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, kernel), (dx, dkernel) = primals, tangents
    tangent = _by_patches(dx, kernel, stride) + _by_patches(x, dkernel, stride)
    return convolve_as_product(x, kernel, stride), tangent


def _by_patches(x: Array, kernel: Array, stride: int) -> Array:
    x, by_feature = _without_stride(x, kernel, stride)
    # With the kernel as [F, inputs] its gradient has few rows and many columns, the faster orientation.
    flat = by_feature.reshape(by_feature.shape[0], -1)
    return jnp.einsum("bhwk,fk->bhwf", patches(x, by_feature.shape[1]), flat)


def _by_shifts(x: Array, kernel: Array, stride: int) -> Array:
    x, by_feature = _without_stride(x, kernel, stride)
    features, blocks = by_feature.shape[:2]
    by_position = jnp.moveaxis(by_feature, 0, 2).reshape(blocks * blocks * features, -1)
    products = jnp.einsum("bhwk,fk->bhwf", x, by_position)
    height, width = x.shape[1] - blocks + 1, x.shape[2] - blocks + 1
    positions = [(i, j, (i * blocks + j) * features) for i in range(blocks) for j in range(blocks)]
    return sum(products[:, i : i + height, j : j + width, k : k + features] for i, j, k in positions)  # type: ignore[return-value]


def _without_stride(x: Array, kernel: Array, stride: int) -> tuple[Array, Array]:
    """[B, H', W', stride * stride * C] and [F, blocks, blocks, stride * stride * C]: the same with a stride of one."""
    blocks = kernel.shape[0] // stride
    height, width = ((side - kernel.shape[0]) // stride + blocks for side in x.shape[1:3])
    x = _blocks_to_channels(x[:, : height * stride, : width * stride], stride)
    return x, _blocks_to_channels(jnp.moveaxis(kernel, -1, 0), stride)


def patches(x: Array, size: int) -> Array:
    """[B, H', W', size * size * C] every size x size patch of [B, H, W, C], flattened."""
    height, width = x.shape[1] - size + 1, x.shape[2] - size + 1
    shifted = [x[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=-1)


def _blocks_to_channels(x: Array, size: int) -> Array:
    """[B, H / size, W / size, size * size * C]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // size, size, width // size, size, channels)
    return jnp.swapaxes(x, 2, 3).reshape(batch, height // size, width // size, -1)
