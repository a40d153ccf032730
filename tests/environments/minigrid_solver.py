"""Solutions of the paper's MiniGrid tasks, found with the whole map in view, so that tests see episodes won."""

from collections import deque

from minigrid.core.constants import DIR_TO_VEC
from minigrid_mirror import things

from masp.environments.minigrid import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE


def solve(task):
    """The actions that win, one at a time; each must be played before the next is asked for."""
    if things(task, "goal"):
        yield from _solve_goal(task)
    else:
        yield from _solve_maze(task)


def _solve_goal(task):
    """DoorKey, FourRooms, LockedRoom: to the goal, through a locked door if there is one."""
    if things(task, "key"):
        yield from _use(task, things(task, "key")[0][1], PICKUP)
        yield from _use(task, _locked(task)[0], TOGGLE)
    yield from _use(task, things(task, "goal")[0][1], FORWARD)


def _solve_maze(task):
    """Move the ball from the door, find its key in a box, open, put the key down, take the blue ball."""
    ((_, target),) = things(task, "ball", "blue")
    corner = [5 * (at // 5) for at in target]  # rooms of 6 cells share their walls
    doors = [at for at in _locked(task) if all(low <= a <= low + 5 for a, low in zip(at, corner, strict=True))]
    balls = [(at, door) for _, at in things(task, "ball", "green") for door in doors if _distance(at, door) == 1]
    before, door = next(pair for pair in balls if _way(task, pair[0]) is not None)
    yield from _use(task, before, PICKUP)
    yield from _put_down(task, keep_free=before)
    boxes = [at for box, at in things(task, "box") if box.contains.color == task.grid.get(*door).color]
    box = min(boxes, key=lambda at: _distance(at, before))
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
    """Go to face `target` and do something to it."""
    yield from _way(task, target)
    yield action


def _way(task, target):
    """The shortest way to face `target`, opening doors on the way; None: there is none."""
    start = (tuple(int(a) for a in task.agent_pos), int(task.agent_dir))
    ways, queue = {start: ()}, deque([start])
    while queue:
        (pos, direction) = here = queue.popleft()
        front = tuple(int(a + b) for a, b in zip(pos, DIR_TO_VEC[direction], strict=True))
        if front == tuple(target):
            return ways[here]
        nexts = {(pos, (direction - 1) % 4): (LEFT,), (pos, (direction + 1) % 4): (RIGHT,)}
        thing = task.grid.get(*front)
        if thing is None or thing.can_overlap():
            nexts[front, direction] = (FORWARD,)
        elif thing.type == "door" and not thing.is_locked:
            nexts[front, direction] = (TOGGLE, FORWARD)
        for there, actions in nexts.items():
            if there not in ways:
                ways[there] = ways[here] + actions
                queue.append(there)
    return None


def _put_down(task, keep_free):
    """Turn to an empty cell that is not needed, and drop what is carried there."""
    while task.grid.get(*task.front_pos) is not None or tuple(task.front_pos) == tuple(keep_free):
        yield LEFT
    yield DROP
