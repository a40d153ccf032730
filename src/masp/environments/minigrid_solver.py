"""A planner that solves MiniGrid tasks with the whole map: play to learn from, and to test with.

It knows tasks with a goal to reach or an object to pick up: the paper's four, and others such as KeyCorridor, MultiRoom
and Crossing. It goes the cheapest way as if balls, boxes and locked doors could be passed at a cost. The first of these
on the way is then dealt with, a door by fetching its key, anything else by carrying it to where it is not in the way,
until nothing is left between the agent and its target.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from minigrid.core.constants import DIR_TO_VEC

from masp.environments.base import Step
from masp.environments.gymnasium_vector import GymVector
from masp.environments.minigrid import DONE, DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE
from masp.errors import UserError

Cell = tuple[int, int]
OBSTACLE_STEPS = 30
"""An obstacle costs as much as this many steps: about what it takes to carry it away, or to fetch a key."""


class SolverPolicy:
    """Plays solutions in N environments; one that has no solution, or none that is known, waits for its limit."""

    def __init__(self, env: Any):
        if not isinstance(env, GymVector) or "MiniGrid" not in env.info.env_id:
            raise UserError(
                f"--policy solver plays MiniGrid with backend=minigrid, got {env.info.env_id} of {type(env).__name__}; "
                "what it records also serves runs with backend=envpool"
            )
        self._tasks: list[Any] = [one.unwrapped for one in env.envs]
        for task in self._tasks[:1]:
            task.reset(seed=0)
            _require_known(task, env.info.env_id)
        self._ended = np.zeros(len(self._tasks), bool)

    def begin(self, observation: np.ndarray, mask: np.ndarray | None = None) -> None:
        """[N, ...] first observations and action masks, which the solver does not look at."""
        self._solutions = [solve(task) for task in self._tasks]

    def act(self) -> np.ndarray:
        """[N] the next primitives; an environment that resets ignores its own."""
        actions = [
            DONE if ended else next(solution, DONE)
            for solution, ended in zip(self._solutions, self._ended, strict=True)
        ]
        return np.array(actions)

    def see(self, step: Step) -> None:
        """Take in the results of the step; the next solution begins after the reset that follows an episode."""
        for i in np.flatnonzero(self._ended):
            self._solutions[i] = solve(self._tasks[i])
        self._ended = (np.asarray(step.terminated) | np.asarray(step.truncated)) & ~self._ended


def solve(task: Any) -> Iterator[int]:
    """Yield the actions of a solution; the caller must play each before it requests the next."""
    goals = things(task, "goal")
    if goals:
        yield from _go(task, goals[0][1])
        yield FORWARD
    else:
        yield from _take(task, _position_of(task, task.obj))


def things(task: Any, kind: str, colour: str | None = None) -> list[tuple[Any, Cell]]:
    """All objects of a kind in the grid, with their positions."""
    grid = task.grid
    cells = [(x, y) for x in range(grid.width) for y in range(grid.height)]
    objects = [(grid.get(*cell), cell) for cell in cells]
    return [(t, cell) for t, cell in objects if t is not None and t.type == kind and colour in (None, t.color)]


class _Route(NamedTuple):
    """A way to a state of the agent."""

    position: Cell
    direction: int
    actions: tuple[int, ...]
    obstacles: tuple[Cell, ...]
    """Cells on the way that must be cleared first, in order."""

    @property
    def front(self) -> Cell:
        """The cell that the agent faces at the end."""
        dx, dy = DIR_TO_VEC[self.direction]
        return int(self.position[0] + dx), int(self.position[1] + dy)


def _routes(task: Any, obstacles: bool, start: _Route | None = None, filled: Cell | None = None) -> Iterator[_Route]:
    """The cheapest route to every state of the agent, nearest first.

    Args:
      obstacles: whether routes may lead through what can be cleared.
      start: where to begin; None: where the agent is.
      filled: an empty cell to be treated as an obstacle.
    """
    if start is None:
        start = _Route(_cell(task.agent_pos), int(task.agent_dir), (), ())
    order = itertools.count()  # routes of equal cost in the order in which they were found
    queue = [(0, next(order), start)]
    visited = set()
    while queue:
        _, _, route = heapq.heappop(queue)
        if (route.position, route.direction) in visited:
            continue
        visited.add((route.position, route.direction))
        yield route
        for following in _next_routes(task, route, obstacles, filled):
            cost = len(following.actions) + OBSTACLE_STEPS * len(following.obstacles)
            heapq.heappush(queue, (cost, next(order), following))


def _next_routes(task: Any, route: _Route, obstacles: bool, filled: Cell | None) -> Iterator[_Route]:
    """Routes that are one turn or one cell longer."""
    for turn, action in ((-1, LEFT), (1, RIGHT)):
        yield route._replace(direction=(route.direction + turn) % 4, actions=(*route.actions, action))
    thing, front = task.grid.get(*route.front), route.front
    ahead = route._replace(position=front, actions=(*route.actions, FORWARD))
    if front == filled or _is_obstacle(thing):
        if obstacles:
            yield ahead._replace(obstacles=(*route.obstacles, front))
    elif thing is None or (thing.can_overlap() and thing.type != "lava"):
        yield ahead
    elif thing.type == "door":
        yield ahead._replace(actions=(*route.actions, TOGGLE, FORWARD))


def _is_obstacle(thing: Any) -> bool:
    """Whether something blocks the way and can be cleared."""
    return thing is not None and (thing.can_pickup() or (thing.type == "door" and thing.is_locked))


def _route(task: Any, target: Cell, start: _Route | None = None, filled: Cell | None = None) -> _Route:
    """The cheapest route to face `target`, through obstacles if need be."""
    return next(route for route in _routes(task, True, start, filled) if route.front == target)


def _go(task: Any, *targets: Cell) -> Iterator[int]:
    """Clear the way and go to face the first of `targets`; the others are where the agent will go after that."""
    yield from _clear(task, *targets)
    yield from _route(task, targets[0]).actions


def _clear(task: Any, *targets: Cell) -> Iterator[int]:
    """Deal with the obstacles on the way to the first of `targets`, one after the other."""
    while obstacles := _route(task, targets[0]).obstacles:
        thing = task.grid.get(*obstacles[0])
        yield from (_open if thing.type == "door" else _carry_away)(task, obstacles[0], *targets)


def _open(task: Any, door: Cell, *targets: Cell) -> Iterator[int]:
    """Unlock a door with its key, which may be in a box."""
    yield from _clear(task, door, *targets)  # before the hands are full
    colour = task.grid.get(*door).color
    if task.carrying is None or (task.carrying.type, task.carrying.color) != ("key", colour):
        yield from _fetch_key(task, colour, door, *targets)
    yield from _go(task, door, *targets)
    yield TOGGLE
    if not things(task, "goal"):  # the hands are needed again
        yield from _put_down(task, *targets)


def _fetch_key(task: Any, colour: str, *targets: Cell) -> Iterator[int]:
    """Take the nearest key of a colour, out of its box if it is in one."""
    places = [at for _, at in things(task, "key", colour)]
    places += [at for box, at in things(task, "box") if box.contains is not None and box.contains.color == colour]
    nearest = next(route.front for route in _routes(task, True) if route.front in places)
    if task.grid.get(*nearest).type == "box":
        yield from _go(task, nearest, *targets)
        yield TOGGLE
    yield from _take(task, nearest, *targets)


def _take(task: Any, *targets: Cell) -> Iterator[int]:
    """Pick up what is in the first of `targets`, with empty hands."""
    yield from _clear(task, *targets)
    if task.carrying is not None:
        yield from _put_down(task, *targets)
    yield from _go(task, *targets)
    yield PICKUP


def _carry_away(task: Any, obstacle: Cell, *targets: Cell) -> Iterator[int]:
    """Put the first obstacle on the way elsewhere; what the agent carries is put down meanwhile."""
    carried = task.carrying
    if carried is not None:
        yield from _put_down(task, obstacle, *targets)
    yield from _route(task, obstacle).actions
    yield PICKUP
    yield from _put_down(task, *targets)
    if carried is not None:
        yield from _take(task, _position_of(task, carried), *targets)


def _put_down(task: Any, *targets: Cell) -> Iterator[int]:
    """Drop what is carried in the nearest empty cell where it blocks the way to none of `targets`."""
    blocked = sum(len(_route(task, target).obstacles) for target in targets)
    best: tuple[int, tuple[int, ...]] | None = None
    for route in _routes(task, obstacles=False):
        if task.grid.get(*route.front) is None and route.front not in targets:
            there = route._replace(actions=(), obstacles=())
            count = sum(len(_route(task, target, there, route.front).obstacles) for target in targets)
            if best is None or count < best[0]:
                best = count, route.actions
            if count <= blocked:
                break
    assert best is not None
    yield from best[1]
    yield DROP


def _position_of(task: Any, thing: Any) -> Cell:
    return next(at for other, at in things(task, thing.type) if other is thing)


def _cell(position: Any) -> Cell:
    return int(position[0]), int(position[1])


def _require_known(task: Any, env_id: str) -> None:
    """Raise unless the task has a goal, or an object to pick up, and all actions."""
    if len(task.actions) < 7 or not (things(task, "goal") or hasattr(task, "obj")) or hasattr(task, "obstacles"):
        raise UserError(
            f"{env_id}: the solver knows tasks with a goal to reach or an object to pick up, such as DoorKey, "
            "FourRooms, LockedRoom, KeyCorridor and ObstructedMaze"
        )
