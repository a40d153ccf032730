"""Convolutions as matrix products.

On CPU, XLA's gradient of a convolution is slow, and inside a loop one thread runs it: an update of the Nature network
took about 0.8 s there (docs/performance.md). Elsewhere the backend's own is used. Where our kernels are built
(`native/`), they are, and what is here is for everybody else.
"""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from masp_kernels import convolution as native_convolution
from masp_kernels import library as native


class Convolution(nn.Module):
    """A convolution without padding over [B, H, W, C]; parameters as in `flax.linen.Conv`."""

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
        if native.usable(x, kernel):
            return native_convolution.convolve(x, kernel, self.stride) + bias
        as_product = jax.default_backend() == "cpu" and self.size % self.stride == 0
        return (convolve_as_product if as_product else convolve_natively)(x, kernel, self.stride) + bias


def convolve_natively(x: Array, kernel: Array, stride: int) -> Array:
    """[B, H', W', F] the backend's own convolution of [B, H, W, C] with [k, k, C, F]."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=layout)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def convolve_as_product(x: Array, kernel: Array, stride: int) -> Array:
    """The same, for a kernel whose size is a multiple of the stride.

    Blocks of stride x stride cells become channels first; what is left is a convolution of stride one. Forward, a large
    stride leaves few shifts, and multiplying first and shifting the products saves the patches; gradients are
    quicker with patches.
    """
    return _by_shifts(x, kernel, stride) if stride > 1 else _by_patches(x, kernel, stride)


@convolve_as_product.defjvp
def _derivative(stride: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, kernel), (dx, dkernel) = primals, tangents
    tangent = _by_patches(dx, kernel, stride) + _by_patches(x, dkernel, stride)
    return convolve_as_product(x, kernel, stride), tangent


def _by_patches(x: Array, kernel: Array, stride: int) -> Array:
    x, by_feature = _strideless(x, kernel, stride)
    # With the kernel as [F, inputs] its gradient is few rows times many columns, the quicker way round.
    flat = by_feature.reshape(by_feature.shape[0], -1)
    return jnp.einsum("bhwk,fk->bhwf", patches(x, by_feature.shape[1]), flat)


def _by_shifts(x: Array, kernel: Array, stride: int) -> Array:
    x, by_feature = _strideless(x, kernel, stride)
    features, blocks = by_feature.shape[:2]
    by_place = jnp.moveaxis(by_feature, 0, 2).reshape(blocks * blocks * features, -1)
    products = jnp.einsum("bhwk,fk->bhwf", x, by_place)
    height, width = x.shape[1] - blocks + 1, x.shape[2] - blocks + 1
    places = [(i, j, (i * blocks + j) * features) for i in range(blocks) for j in range(blocks)]
    return sum(products[:, i : i + height, j : j + width, k : k + features] for i, j, k in places)  # type: ignore[return-value]


def _strideless(x: Array, kernel: Array, stride: int) -> tuple[Array, Array]:
    """[B, H', W', stride * stride * C] and [F, blocks, blocks, stride * stride * C]: the same with a stride of one."""
    blocks = kernel.shape[0] // stride
    height, width = ((side - kernel.shape[0]) // stride + blocks for side in x.shape[1:3])
    x = _blocks_to_channels(x[:, : height * stride, : width * stride], stride)
    return x, _blocks_to_channels(jnp.moveaxis(kernel, -1, 0), stride)


def patches(x: Array, size: int) -> Array:
    """[B, H', W', size * size * C] every size x size patch of [B, H, W, C], flat: a convolution is linear in these."""
    height, width = x.shape[1] - size + 1, x.shape[2] - size + 1
    shifted = [x[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=-1)


def _blocks_to_channels(x: Array, size: int) -> Array:
    """[B, H / size, W / size, size * size * C]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // size, size, width // size, size, channels)
    return jnp.swapaxes(x, 2, 3).reshape(batch, height // size, width // size, -1)
