"""From a picture of the game to an observation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
"""How bright red, green and blue are (ITU-R 601)."""


@dataclass(frozen=True)
class View:
    """The picture as a square, every pixel the mean of the area that it covers (OpenCV's INTER_AREA)."""

    size: int
    """Height and width of the observation."""
    grey: bool
    """Brightness instead of colours."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.size, self.size, 1 if self.grey else 3)

    def of(self, picture: np.ndarray) -> np.ndarray:
        """[size, size, channels] bytes of a picture [H, W, 3]."""
        colours = (picture @ LUMA)[..., None] if self.grey else picture
        flat = _means(colours, self.size)  # [size, W, channels]
        square = _means(np.ascontiguousarray(flat.swapaxes(0, 1)), self.size)  # [size across, size down, channels]
        return np.rint(square).astype(np.uint8).swapaxes(0, 1)


def _means(rows: np.ndarray, size: int) -> np.ndarray:
    """[size, ...] means over equal parts of the first axis of [length, ...]."""
    index, weight = _parts(len(rows), size)
    # One product for each cell of a part: a matrix product would mostly multiply by 0.
    total = weight[0] * rows[index[0]].reshape(size, -1)
    for k in range(1, len(index)):
        total += weight[k] * rows[index[k]].reshape(size, -1)
    return total.reshape(size, *rows.shape[1:])


@lru_cache
def _parts(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of `length` cells each of `size` equal parts overlaps, and what share of it each is: [most, size (, 1)]."""
    edges = np.arange(size + 1) * (length / size)
    first = np.floor(edges[:-1]).astype(int)
    most = int((np.ceil(edges[1:]) - first).max())
    cells = first + np.arange(most)[:, None]
    overlap = np.minimum(cells + 1, edges[1:]) - np.maximum(cells, edges[:-1])
    weight = np.clip(overlap, 0, None) * (size / length)
    return np.minimum(cells, length - 1), weight[..., None].astype(np.float32)
