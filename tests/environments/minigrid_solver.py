"""Solutions of the paper's MiniGrid tasks, planned with the whole map, so that tests see successes."""

from collections import deque

from minigrid.core.constants import DIR_TO_VEC
from minigrid_mirror import things

from masp.environments.minigrid import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE


def solve(task):
    """Yield the actions of a solution; the caller must play each before it requests the next."""
    if things(task, "goal"):
        yield from _solve_goal(task)
    else:
        yield from _solve_maze(task)


def _solve_goal(task):
    """DoorKey, FourRooms, LockedRoom: go to the goal, through the locked door if there is one."""
    if things(task, "key"):
        yield from _use(task, things(task, "key")[0][1], PICKUP)
        yield from _use(task, _locked(task)[0], TOGGLE)
    yield from _use(task, things(task, "goal")[0][1], FORWARD)


def _solve_maze(task):
    """Move the ball away from the door, take its key from a box, open it, drop the key, take the blue ball."""
    ((_, target),) = things(task, "ball", "blue")
    corner = [5 * (at // 5) for at in target]  # rooms of 6 cells share their walls
    doors = [at for at in _locked(task) if all(low <= a <= low + 5 for a, low in zip(at, corner, strict=True))]
    balls = [(at, door) for _, at in things(task, "ball", "green") for door in doors if _distance(at, door) == 1]
    obstacle, door = next(pair for pair in balls if _path(task, pair[0]) is not None)
    yield from _use(task, obstacle, PICKUP)
    yield from _put_down(task, keep_free=obstacle)
    boxes = [at for box, at in things(task, "box") if box.contains.color == task.grid.get(*door).color]
    box = min(boxes, key=lambda at: _distance(at, obstacle))
    yield from _use(task, box, TOGGLE)
    yield from _use(task, box, PICKUP)
    yield from _use(task, door, TOGGLE)
    yield from _put_down(task, keep_free=door)
    yield from _use(task, target, PICKUP)


def _locked(task):
    return [at for door, at in things(task, "door") if door.is_locked]


def _distance(one, other):
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def _use(task, target, action):
    """Go to face `target`, then play `action`."""
    yield from _path(task, target)
    yield action


def _path(task, target):
    """Actions of the shortest path to a cell in front of `target`, opening doors; None: there is no path."""
    start = (tuple(int(a) for a in task.agent_pos), int(task.agent_dir))
    paths, queue = {start: ()}, deque([start])
    while queue:
        (pos, direction) = here = queue.popleft()
        front = tuple(int(a + b) for a, b in zip(pos, DIR_TO_VEC[direction], strict=True))
        if front == tuple(target):
            return paths[here]
        nexts = {(pos, (direction - 1) % 4): (LEFT,), (pos, (direction + 1) % 4): (RIGHT,)}
        thing = task.grid.get(*front)
        if thing is None or thing.can_overlap():
            nexts[front, direction] = (FORWARD,)
        elif thing.type == "door" and not thing.is_locked:
            nexts[front, direction] = (TOGGLE, FORWARD)
        for there, actions in nexts.items():
            if there not in paths:
                paths[there] = paths[here] + actions
                queue.append(there)
    return None


def _put_down(task, keep_free):
    """Turn to an empty cell other than `keep_free`, and drop the carried object there."""
    while task.grid.get(*task.front_pos) is not None or tuple(task.front_pos) == tuple(keep_free):
        yield LEFT
    yield DROP
