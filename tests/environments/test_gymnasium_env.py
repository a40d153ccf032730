"""Gymnasium environments by id, among them those of a user's module in the current directory."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from vectors import play

from masp.cli.main import main
from masp.environments import make_env
from masp.environments.gymnasium_env import CONTINUOUS, OWN_MODULES, module_of, names
from masp.errors import UserError

MODULE = '''
import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env):
    """Rewards action 1; an observation is a sample of the space."""

    def __init__(self, space=spaces.Box(-1, 1, (3,), np.float32), actions=spaces.Discrete(2), length=5):
        self.observation_space, self.action_space, self._length = space, actions, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**30)))
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._steps += 1
        return self.observation_space.sample(), float(action == 1), self._steps == self._length, False, {}


class Broken(Counting):
    def __init__(self):
        raise ValueError("no licence\\nfound here")


def add(name, space, actions=spaces.Discrete(2)):
    gymnasium.register(f"{name}-v0", lambda **options: Counting(space, actions, **options), max_episode_steps=9)


def image(*shape, low=0, high=255, dtype=np.uint8):
    return spaces.Box(low, high, shape, dtype)


gymnasium.register("UsersVector-v0", "users_envs:Counting", max_episode_steps=9)
gymnasium.register("UsersBroken-v0", Broken)
gymnasium.register("UsersLost-v0", "users_envs:Missing")
add("UsersBytes", image(40, 44, 3))
add("UsersGrey", image(40, 44))
add("UsersChannelsFirst", image(3, 40, 44))
add("UsersStackFirst", image(4, 40, 44))
add("UsersFloats", image(40, 44, 3, high=1, dtype=np.float32))
add("UsersFloatsFirst", image(3, 40, 44, high=1, dtype=np.float64))
add("UsersWide", image(40, 44, 3, high=255, dtype=np.float32))
add("UsersBits", image(40, 44, 2, high=1, dtype=bool))
add("UsersTable", image(40, 44, low=-1, high=1, dtype=np.float32))
add("UsersNormalised", image(40, 44, 3, low=-1, high=1, dtype=np.float32))
add("UsersUnbounded", image(40, 44, 3, low=-np.inf, high=np.inf, dtype=np.float32))
add("UsersStacked", image(4, 40, 44, 3))
add("UsersSmall", image(8, 8, 3))
add("UsersDict", spaces.Dict({"image": image(40, 44, 3), "speed": spaces.Box(0, 1, (1,))}))
add("UsersText", spaces.Text(5))
add("UsersContinuous", spaces.Discrete(3), spaces.Box(-1, 1, (2,)))
add("UsersMany", spaces.Discrete(3), spaces.MultiDiscrete([2, 3]))
'''


@pytest.fixture
def users_dir(tmp_path, monkeypatch):
    """The current directory, with the module; its ids and modules are removed afterwards."""
    (tmp_path / "users_envs.py").write_text(MODULE)
    (tmp_path / "users_broken.py").write_text("import gymnasium\nnumber = undefined\n")
    (tmp_path / "users_syntax.py").write_text("def f(:\n")
    (tmp_path / "users_empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    # As in a console script, the current directory is not in the path.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".", str(tmp_path))])
    yield tmp_path
    for env_id in [env_id for env_id in gymnasium.registry if env_id.startswith("Users")]:
        del gymnasium.registry[env_id]
    for name in [name for name in sys.modules if name.startswith("users_")]:
        del sys.modules[name]


def test_module_in_the_current_directory_is_imported(users_dir):
    env = make_env("users_envs:UsersVector-v0", ["length=4"], 3)
    assert (env.info.env_id, env.info.observation_shape, env.info.max_episode_steps) == ("UsersVector-v0", (3,), 9)
    _, actions, steps = play(env, 20)
    assert steps.terminated[3].all() and not steps.truncated.any()
    np.testing.assert_array_equal(steps.reward[:4], actions[:4] == 1)
    assert make_env("users_envs:UsersVector-v0", ["max_episode_steps=3"]).info.max_episode_steps == 3


def test_a_file_does_not_shadow_an_installed_package(users_dir):
    (users_dir / "minigrid.py").write_text("raise RuntimeError('not this one')")
    make_env("users_envs:UsersVector-v0")
    assert sys.path[-1] == str(users_dir)
    assert importlib.util.find_spec("minigrid").submodule_search_locations  # the package


def test_console_script_imports_from_the_current_directory(users_dir):
    script = Path(sys.executable).with_name("masp")
    if not script.exists():
        pytest.skip("masp is not installed as a script here")
    command = [script, "train", "users_envs:UsersContinuous-v0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "masp train: UsersContinuous-v0 has continuous actions (Box); masp needs Discrete"
    )


@pytest.mark.parametrize(
    ("name", "shape", "convert"),
    [
        ("Bytes", (40, 44, 3), lambda x: x),
        ("Grey", (40, 44, 1), lambda x: x[..., None]),
        ("ChannelsFirst", (40, 44, 3), lambda x: np.transpose(x, (1, 2, 0))),
        ("StackFirst", (40, 44, 4), lambda x: np.transpose(x, (1, 2, 0))),
        ("Floats", (40, 44, 3), lambda x: np.rint(255 * x)),
        ("FloatsFirst", (40, 44, 3), lambda x: np.rint(255 * np.transpose(x, (1, 2, 0)))),
        ("Wide", (40, 44, 3), np.rint),
        ("Bits", (40, 44, 2), lambda x: 255 * x.astype(np.uint8)),
    ],
)
def test_images_become_bytes_with_channels_last(users_dir, name, shape, convert):
    env = make_env(f"users_envs:Users{name}-v0")
    info = env.info
    assert (info.observation_kind, info.observation_shape, info.observation_dtype) == ("image", shape, np.uint8)
    env.reset(3)
    space = env._envs[0].env.unwrapped.observation_space  # its next sample is the next observation
    before = space.np_random.bit_generator.state
    observation = env.step(np.array([0])).observation[0]
    space.np_random.bit_generator.state = before
    np.testing.assert_array_equal(observation, convert(space.sample()))
    assert observation.dtype == np.uint8


def test_a_table_of_numbers_is_a_vector(users_dir):
    assert make_env("users_envs:UsersTable-v0").info.observation_kind == "vector"


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("users_envs:UsersNormalised-v0", r"has images of float32 in -1\.\.1; masp needs 0\.\.1 or 0\.\.255: wrap it"),
        ("users_envs:UsersUnbounded-v0", r"has images of float32 in -inf\.\.inf; masp needs"),
        ("users_envs:UsersStacked-v0", r"has images of shape \(4, 40, 44, 3\); masp needs .*stacks images itself"),
        ("users_envs:UsersSmall-v0", r"has images of shape \(8, 8, 3\); masp needs .* at least 36"),
        ("users_envs:UsersDict-v0", r"cannot read \(Dict of image: Box, speed: Box\); wrap it so that"),
        ("users_envs:UsersText-v0", r"cannot read \(Text\)"),
        ("users_envs:UsersContinuous-v0", r"has continuous actions \(Box\); masp needs Discrete"),
        ("users_envs:UsersMany-v0", "has MultiDiscrete actions; masp needs Discrete"),
        (
            "users_envs:UsersBroken-v0",
            r"^UsersBroken-v0 cannot be made: ValueError: no licence found here \(users_envs.py, line 26\)$",
        ),
        ("users_envs:UsersLost-v0", "UsersLost-v0 cannot be imported: AttributeError: .*has no attribute 'Missing'"),
        ("users_envs:Nothing-v0", "the module users_envs registers no Nothing-v0; it has UsersVector-v0, UsersBroken"),
        ("users_empty:Nothing-v0", "registers no Nothing-v0; it must call gymnasium.register"),
        ("users_broken:A-v0", r"NameError: name 'undefined' is not defined \(users_broken.py, line 2\)"),
        ("users_syntax:A-v0", r"cannot be imported: SyntaxError: invalid syntax \(users_syntax.py, line 1\)$"),
        ("users_nowhere:A-v0", "users_nowhere:A-v0: the module before the colon cannot be imported: No module named"),
    ],
)
def test_unusable_environments_are_refused_in_one_line(users_dir, env_id, message):
    with pytest.raises(UserError, match=message) as error:
        make_env(env_id)
    assert "\n" not in str(error.value)


def test_training_with_macros_from_a_file(users_dir, capsys):
    macros = '{"format": "masp-macros", "version": 1, "num_primitives": 2, "macros": [{"actions": [1, 1, 0]}]}'
    Path("macros.json").write_text(macros)
    small = ["--frames", "60", "--num-envs", "2", "--hidden", "4", "--batch-size", "4", "--min-replay-steps", "20"]
    small += ["--replay-steps", "100", "--log-every-frames", "30", "--eval-every-frames", "0", "--eval-episodes", "2"]
    command = ["train", "users_envs:UsersVector-v0", "--variant", "macros", "--macros", "macros.json", "--out", "run"]
    assert main([*command, *small]) == 0
    assert main(["eval", "run", "--episodes", "4", "--json"]) == 0
    assert '"env": "users_envs:UsersVector-v0"' in capsys.readouterr().out


def test_listed_ids_can_be_made_and_others_are_continuous():
    pytest.importorskip("Box2D")
    listed = names()
    assert {"CartPole-v1", "LunarLander-v3", "Taxi-v4"} <= set(listed)
    for env_id in listed:
        assert make_env(env_id).info.actions.num_primitives >= 2
    own = [env_id for env_id, spec in gymnasium.registry.items() if module_of(spec).startswith(OWN_MODULES)]
    unlisted = set(own) - set(listed)
    assert unlisted and all(env_id.startswith(CONTINUOUS) for env_id in unlisted)
    for env_id in unlisted:
        with pytest.raises(UserError, match="continuous actions"):
            make_env(env_id)


def test_an_option_can_make_actions_discrete():
    pytest.importorskip("Box2D")
    info = make_env("CarRacing-v3", ["continuous=false"]).info
    assert (info.observation_kind, info.observation_shape, info.actions.num_primitives) == ("image", (96, 96, 3), 5)
