"""A 3x3 convolution with ReLU over few cells of 0/1 planes, such as those of MinAtar and MiniGrid.

Cells are small as bits (four bytes) and large as planes (25 numbers in MiniGrid), so `SmallConvolution` also accepts
planes packed as the lowest bits of integers. Where kernels run, the convolution is deferred: one kernel then computes
it together with the `Linear` layer behind it, and multiplies each distinct patch of the batch only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from masp.ops import kernels
from masp.ops.convolution import patches

SIZE = 3


class SmallConvolution(nn.Module):
    """A 3x3 convolution without padding, with ReLU, flattened to features."""

    features: int
    bits: int = 0
    """Planes that each integer of x holds as its lowest bits; 0: x is already unpacked."""

    @nn.compact
    def __call__(self, x: Array) -> Features:
        """[B, (H - 2) * (W - 2) * features] of [B, H, W, C]; the result may be deferred."""
        init = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal", in_axis=-1, out_axis=-2)
        inputs = SIZE**2 * x.shape[-1] * max(self.bits, 1)
        kernel = self.param("kernel", init, (self.features, inputs))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        if (self.bits or x.dtype == bool) and kernels.usable(kernel, bias):
            return Deferred(x, kernel, bias, max(self.bits, 1))
        return small_convolution(x, kernel, bias, self.bits)


def small_convolution(x: Array, kernel: Array, bias: Array, bits: int) -> Array:
    """[B, H' * W' * F] ReLU(bias + patches * kernel) of [B, H, W, C], [F, 9 * C * bits] and [F]."""
    columns = patches(x, SIZE)  # of packed bits where there are any: that moves much less memory
    planes = unpack_bits(columns, bits) if bits else columns.astype(kernel.dtype)
    y = jax.nn.relu(jnp.einsum("...i,oi->...o", planes, kernel) + bias)
    return y.reshape(y.shape[0], -1)


def pack_one_hot(codes: Array, cardinalities: Sequence[int]) -> Array:
    """[...] integers whose bits are the one-hot vectors of codes [..., K], one after the other.

    A code that is not below its cardinality has no bit.
    """
    packed, offset = jnp.zeros(codes.shape[:-1], jnp.int32), 0
    for i, cardinality in enumerate(cardinalities):
        code = codes[..., i].astype(jnp.int32)
        packed |= jnp.where(code < cardinality, 1 << (offset + code), 0)
        offset += cardinality
    return packed


def unpack_bits(packed: Array, bits: int) -> Array:
    """[..., C * bits] zeros and ones, the lowest bits of integers [..., C]."""
    unpacked = (packed[..., None] >> jnp.arange(bits, dtype=packed.dtype)) & 1
    return unpacked.astype(jnp.result_type(float)).reshape(*packed.shape[:-1], -1)


@dataclass(frozen=True)
class Deferred:
    """Features [B, F] that begin with a small convolution which is not computed yet."""

    x: Array  # [B, H, W, C]
    kernel: Array  # of the convolution, [F, 9 * C * bits]
    bias: Array  # [F]
    bits: int
    more: Array | None = None  # [B, M] features behind those of the convolution
    constant: Array | None = None  # [K] features that all rows share, last

    @property
    def shape(self) -> tuple[int, int]:
        tail = sum(part.shape[-1] for part in (self.more, self.constant) if part is not None)
        return self.x.shape[0], self._convolution_width + tail

    @property
    def _convolution_width(self) -> int:
        _, height, width, _ = self.x.shape
        return (height - SIZE + 1) * (width - SIZE + 1) * self.kernel.shape[0]

    @cached_property
    def array(self) -> Array:
        """[B, F] all features, computed without fusion."""
        y = kernels.module("bits").convolve(self.x, self.kernel, self.bias, self.bits, SIZE)
        y = y.reshape(y.shape[0], -1)
        y = y if self.more is None else as_array(concatenate(y, self.more))
        return y if self.constant is None else as_array(append_constant(y, self.constant))

    def linear(self, kernel_t: Array, bias: Array, relu: bool) -> Array:
        """[B, O] a linear layer of these features, fused with the convolution where that pays off."""
        cells = kernels.module("cells")
        if not cells.fits(self.x, self.kernel.shape[0], kernel_t.shape[1], self.bits, SIZE):
            y = self.array @ kernel_t + bias
            return jax.nn.relu(y) if relu else y
        weights = (self.x, self.kernel, self.bias, kernel_t, bias)
        if self.more is None:
            return cells.hidden(*weights, self.bits, SIZE, self.constant, relu)
        y = cells.hidden(*weights, self.bits, SIZE, self.constant, False)
        begin = self._convolution_width
        y = y + self.more @ kernel_t[begin : begin + self.more.shape[1]]
        return jax.nn.relu(y) if relu else y


Features: TypeAlias = Array | Deferred
"""[B, F] features, possibly not computed yet."""


def as_array(features: Features) -> Array:
    """[B, F] features, computed."""
    return features.array if isinstance(features, Deferred) else features


def concatenate(features: Features, more: Array) -> Features:
    """[B, F + M] features [B, F] followed by others [B, M]."""
    if isinstance(features, Deferred) and features.more is None and features.constant is None:
        return replace(features, more=more)
    return jnp.concatenate([as_array(features), more], axis=-1)


def append_constant(features: Features, vector: Array) -> Features:
    """[B, F + K] features [B, F] followed by a vector [K] that is the same in all rows."""
    if isinstance(features, Deferred) and features.constant is None:
        return replace(features, constant=vector)
    repeated = jnp.broadcast_to(vector, (features.shape[0], len(vector)))
    return jnp.concatenate([as_array(features), repeated], axis=-1)
