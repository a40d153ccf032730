"""The network and the wrappers that Stable-Baselines3 needs to see what ours sees."""

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class OneHotCells(gymnasium.ObservationWrapper):
    """MiniGrid's view as planes [25, 7, 7], as our network sees it."""

    SIZES = (11, 6, 4, 4)

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 1, (sum(self.SIZES), 7, 7), np.float32)

    def observation(self, observation):
        direction = np.full((7, 7, 1), observation["direction"])
        cells = np.concatenate([observation["image"], direction], axis=-1)
        planes = [np.eye(size, dtype=np.float32)[cells[..., i]] for i, size in enumerate(self.SIZES)]
        return np.concatenate(planes, axis=-1).transpose(2, 0, 1)


class ChannelsFirst(gymnasium.ObservationWrapper):
    """MinAtar's planes [channels, 10, 10]."""

    def __init__(self, env):
        super().__init__(env)
        height, width, channels = env.observation_space.shape
        self.observation_space = gymnasium.spaces.Box(0, 1, (channels, height, width), np.float32)

    def observation(self, observation):
        return observation.transpose(2, 0, 1).astype(np.float32)


class SmallTorso(BaseFeaturesExtractor):
    """One 3x3 convolution, as ours."""

    def __init__(self, space, features):
        channels, height, width = space.shape
        super().__init__(space, features * (height - 2) * (width - 2))
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(channels, features, 3), torch.nn.ReLU(), torch.nn.Flatten())

    def forward(self, x):
        return self.layers(x)
