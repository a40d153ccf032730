"""The option `view=whole` of MiniGrid: the whole grid, centred on the agent and rotated with it.

An observation is [S, S, 1] bytes, one per cell, with a second channel for the words of the mission where it has
placeholders. The agent is in the middle and faces up, towards smaller second indices, as in the partial view; its own
cell shows what it carries. Cells beyond the grid are 0.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from masp.environments.minigrid_mission import mission_plane

GRID_CARDINALITIES = (10, 6, 4)
"""Numbers of objects, colours and states of a cell: the agent is never seen, and its direction is always up."""
SMALLEST_SIDE = 11
"""Smallest side for which the two convolutions of the network have an output."""
_, _COLOURS, _STATES = GRID_CARDINALITIES


def cell_codes(cells: np.ndarray) -> np.ndarray:
    """[...] one byte per cell, of (object, colour, state) [..., 3]; the agent itself, object 10, is never a cell."""
    cells = np.asarray(cells, np.uint8)
    return (cells[..., 0] * _COLOURS + cells[..., 1]) * _STATES + cells[..., 2]


def side_of(width: int, height: int) -> int:
    """The side of the view: no cell is further than this from an agent that is inside the outer walls."""
    return max(2 * max(width, height) - 3, SMALLEST_SIDE)


def whole_view(codes: np.ndarray, position: tuple[int, int], direction: int, carried: int) -> np.ndarray:
    """[S, S] the view of a grid of cell codes [width, height] from `position`; `carried`: code of the agent's cell."""
    side = side_of(*codes.shape)
    centre = side // 2
    # The grid may reach beyond the view only where the agent stands in an outer wall, which no task allows.
    canvas = np.zeros((3 * side, 3 * side), np.uint8)
    left, top = (side + centre - int(at) for at in position)
    canvas[left : left + codes.shape[0], top : top + codes.shape[1]] = codes
    view = canvas[side : 2 * side, side : 2 * side]
    view[centre, centre] = carried
    return np.rot90(view, -(direction + 1))


class WholeView(gymnasium.ObservationWrapper):
    """[S, S, 1 or 2] uint8 instead of the partial view of one task of the `minigrid` package."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        assert isinstance(env.observation_space, gymnasium.spaces.Dict)
        task: Any = env.unwrapped
        self.has_mission = bool(env.observation_space["mission"].ordered_placeholders)  # type: ignore[attr-defined]
        side = side_of(task.width, task.height)
        self._shape = (side, side, 2 if self.has_mission else 1)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._shape, np.uint8)

    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        task: Any = self.unwrapped
        carried = (1, 0, 0) if task.carrying is None else task.carrying.encode()
        view = np.empty(self._shape, np.uint8)
        codes = cell_codes(task.grid.encode())
        view[..., 0] = whole_view(codes, task.agent_pos, task.agent_dir, int(cell_codes(np.array(carried))))
        if self.has_mission:
            view[..., 1] = mission_plane(observation["mission"], *self._shape[:2])
        return view
