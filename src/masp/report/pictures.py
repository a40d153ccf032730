"""An observation as a picture: what the agent sees, for videos of environments that draw nothing themselves."""

from __future__ import annotations

import numpy as np

from masp.environments.base import ObservationKind

COLOURS = np.array(
    [
        (31, 119, 180),
        (255, 127, 14),
        (44, 160, 44),
        (214, 39, 40),
        (148, 103, 189),
        (140, 86, 75),
        (227, 119, 194),
        (127, 127, 127),
        (188, 189, 34),
        (23, 190, 207),
    ],
    np.uint8,
)
"""One per plane; more planes begin again."""


def picture(observation: np.ndarray, kind: ObservationKind) -> np.ndarray:
    """[H, W, 3] uint8."""
    draw = {"image": _image, "planes": _planes, "minigrid": _cells, "minigrid-mission": _cells, "vector": _bars}[kind]
    return draw(observation)


def _image(observation: np.ndarray) -> np.ndarray:
    """The newest frame: three channels are colours, one is grey."""
    return observation if observation.shape[-1] == 3 else np.repeat(observation[..., -1:], 3, axis=-1)


def _planes(observation: np.ndarray) -> np.ndarray:
    """Every plane in its colour; later ones lie on top."""
    drawn = np.full((*observation.shape[:2], 3), 20, np.uint8)
    for plane in range(observation.shape[-1]):
        drawn[observation[..., plane] > 0] = COLOURS[plane % len(COLOURS)]
    return drawn


def _cells(observation: np.ndarray) -> np.ndarray:
    """MiniGrid's own drawing of the agent's view: the agent stands at the bottom and looks up."""
    from minigrid.core.grid import Grid

    cells, visible = Grid.decode(observation[..., :3])
    width, height = observation.shape[:2]
    return cells.render(24, (width // 2, height - 1), 3, visible)


def _bars(observation: np.ndarray, height: int = 64, width: int = 8) -> np.ndarray:
    """One bar per number, up for positive and down for negative ones; the longest fills its half."""
    values = np.nan_to_num(np.ravel(observation).astype(float))
    lengths = np.round(values / max(np.abs(values).max(), 1e-9) * (height // 2 - 1)).astype(int)
    drawn = np.full((height, len(values) * width, 3), 20, np.uint8)
    middle = height // 2
    for i, length in enumerate(lengths):
        low, high = sorted((middle - length, middle))
        drawn[low : high + 1, i * width : (i + 1) * width - 1] = COLOURS[i % len(COLOURS)]
    return drawn
