"""Images as the replay keeps them, bytes [H, W, C], whatever order and scale an environment hands them out in."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.environments.gym_vector import SMALLEST_IMAGE, env_name
from masp.errors import UserError


class ByteImages(gymnasium.ObservationWrapper):
    """Channels go last, numbers in 0..1 become 0..255."""

    def __init__(self, env: gymnasium.Env, channels_first: bool, scale: float):
        super().__init__(env)
        self._channels_first, self._scale = channels_first, scale
        shape = env.observation_space.shape
        assert shape is not None
        shape = (*shape[1:], shape[0]) if channels_first else shape
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        image = np.moveaxis(observation, 0, -1) if self._channels_first else np.asarray(observation)
        return image if image.dtype == np.uint8 else np.rint(image * self._scale).astype(np.uint8)


def with_byte_images(env: gymnasium.Env) -> gymnasium.Env:
    """`env`, with its images turned to bytes [H, W, C] if they are something else; raises for those one cannot turn."""
    space = env.observation_space
    if not isinstance(space, spaces.Box) or sum(side >= SMALLEST_IMAGE for side in space.shape) < 2:
        return env
    low, high = float(np.min(space.low)), float(np.max(space.high))
    scales = {1.0: 255.0, 255.0: 1.0}
    if len(space.shape) == 2 and (low != 0 or high not in scales):
        return env  # a table of numbers
    if len(space.shape) > 3:
        raise UserError(
            f"{env_name(env)} has images of shape {space.shape}; masp needs [height, width, channels], and stacks "
            "images itself (--stack)"
        )
    if low != 0 or high not in scales:
        raise UserError(
            f"{env_name(env)} has images of {space.dtype} in {low:g}..{high:g}; masp needs 0..1 or 0..255: wrap it "
            "with gymnasium.wrappers.TransformObservation"
        )
    channels_first = len(space.shape) == 3 and space.shape[0] < SMALLEST_IMAGE <= min(space.shape[1:])
    if space.dtype == np.uint8 and high == 255 and not channels_first:
        return env
    return ByteImages(env, channels_first, scales[high])
