"""Q-networks: a torso for the kind of observation, then plain or dueling, plain or noisy, scalar or C51 heads."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from masp import ops
from masp.environments.base import ObservationKind
from masp.environments.minigrid_cells import NUM_GRID_PLANES, NUM_PLANES, packed_cells, packed_grid
from masp.environments.minigrid_mission import MOST_WORDS, NUM_CODES
from masp.errors import UserCodeError, UserError
from masp.importing import one_line

Noise = Any
"""Noise factors of every noisy layer of a network; None: no noise."""

OUTPUT_SCALE = 0.01
"""Scale of the initial weights of the output layers, with which values start near 0."""


def draw_noise(key: Array, template: Noise, samples: int) -> list[Noise]:
    """Independent noise for `samples` passes: f(e) = sign(e) sqrt|e| of Gaussians, in the shape of `template`.

    All layers and passes share one call of the generator: small calls cost more than the numbers they return.
    """
    flat, unravel = ravel_pytree(template)
    e = jax.random.normal(key, (samples, flat.size), flat.dtype)
    factors = jnp.sign(e) * jnp.sqrt(jnp.abs(e))
    return [unravel(row) for row in factors]


class NatureTorso(ops.ConvolutionStack):
    """Three convolutions over images of bytes [B, H, W, C] (Mnih et al. 2015)."""

    layers: Any = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


class SmallTorso(nn.Module):
    """One 3x3 convolution over grids of a few cells (the network of MinAtar's authors)."""

    features: int = 16
    bits: int = 0
    """See `ops.SmallConvolution`."""

    @nn.compact
    def __call__(self, x: Array) -> ops.Features:
        # The name is part of saved policies.
        return ops.SmallConvolution(self.features, self.bits, name="Linear_0")(x)


class MiniGridTorso(nn.Module):
    """Cells [B, 7, 7, 4 * stack] of (object, colour, state, direction) codes: one-hot, then a small convolution.

    With a mission [B, 7, 7, 5 * stack], the fifth channel of a frame holds the codes of its words. A linear layer
    beside the convolution sees them one-hot at their positions: "red key, blue room" is not "blue key, red room".
    """

    mission: bool = False

    @nn.compact
    def __call__(self, x: Array) -> ops.Features:
        cells = SmallTorso(32, NUM_PLANES)(packed_cells(x, self.mission))
        return ops.concatenate(cells, ops.Linear(32, relu=True)(_mission_words(x))) if self.mission else cells


class WholeGridTorso(nn.Module):
    """Whole grids [B, S, S, stack] of one byte per cell, around the agent: one-hot, then two convolutions.

    With a mission [B, S, S, 2 * stack], its words go past the convolutions, as in `MiniGridTorso`.
    """

    mission: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = ops.unpack_bits(packed_grid(x, self.mission), NUM_GRID_PLANES)
        for _ in range(2):
            y = nn.relu(ops.Convolution(32, 4, 2)(y))
        y = y.reshape(y.shape[0], -1)
        return jnp.concatenate([y, ops.Linear(32, relu=True)(_mission_words(x))], axis=1) if self.mission else y


def _mission_words(x: Array) -> Array:
    """[B, MOST_WORDS * NUM_CODES] the words of the newest frame, one-hot; an episode has one mission."""
    words = x[..., -1].reshape(x.shape[0], -1)[:, :MOST_WORDS]
    return jax.nn.one_hot(words, NUM_CODES).reshape(x.shape[0], -1)


class MlpTorso(nn.Module):
    """One linear layer with ReLU over vectors."""

    width: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return ops.Linear(self.width, relu=True)(x.reshape(x.shape[0], -1).astype(jnp.result_type(float)))


class QNetwork(nn.Module):
    """Maps observations and the similarity to one value, or one distribution of values, per action."""

    observation_kind: ObservationKind
    num_actions: int
    num_atoms: int
    """1: scalar values."""
    hidden: int
    dueling: bool
    noisy: bool
    embedding: int
    """Size of the embedding of the similarity; 0: the network does not see the similarity."""
    torso: nn.Module | None = None
    """Maps observations [B, ...] to features [B, F]; None: the torso for `observation_kind`."""

    @nn.compact
    def __call__(self, observation: Array, similarity: Array) -> Array:
        """[B, A, atoms] logits (C51) or values (one atom); `similarity` [A, A] is context and receives no gradient."""
        x = self._default_torso()(observation) if self.torso is None else self._features(self.torso, observation)
        if self.embedding:
            flat = jax.lax.stop_gradient(similarity).reshape(-1)
            # Small at the start: entries that all change together must not swamp the state features.
            init = nn.initializers.normal(0.1 / self.num_actions)
            code = nn.Dense(self.embedding, use_bias=False, kernel_init=init, name="embedding")(flat)
            x = ops.append_constant(x, code)
        advantage = self._head(x, self.num_actions, "advantage")
        if not self.dueling:
            return advantage
        value = self._head(x, 1, "value")
        return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)

    def _features(self, torso: nn.Module, observation: Array) -> Array:
        """[B, F] the output of a user's torso."""
        try:
            x = torso(observation)
        except Exception as error:
            raise UserCodeError(
                f"torso {type(torso).__name__} raised for observations of shape {list(observation.shape)}: "
                f"{one_line(error)}"
            ) from error
        shape = getattr(x, "shape", None)
        if shape is None or len(shape) != 2 or shape[0] != observation.shape[0]:
            batch, output = observation.shape[0], type(x).__name__ if shape is None else f"shape {list(shape)}"
            raise UserError(
                f"torso {type(torso).__name__}: expected features of shape [B, F] with B = {batch} for observations of "
                f"shape {list(observation.shape)}, got {output}"
            )
        return x.astype(jnp.result_type(float))

    def _default_torso(self) -> nn.Module:
        if self.observation_kind == "image":
            return NatureTorso()
        if self.observation_kind == "planes":
            return SmallTorso()
        if self.observation_kind == "vector":
            return MlpTorso(self.hidden)
        mission = self.observation_kind.endswith("-mission")
        if self.observation_kind.startswith("minigrid-whole"):
            return WholeGridTorso(mission)
        return MiniGridTorso(mission)

    def _head(self, x: ops.Features, outputs: int, name: str) -> Array:
        """[B, outputs, atoms] one hidden layer, then a linear layer whose outputs start near 0.

        With the usual initial weights the penalty kept `planted-grid` from learning (docs/log). A possible
        reason, not tested: it first sees random values only, and silences the hidden units that cause them.
        """
        width = outputs * self.num_atoms
        if self.noisy:
            x = nn.relu(ops.NoisyLinear(self.hidden, name=f"{name}_hidden")(x))
            x = ops.NoisyLinear(width, OUTPUT_SCALE, name=f"{name}_out")(x)
        else:
            x = ops.Linear(self.hidden, relu=True, name=f"{name}_hidden")(x)
            x = ops.Linear(width, OUTPUT_SCALE, name=f"{name}_out")(x)
        return x.reshape(x.shape[0], outputs, self.num_atoms)
