"""Environments by id and option."""

import subprocess
import sys

import pytest

from masp.environments import is_jax, make_env
from masp.environments.registry import parse_options
from masp.errors import UserError


def test_planted_tasks_are_jax_environments():
    assert is_jax(make_env("planted-bandit"))
    assert is_jax(make_env("planted-grid"))
    assert not is_jax(make_env("CartPole-v1"))
    assert not is_jax(make_env("DoorKey-5x5"))


def test_option_values_are_parsed():
    options = parse_options(["a=3", "b=-0.5", "c=true", "d=False", "e=rgb_array", "f=1e3", "g="])
    assert options == {"a": 3, "b": -0.5, "c": True, "d": False, "e": "rgb_array", "f": 1000.0, "g": ""}
    assert isinstance(options["a"], int)


def test_options_reach_the_environment():
    grid = make_env("planted-grid", ["size=5", "copies=2", "max_steps=7"])
    assert (grid.info.observation_shape, len(grid.info.actions), grid.info.max_episode_steps) == ((20,), 8, 7)
    assert make_env("planted-bandit", ["pay_good=1"]).info.env_id == "planted-bandit"
    assert make_env("CartPole-v1", ["max_episode_steps=7"]).info.max_episode_steps == 7
    assert make_env("DoorKey-5x5", ["size=6"], 3).num_envs == 3
    assert make_env("FrozenLake-v1", ["map_name=8x8"]).info.observation_shape == (64,)


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("CartPol-v1", (), "unknown environment 'CartPol-v1'; did you mean CartPole-v1"),
        ("doorkey-5x5", (), "did you mean DoorKey-5x5"),
        ("planted-girdd", (), "did you mean planted-grid"),
        ("minatar-spaceinvaders", (), "did you mean minatar-space_invaders"),
        ("MountainCar", (), "did you mean MountainCar-v0"),
        ("qqqqqq", (), "unknown environment 'qqqqqq'"),
        ("no_such_module:Thing-v0", (), "module before the colon cannot be imported"),
        ("planted-grid", ["sizes=3"], "planted-grid has no option 'sizes'; it has size, copies, max_steps, order_seed"),
        ("planted-grid", ["copys=3"], "sequences, opaque; did you mean copies?"),
        ("planted-grid", ["size=big"], "option size must be of type int, got 'big'"),
        ("planted-grid", ["size=2.5"], "option size must be of type int, got 2.5"),
        ("planted-bandit", ["pay_good=true"], "option pay_good must be of type float, got True"),
        ("CartPole-v1", ["max_episode_steps=-3"], "max_episode_steps"),
        ("CartPole-v1", ["colour=1"], "CartPole-v1 has no option 'colour'; it has max_episode_steps, render_mode"),
        ("DoorKey-5x5", ["sizes=3"], "has no option 'sizes'; it has .*size, "),
        ("DoorKey-5x5", ["agent_view_size=2"], "cannot be made with agent_view_size=2: AssertionError"),
        ("DoorKey-5x5", ["size"], "expected name=value, for example size=5"),
        ("DoorKey-5x5", ["=5"], "expected name=value"),
        ("DoorKey-5x5", ["size=5", "size=6"], "option size is given twice"),
        ("Pendulum-v1", (), r"Pendulum-v1 has continuous actions \(Box\); masp needs Discrete"),
    ],
)
def test_invalid_ids_and_options_are_named(env_id, options, message):
    with pytest.raises(UserError, match=message):
        make_env(env_id, options)


def test_old_versions_do_not_warn():
    assert make_env("CartPole-v0").info.max_episode_steps == 200


def test_packages_are_imported_when_needed():
    """And neither they nor masp print or warn."""
    code = (
        "import sys; from masp.environments.registry import family_of, make_env; family_of('planted-grid').names()\n"
        "assert not {'jax', 'gymnasium', 'minigrid', 'pgx'} & set(sys.modules)\n"
        "make_env('planted-grid')\n"
        "assert not {'gymnasium', 'minigrid', 'pgx'} & set(sys.modules)\n"
        "make_env('DoorKey-5x5'); make_env('CartPole-v1')\n"
        "try: make_env('minatar-breakout')\n"
        "except ValueError as error: assert 'masp-rl[minatar]' in str(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
