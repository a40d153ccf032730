"""envpool's MiniGrid equals the `minigrid` package: step by step, and in the distribution of layouts."""

from functools import cache

import gymnasium
import minigrid  # noqa: F401
import numpy as np
import pytest
from minigrid_mirror import mirror
from scipy.stats import chi2_contingency
from vectors import assert_equal, stack

from masp.environments import make_env
from masp.environments.gymnasium_env import maker
from masp.environments.minigrid import VIEWS, full_id
from masp.environments.minigrid_solver import solve
from masp.errors import UserError

envpool = pytest.importorskip("envpool")
from masp.environments.minigrid_envpool import UNUSABLE  # noqa: E402

PAPER = ["DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1"]
OTHERS = ["DoorKey-5x5", "DoorKey-6x6", "DoorKey-16x16", "BlockedUnlockPickup", "Fetch-5x5-N2", "GoToDoor-5x5",
          "GoToObject-6x6-N2", "KeyCorridorS3R2", "LavaGapS5", "MemoryS7", "MultiRoom-N2-S4", "ObstructedMaze-2Dlhb",
          "Playground", "PutNear-6x6-N2", "RedBlueDoors-6x6", "SimpleCrossingS9N1", "Unlock"]  # fmt: skip
ACTION_PROBABILITIES = [0.15, 0.15, 0.35, 0.12, 0.05, 0.15, 0.03]


def on_envpool(name, options=(), num_envs=1):
    return make_env(name, ["backend=envpool", *options], num_envs)


class Both:
    """A vector of envpool, and for each of its environments one of the package that mirrors each episode."""

    def __init__(self, name, options, num_envs, seed):
        self.vector = on_envpool(name, options, num_envs)
        arguments = dict(option.split("=") for option in options)
        seen = VIEWS[arguments.pop("view", "partial")]
        make = maker(full_id(name), {key: int(value) for key, value in arguments.items()})
        self.envs = [seen(make()) for _ in range(num_envs)]
        self.ended = np.ones(num_envs, bool)
        self.check(self.vector.reset(seed), np.zeros((3, num_envs)), None)

    def step(self, actions):
        """Play the same actions in both; raises if they differ."""
        step = self.vector.step(np.asarray(actions))
        self.check(step.observation, (step.reward, step.terminated, step.truncated), actions)
        return step

    def check(self, observation, outcome, actions):
        for i, env in enumerate(self.envs):
            if self.ended[i]:
                env.reset(seed=0)
                mirror(env, self.vector._pool.debug_states([i])[0])
                expected_observation, expected = env.observation(env.unwrapped.gen_obs()), (0.0, False, False)
            else:
                expected_observation, reward, terminated, truncated, _ = env.step(actions[i])
                expected = (np.float32(reward), terminated, truncated and not terminated)
            np.testing.assert_array_equal(observation[i], expected_observation)
            assert tuple(part[i] for part in outcome) == expected
            self.ended[i] = expected[1] or expected[2]


@pytest.mark.parametrize("name", PAPER + OTHERS)
def test_equals_the_package_step_by_step(name):
    both = Both(name, (), 2, seed=3)
    rng = np.random.default_rng(0)
    for _ in range(250):
        both.step(rng.choice(7, size=2, p=ACTION_PROBABILITIES))


@pytest.mark.parametrize("name", PAPER)
def test_the_whole_view_equals_that_of_the_package(name):
    both = Both(name, ["view=whole"], 1, seed=5)
    for action in solve(both.envs[0].unwrapped):
        both.step([action])
    rng = np.random.default_rng(0)
    for _ in range(60):
        both.step(rng.choice(7, size=1, p=ACTION_PROBABILITIES))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("DoorKey-5x5", ["size=7"]),
        ("DoorKey-5x5", ["max_steps=9"]),
        ("FourRooms", ["max_episode_steps=7"]),
        ("LockedRoom", ["size=25", "max_episode_steps=20"]),
        ("KeyCorridorS3R1", ["room_size=4", "num_rows=2"]),
    ],
)
def test_options_have_the_same_meaning(name, options):
    both = Both(name, options, 2, seed=1)
    rng = np.random.default_rng(1)
    for _ in range(60):
        both.step(rng.choice(7, size=2, p=ACTION_PROBABILITIES))
    assert both.vector.info == make_env(name, options).info


def solve_in_both(name, seed, options=()):
    """Solve one episode in both: the number of steps, and the last step."""
    both = Both(name, options, 1, seed)
    for steps, action in enumerate(solve(both.envs[0].unwrapped), 1):
        step = both.step([action])
        if step.terminated[0] or step.truncated[0]:
            return steps, step
    raise AssertionError("the solution does not end the episode")


@pytest.mark.parametrize("seed", range(4))  # with seed 1 an obstacle of another door is in the way in the maze
@pytest.mark.parametrize("name", PAPER)
def test_a_solution_has_the_same_reward(name, seed):
    steps, last = solve_in_both(name, seed)
    limit = make_env(name).info.max_episode_steps
    assert (bool(last.terminated[0]), bool(last.truncated[0])) == (True, False)
    assert last.reward[0] == np.float32(1 - 0.9 * steps / limit)


def test_a_success_in_the_last_allowed_step_terminates():
    """envpool itself reports a truncation. Gymnasium's limit does not change the reward of a success."""
    steps, _ = solve_in_both("DoorKey-5x5", 0)
    _, last = solve_in_both("DoorKey-5x5", 0, [f"max_steps={steps}"])
    assert (bool(last.terminated[0]), bool(last.truncated[0])) == (True, False)
    assert last.reward[0] == np.float32(0.1)
    _, last = solve_in_both("DoorKey-5x5", 0, [f"max_episode_steps={steps}"])
    assert last.reward[0] == np.float32(1 - 0.9 * steps / 250)
    for option in ("max_steps", "max_episode_steps"):
        _, last = solve_in_both("DoorKey-5x5", 0, [f"{option}={steps - 1}"])
        assert (bool(last.terminated[0]), bool(last.truncated[0])) == (False, True)


LAYOUTS = 400


@cache
def layouts_of_the_package(name):
    """[LAYOUTS, cells + 1] one number for the object in each cell, and one for the agent's position and direction."""
    task = gymnasium.make(full_id(name)).unwrapped
    rows = []
    for seed in range(LAYOUTS):
        task.reset(seed=seed)
        rows.append(_layout(task.grid.encode(), task.agent_pos, task.agent_dir))
    return np.array(rows)


def layouts_of_envpool(name, **changes):
    vector = on_envpool(name, (), LAYOUTS)
    vector._settings |= changes
    vector.reset(0)
    task, rows = gymnasium.make(full_id(name)).unwrapped, []
    task.reset(seed=0)
    for state in vector._pool.debug_states():
        mirror(task, state)
        rows.append(_layout(task.grid.encode(), task.agent_pos, task.agent_dir))
    return np.array(rows)


def _layout(grid, agent_pos, agent_dir):
    return [*(grid @ [1, 16, 256]).ravel(), (agent_pos[0] * 100 + agent_pos[1]) * 4 + agent_dir]


def difference_p_value(one, other):
    """Bonferroni-corrected p-value of the hypothesis that two samples of layouts [n, parts] have one distribution.

    The tests compare the frequencies of values of each part (a cell, the agent) and of pairs of neighbouring parts.
    """
    p_values = []
    for columns in [(i,) for i in range(one.shape[1])] + [(i, i + 1) for i in range(one.shape[1] - 1)]:
        both = np.concatenate([one[:, columns], other[:, columns]])
        kinds, values = np.unique(both, axis=0, return_inverse=True)
        counts = [np.bincount(part.ravel(), minlength=len(kinds)) for part in np.split(values, [len(one)])]
        common = _with_rare_values_merged(np.array(counts))
        if common.shape[1] > 1:
            p_values.append(chi2_contingency(common, correction=False).pvalue)
    return min(p_values) * len(p_values)


def _with_rare_values_merged(counts):
    """[2, values] counts; values too rare for chi-squared (expected fewer than five times) are merged into one."""
    rare = counts.sum(axis=0) < 10
    merged = np.concatenate([counts[:, ~rare], counts[:, rare].sum(axis=1, keepdims=True)], axis=1)
    return merged[:, merged.sum(axis=0) >= 10]


@pytest.mark.parametrize("name", PAPER)
def test_layouts_have_the_distribution_of_the_package(name):
    assert difference_p_value(layouts_of_the_package(name), layouts_of_envpool(name)) > 0.01


def test_the_comparison_of_layouts_detects_another_start_room():
    """By default, envpool starts ObstructedMaze-Full in room (2, 1) instead of (1, 1)."""
    name = "ObstructedMaze-Full-v1"
    theirs = layouts_of_envpool(name, agent_room=(2, 1))
    assert envpool.make_spec(full_id(name)).config.agent_room == (2, 1)
    assert difference_p_value(layouts_of_the_package(name), theirs) < 1e-6


def test_every_task_resumes_exactly():
    """Also tasks whose next layout depends on how the last episode ended, such as Fetch."""
    ids = [i for i in envpool.list_all_envs() if i.startswith("MiniGrid-")]
    tasks = [i for i in ids if not any(part in i for part in ("WFC", *UNUSABLE))]
    assert len(tasks) == 66
    rng = np.random.default_rng(0)
    for env_id in tasks:
        vector = on_envpool(env_id, ["max_episode_steps=12"], 3)
        vector.reset(5)
        stack(vector, rng.integers(7, size=(33, 3)))
        snapshot = vector.snapshot()
        later = rng.integers(7, size=(30, 3))
        resumed = on_envpool(env_id, ["max_episode_steps=12"], 3)
        resumed.restore(5, snapshot)
        assert_equal(stack(vector, later), stack(resumed, later))


@pytest.mark.parametrize("ticks", [0, 1, 11, 12, 13, 1030])
def test_resumed_equals_uninterrupted(ticks, tmp_path):
    """Also in the tick before a reset, and after the list of actions has grown."""
    options = ["max_episode_steps=12"]
    vector = on_envpool("LockedRoom", options, 3)
    vector.reset(5)
    rng = np.random.default_rng(1)
    for _ in range(ticks):
        vector.step(rng.integers(7, size=3))
    np.savez(tmp_path / "snapshot.npz", **vector.snapshot())
    later = rng.integers(7, size=(100, 3))
    uninterrupted = stack(vector, later)
    resumed = on_envpool("LockedRoom", options, 3)
    with np.load(tmp_path / "snapshot.npz") as snapshot:
        assert snapshot["actions"].shape == (ticks, 3)
        assert snapshot["resetting"].all() == (ticks == 12)
        resumed.restore(5, snapshot)
        for key, value in resumed.snapshot().items():
            np.testing.assert_array_equal(value, snapshot[key])
    assert_equal(stack(resumed, later), uninterrupted)


def test_restoring_another_run_is_refused():
    vector = on_envpool("DoorKey-5x5", (), 2)
    vector.reset(0)
    snapshot = vector.snapshot()
    with pytest.raises(UserError, match="holds 2 environments, but the run has 3"):
        on_envpool("DoorKey-5x5", (), 3).restore(0, snapshot)
    with pytest.raises(UserError, match="does not repeat the episodes of the checkpoint"):
        vector.restore(1, snapshot)


def test_environments_and_runs_have_distinct_seeds():
    """With envpool's own rule, seed + i, environment 1 of run 0 would equal environment 0 of run 1."""
    vector = on_envpool("FourRooms", (), 2)
    one, other = vector.reset(0), vector.reset(1)
    assert len({observation.tobytes() for observation in (*one, *other)}) == 4


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Dynamic-Obstacles-5x5", [], "of envpool moves at random and was not compared"),
        (
            "ObstructedMaze-1Dl",
            [],
            "does not lay out its rooms as the minigrid package does; leave out backend=envpool",
        ),
        ("MultiRoom-N4-S5-v1", [], "envpool has no MiniGrid-MultiRoom-N4-S5-v1; leave out backend=envpool"),
        ("DoorKey-5x5", ["agent_view_size=5"], "with backend=envpool has no option 'agent_view_size'"),
        ("DoorKey-5x5", ["num_objs=3"], "has no option 'num_objs'"),
    ],
)
def test_unsupported_tasks_and_options_are_refused(name, options, message):
    with pytest.raises(UserError, match=message):
        on_envpool(name, options)


def test_invalid_num_envs_and_step_before_reset_raise():
    with pytest.raises(UserError, match="num_envs must be at least 1"):
        on_envpool("DoorKey-5x5", (), 0)
    with pytest.raises(RuntimeError, match="comes first"):
        on_envpool("DoorKey-5x5").step(np.array([0]))
