"""Q-networks: a torso for the kind of observation, then plain or dueling, plain or noisy, scalar or C51 heads."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from masp_kernels import bits as native_bits
from masp_kernels import cells as native_cells
from masp_kernels import convolution as native_convolution
from masp_kernels import library as native
from masp_kernels import linear as native_linear
from masp_kernels import torso as native_torso

from masp.environments.base import ObservationKind
from masp.environments.minigrid_mission import MOST_WORDS, NUM_CODES
from masp.ops.convolution import Convolution, patches

Noise = Any
"""Noise factors of every noisy layer of a network; None: no noise."""

MINIGRID_CARDINALITIES = (11, 6, 4, 4)
"""How many objects, colours, states (doors have three, 'held' is ours) and directions a MiniGrid cell can show."""


class Cells(NamedTuple):
    """A small convolution with ReLU that the layer after it shall do, in one kernel: `native/cells.py`."""

    numbers: Array  # [B, H, W, C]
    kernel: Array
    bias: Array
    bits: int
    size: int
    beside: Array | None = None  # [B, ...] features that do not come from it
    common: Array | None = None  # [...] features that are the same in all rows; the last of all

    @property
    def dtype(self) -> Any:
        return self.kernel.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Of its own features."""
        batch, height, width, _ = self.numbers.shape
        return batch, (height - self.size + 1) * (width - self.size + 1) * self.kernel.shape[0]


def join(x: Array | Cells, beside: Array) -> Array | Cells:
    """Features [B, ...] and more of them."""
    return x._replace(beside=beside) if isinstance(x, Cells) else jnp.concatenate([x, beside], axis=-1)


def join_common(x: Array | Cells, common: Array) -> Array | Cells:
    """Features [B, ...] and, behind them, some that are the same in all rows [...]."""
    if isinstance(x, Cells):
        return x._replace(common=common)
    return jnp.concatenate([x, jnp.broadcast_to(common, (x.shape[0], len(common)))], axis=-1)


class Linear(nn.Module):
    """A linear layer whose weights are [outputs, inputs], except where `inputs_first` says otherwise.

    XLA makes the gradient this way round; with flax's [inputs, outputs], Adam read it across the rows, which took a
    third of an update of MinAtar (docs/performance.md).
    """

    features: int
    initial_scale: float = 1.0
    patch: int = 1
    """Side of the patches of [B, H, W, C] that the layer is applied to, each as one vector; 1: it is applied to x."""
    bits: int = 0
    """Planes that each integer of x holds as its lowest bits, for our kernel, which applies ReLU, too; 0: x is it."""
    hand_over: bool = False
    """Leave it to the layer behind."""
    inputs_first: bool = False
    """Weights are [inputs, outputs], as the layer behind `Cells` has them."""
    rectified: bool = False
    """With ReLU behind."""

    def __call__(self, x: Any) -> Any:
        """[B, features] of [B, ...] or of `Cells`."""
        alone = isinstance(x, Cells) and x.beside is None  # then our kernel applies ReLU
        y = self._product(x, rectified=self.rectified and alone)
        return nn.relu(y) if self.rectified and not alone else y

    @nn.compact
    def _product(self, x: Any, rectified: bool) -> Any:
        around = nn.initializers.variance_scaling(
            self.initial_scale**2, "fan_in", "truncated_normal", in_axis=-1, out_axis=-2
        )
        inputs = self.patch**2 * x.shape[-1] * max(self.bits, 1)
        if isinstance(x, Cells):
            inputs += sum(more.shape[-1] for more in (x.beside, x.common) if more is not None)

        def kernel_of(key: Array) -> Array:
            kernel = around(key, (self.features, inputs))
            return kernel.T if self.inputs_first else kernel

        kernel = self.param("kernel", kernel_of)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        if self.hand_over:
            return Cells(x, kernel, bias, self.bits, self.patch)
        if isinstance(x, Cells):
            given = (x.numbers, x.kernel, x.bias, kernel, bias)
            y = native_cells.hidden(*given, x.bits, x.size, x.common, rectified)
            if x.beside is not None:
                y = y + x.beside @ kernel[x.shape[1] : x.shape[1] + x.beside.shape[1]]
            return y
        if self.inputs_first:
            return x @ kernel + bias
        if self.bits:
            return native_bits.convolve(x, kernel, bias, self.bits, self.patch)
        if self.patch > 1 and native.usable(x, kernel):
            by_place = kernel.T.reshape(self.patch, self.patch, -1, self.features)
            return native_convolution.convolve(x, by_place, 1) + bias
        if x.ndim == 2 and native.usable(x, kernel):
            return native_linear.linear(x, kernel) + bias
        x = patches(x, self.patch) if self.patch > 1 else x
        return jnp.einsum("...i,oi->...o", x, kernel) + bias


class NoisyDense(nn.Module):
    """A linear layer with factorised Gaussian noise (Fortunato et al. 2018).

    The noise of a weight is f(e_in) f(e_out): of rank one per layer. Both factors come in as the collection `noise`
    (see `draw_noise`): noise is data, so "the same noise sample" is the same array. Without it the layer is plain.
    Noise is added to the weights before the product, so that the gradients of `kernel` and `kernel_sigma` come from
    one product.
    """

    features: int
    initial_scale: float = 1.0
    initial_sigma: float = 0.5

    @nn.compact
    def __call__(self, x: Array) -> Array:
        inputs = x.shape[-1]
        bound = inputs**-0.5

        def uniform(key: Array, shape: tuple[int, ...]) -> Array:
            return self.initial_scale * jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        sigma = nn.initializers.constant(self.initial_sigma * bound)
        kernel = self.param("kernel", uniform, (self.features, inputs))
        bias = self.param("bias", uniform, (self.features,))
        kernel_sigma = self.param("kernel_sigma", sigma, (self.features, inputs))
        bias_sigma = self.param("bias_sigma", sigma, (self.features,))
        if self.is_initializing() or self.has_variable("noise", "input"):
            noise_in = self.variable("noise", "input", jnp.zeros, (inputs,)).value
            noise_out = self.variable("noise", "output", jnp.zeros, (self.features,)).value
            bias = bias + bias_sigma * noise_out
            if native.usable(x, kernel, kernel_sigma, noise_in, noise_out):
                return native_linear.noisy_linear(x, kernel, kernel_sigma, noise_in, noise_out) + bias
            kernel = kernel + noise_out[:, None] * kernel_sigma * noise_in
        if native.usable(x, kernel):
            return native_linear.linear(x, kernel) + bias
        return jnp.einsum("bi,oi->bo", x, kernel) + bias


def draw_noise(key: Array, template: Noise, samples: int) -> list[Noise]:
    """Independent noise for `samples` passes: f(e) = sign(e) sqrt|e| of Gaussians, in the shape of `template`.

    One draw for all layers and passes: small draws cost more than the numbers in them.
    """
    flat, unravel = ravel_pytree(template)
    e = jax.random.normal(key, (samples, flat.size), flat.dtype)
    factors = jnp.sign(e) * jnp.sqrt(jnp.abs(e))
    return [unravel(row) for row in factors]


class NatureTorso(nn.Module):
    """Mnih et al. 2015: three convolutions over [B, H, W, C] bytes."""

    dtype: Any

    @nn.compact
    def __call__(self, x: Array) -> Array:
        layers = [Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)]
        channels = [x.shape[-1], *[layer.features for layer in layers]]
        weights = [layer.weights(c) for layer, c in zip(layers, channels, strict=False)]
        if native_torso.fits(x, weights):
            y = native_torso.torso(x, weights, [layer.stride for layer in layers])
        else:
            y = x.astype(self.dtype) / 255.0
            for layer in layers:
                y = nn.relu(layer(y))
        return y.reshape(y.shape[0], -1)


class SmallTorso(nn.Module):
    """One 3x3 convolution with 16 channels (MinAtar's own network), for grids of a few cells."""

    dtype: Any
    features: int = 16
    behind: int = 0
    """Units of the plain layer behind, which may do this one, too; 0: it may not."""

    @nn.compact
    def __call__(self, x: Array, bits: int = 0) -> Any:
        """[B, features] from planes [B, H, W, C] or, with `bits`, from numbers that hold so many planes each."""
        direct = native.usable(jax.ShapeDtypeStruct((), self.dtype))  # our kernels read patches where they lie
        if direct and (bits or x.dtype == bool):
            both = self.behind > 0 and native_cells.fits(x, self.features, self.behind, bits or 1, 3)
            y = Linear(self.features, patch=3, bits=bits or 1, hand_over=both)(x)
            return y if both else y.reshape(x.shape[0], -1)
        x = x if direct else patches(x, 3)
        planes = _planes(x, bits, self.dtype) if bits else x.astype(self.dtype)
        x = nn.relu(Linear(self.features, patch=3 if direct else 1)(planes))
        return x.reshape(x.shape[0], -1)


def _planes(numbers: Array, bits: int, dtype: Any) -> Array:
    """[..., C * bits] the lowest bits of [..., C] integers, as zeros and ones.

    Cells are a few bytes as bits and a hundred as planes: gathering patches of bits moves much less memory.
    """
    unpacked = (numbers[..., None] >> jnp.arange(bits, dtype=numbers.dtype)) & 1
    return unpacked.astype(dtype).reshape(*numbers.shape[:-1], -1)


def _one_hot_bits(codes: Array) -> Array:
    """[...] the one-hot codes [..., 4] of a MiniGrid cell, one after the other, as the bits of one number."""
    found, place = jnp.zeros(codes.shape[:-1], jnp.int32), 0
    for i, kinds in enumerate(MINIGRID_CARDINALITIES):
        code = codes[..., i].astype(jnp.int32)
        found |= jnp.where(code < kinds, 1 << (place + code), 0)
        place += kinds
    return found


def minigrid_planes(x: Array, mission: bool) -> Array:
    """[B, ...] the cells [B, 7, 7, codes * stack] of `MiniGridTorso` as zeros and ones, without the mission."""
    kinds = len(MINIGRID_CARDINALITIES) + mission
    frames = [_one_hot_bits(x[..., i : i + kinds]) for i in range(0, x.shape[-1], kinds)]
    return _planes(jnp.stack(frames, axis=-1), sum(MINIGRID_CARDINALITIES), jnp.result_type(float))


class MiniGridTorso(nn.Module):
    """Cells [B, 7, 7, 4 * stack] of (object, colour, state, direction) codes, one-hot, then a small convolution.

    With a mission [B, 7, 7, 5 * stack]: the fifth plane of a frame holds the codes of its words. They go past the
    convolution, one-hot at their places in the text: "red key, blue room" is not "blue key, red room".
    """

    dtype: Any
    mission: bool = False
    behind: int = 0

    @nn.compact
    def __call__(self, x: Array) -> Any:
        kinds = len(MINIGRID_CARDINALITIES) + self.mission
        frames = [_one_hot_bits(x[..., i : i + kinds]) for i in range(0, x.shape[-1], kinds)]
        seen = SmallTorso(self.dtype, 32, self.behind)(jnp.stack(frames, axis=-1), sum(MINIGRID_CARDINALITIES))
        if not self.mission:
            return seen
        words = x[..., -1].reshape(x.shape[0], -1)[:, :MOST_WORDS]  # of the newest frame; an episode has one mission
        told = nn.relu(Linear(32)(jax.nn.one_hot(words, NUM_CODES, dtype=self.dtype).reshape(x.shape[0], -1)))
        return join(seen, told)


class MlpTorso(nn.Module):
    """Vectors of numbers."""

    dtype: Any
    width: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = x.reshape(x.shape[0], -1).astype(self.dtype)
        return nn.relu(Linear(self.width)(x))


class QNetwork(nn.Module):
    """Observations and the similarity to one value, or one distribution of values, per action."""

    observation_kind: ObservationKind
    num_actions: int
    num_atoms: int
    """1: scalar values."""
    hidden: int
    dueling: bool
    noisy: bool
    embedding: int
    """Numbers in the embedding of the similarity; 0: the network does not see it."""
    half_precision: bool = False
    """Features are bfloat16; the parameters must be, too (see `Learner.outputs`)."""

    @nn.compact
    def __call__(self, observation: Array, similarity: Array) -> Array:
        """[B, A, atoms] logits (C51) or values (one atom); `similarity` [A, A] is context and receives no gradient."""
        x = self._torso()(observation)
        if self.embedding:
            flat = jax.lax.stop_gradient(similarity).reshape(-1).astype(x.dtype)
            # Small at the start: entries that all change together must not swamp the state features.
            init = nn.initializers.normal(0.1 / self.num_actions)
            code = nn.Dense(self.embedding, use_bias=False, kernel_init=init, name="embedding")(flat)
            x = join_common(x, code)
        advantage = self._head(x, self.num_actions, "advantage")
        if not self.dueling:
            return advantage
        value = self._head(x, 1, "value")
        return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)

    def _torso(self) -> nn.Module:
        dtype = jnp.bfloat16 if self.half_precision else jnp.result_type(float)
        if self.observation_kind == "vector":
            return MlpTorso(dtype, self.hidden)
        behind = 0 if self.noisy else self.hidden
        torsos: dict[str, Any] = {
            "image": NatureTorso,
            "planes": partial(SmallTorso, behind=behind),
            "minigrid": partial(MiniGridTorso, behind=behind),
            "minigrid-mission": partial(MiniGridTorso, mission=True, behind=behind),
        }
        return torsos[self.observation_kind](dtype)

    def _head(self, x: Any, outputs: int, name: str) -> Array:
        """[B, outputs, atoms] one hidden layer, then linear, starting near zero.

        With usual weights the penalty stopped learning on `planted-grid` (docs/planted.md). Our guess, not tested: it
        sees only random values at first, and silences the hidden units that make them.
        """
        width, start = outputs * self.num_atoms, 0.01
        if self.noisy:
            x = nn.relu(NoisyDense(self.hidden, name=f"{name}_hidden")(x))
            x = NoisyDense(width, start, name=f"{name}_out")(x)
        else:
            cells = self.observation_kind not in ("vector", "image")
            x = Linear(self.hidden, inputs_first=cells, rectified=True, name=f"{name}_hidden")(x)
            x = Linear(width, start, name=f"{name}_out")(x)
        return x.reshape(x.shape[0], outputs, self.num_atoms)
