"""Rebuilds an episode of envpool's MiniGrid in the `minigrid` package, so that both can be compared."""

from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj

from masp.environments.minigrid_solver import things


def mirror(env, state):
    """Set `env`, of the package, to `state`, one of envpool's `debug_states`."""
    task = env.unwrapped
    box_colour = getattr(task, "box_color", None)  # of ObstructedMaze; envpool has blue boxes
    task.grid = Grid(state.width, state.height)
    cells = [tuple(state.grid[i : i + 3]) for i in range(0, len(state.grid), 3)]
    contents = [tuple(state.grid_contains[i : i + 3]) for i in range(0, len(state.grid), 3)]
    for i, (cell, content) in enumerate(zip(cells, contents, strict=True)):
        thing = WorldObj.decode(*cell)
        if thing is not None and thing.type == "box":
            thing.contains, thing.color = WorldObj.decode(*content), box_colour or thing.color
        task.grid.set(*divmod(i, state.height), thing)
    task.agent_pos, task.agent_dir, task.carrying = tuple(state.agent_pos), state.agent_dir, None
    task.mission, task.step_count = state.mission, 0
    _set_mission(task, state)


def _set_mission(task, state):
    """Set the attributes of the package's task that define its mission."""
    words = state.mission.replace(",", "").split()
    if hasattr(task, "obj"):  # the mission is to pick up a box or a ball
        ((task.obj, _),) = things(task, words[-1], words[-2])
    if hasattr(task, "door"):  # Unlock
        ((task.door, _),) = things(task, "door")
    if hasattr(task, "red_door"):
        ((task.red_door, _),) = things(task, "door", "red")
        ((task.blue_door, _),) = things(task, "door", "blue")
    if hasattr(task, "success_pos"):
        task.success_pos, task.failure_pos = tuple(state.success_pos), tuple(state.failure_pos)
    kind, colour = IDX_TO_OBJECT[state.target_type], IDX_TO_COLOR[state.target_color]
    for name, value in {
        "target_pos": tuple(state.target_pos),
        "targetType": kind,
        "target_type": kind,
        "targetColor": colour,
        "target_color": colour,
        "move_type": IDX_TO_OBJECT[state.move_type],
        "moveColor": IDX_TO_COLOR[state.move_color],
    }.items():
        if hasattr(task, name):
            setattr(task, name, value)
