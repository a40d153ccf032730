"""`view=whole` of MiniGrid: the whole grid around the agent, the same from both backends."""

from itertools import chain

import gymnasium
import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

from masp.environments import make_env
from masp.environments.minigrid import PICKUP, full_id
from masp.environments.minigrid_mission import mission_plane
from masp.environments.minigrid_solver import solve
from masp.environments.minigrid_whole import WholeView, cell_codes
from masp.errors import UserError

PAPER = ["DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1"]


def whole(name, **options):
    return WholeView(gymnasium.make(full_id(name), **options))


def around(view, size):
    """[size, size] the cells of a partial view: the agent in the middle of its last row."""
    centre = len(view) // 2
    return view[centre - size // 2 : centre + size // 2 + 1, centre - size + 1 : centre + 1]


@pytest.mark.parametrize("name", PAPER)
def test_agrees_with_the_partial_view_through_walls(name):
    """The package's own partial view, here a large one that looks through walls, is part of the whole one."""
    size = 7 if name == "DoorKey-8x8" else 15
    env = whole(name, agent_view_size=size)
    task = env.unwrapped
    task.see_through_walls = True
    view, _ = env.reset(seed=4)
    rng = np.random.default_rng(0)
    actions = rng.choice(6, 200, p=[0.2, 0.2, 0.4, 0.1, 0.05, 0.05])
    carried = 0
    for action in chain(solve(task) if name != "FourRooms" else (), actions):
        view, _, over, cut, _ = env.step(action)
        partial = cell_codes(task.gen_obs()["image"])
        inside = partial != 0  # the partial view shows a wall where the grid ends, the whole one nothing
        whole_cells = around(view[..., 0], size)
        same = (whole_cells == partial) | (whole_cells == 0) & (partial == cell_codes([2, 5, 0]))
        assert same[inside].all()
        carried += task.carrying is not None
        if over or cut:
            break
    assert carried or name == "FourRooms"


def test_shows_every_cell_wherever_the_agent_is():
    env = whole("LockedRoom")
    task = env.unwrapped
    env.reset(seed=0)
    counts = np.bincount(cell_codes(task.grid.encode()).ravel(), minlength=256)
    counts[24] = 0
    for position in ((1, 1), (17, 1), (9, 9), (1, 17), (17, 17)):
        for direction in range(4):
            task.agent_pos, task.agent_dir = position, direction
            view = env.observation({"mission": task.mission})[..., 0]
            shown = np.bincount(view.ravel(), minlength=256)
            shown[0] = shown[24] = 0  # beyond the grid; empty cells
            assert (shown <= counts).all() and shown.sum() >= counts.sum() - 1


def test_the_agents_cell_shows_what_it_carries():
    env = whole("DoorKey-5x5")
    view, _ = env.reset(seed=1)
    empty = cell_codes([OBJECT_TO_IDX["empty"], 0, 0])
    assert view.shape == (11, 11, 1) and view[5, 5, 0] == empty
    for action in solve(env.unwrapped):
        ahead, shown_ahead = env.unwrapped.grid.get(*env.unwrapped.front_pos), view[5, 4, 0]
        view, *_ = env.step(action)
        if action == PICKUP:
            key = cell_codes([OBJECT_TO_IDX["key"], COLOR_TO_IDX[ahead.color], 0])
            assert (shown_ahead, view[5, 4, 0], view[5, 5, 0]) == (key, empty, key)
            return
    raise AssertionError("the key was never picked up")


def test_the_mission_is_a_plane():
    env = whole("LockedRoom")
    view, _ = env.reset(seed=2)
    assert view.shape == (35, 35, 2)
    np.testing.assert_array_equal(view[..., 1], mission_plane(env.unwrapped.mission, 35, 35))


def test_a_view_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="DoorKey-5x5: view must be partial or whole, got 'all'"):
        make_env("DoorKey-5x5", ["view=all"])
