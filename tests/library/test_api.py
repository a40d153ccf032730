"""`masp.train` with settings by keyword, and the run that it returns."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import masp
from masp import UserError
from masp.environments.registry import register
from masp.macros.actions import Macro
from own_parts import Corridor, JaxCorridor, make_corridor, make_jax_corridor, make_nothing


def test_a_run_has_an_agent_metrics_similarity_and_summary(tiny, tmp_path):
    actions = masp.ActionSet(2, [Macro((1, 1, 1)), Macro((0, 1))])
    run = masp.train(make_corridor, **tiny, macros=actions, out=tmp_path / "run", env_options={"length": 3}, seed=3)
    assert run.config.env == "own_parts:make_corridor"
    assert run.config.env_options == ("length=3",)
    assert run.config.seed == 3
    assert run.config.agent.intra_option  # from the preset
    assert run.path == run.run_dir == tmp_path / "run"
    assert len(run.metrics) == 3
    assert run.summary["frames"] >= 240
    assert run.similarity.shape == (4, 4)
    assert run.bundle.actions.sequences() == actions.sequences()
    assert run.agent.act(np.eye(6, dtype=np.float32)[0]) in (0, 1)
    assert_refuses_bad_observations(run.agent)
    assert "/run: own_parts:make_corridor masp, 24" in repr(run) and len(repr(run)) <= 120
    scores, _ = masp.load_run(run.path).evaluate(2)
    assert scores.shape == (2,)
    assert run.values(np.eye(6, dtype=np.float32)).shape == (6, 4)


def assert_refuses_bad_observations(agent):
    zeros = [0.0] * 6
    for bad, message in (
        ([0.0] * 5, r"expected observations of shape \(6,\), got \(5,\)$"),
        (["a"] * 6, r"expected observations of type float32, got <U1$"),
        ([[1.0], *zeros[1:]], r"expected observations as an array, got a list with parts of different lengths$"),
        (
            [0.0, 0.0, np.nan, *zeros[3:]],
            r"observations of finite numbers, got nan at \[2\] of observation 0$",
        ),
        ([1e300, *zeros[1:]], r"observations of finite numbers, got inf at \[0\] of observation 0$"),
    ):
        for call in (agent.act, agent.values):
            with pytest.raises(UserError, match=message):
                call(bad)
    with pytest.raises(UserError, match=r"got -inf at \[5\] of observation 1$"):
        agent.act_batch([zeros, [*zeros[1:], -np.inf]])
    with pytest.raises(UserError, match=r"expected ended of shape \(1,\), as the last observations, got \(2,\)"):
        agent.reset([True, False])


def test_resume_goes_on_with_the_same_action_set(tiny, tmp_path):
    actions = masp.ActionSet(2, [Macro((1, 1, 1))])
    settings = tiny | {"macros": actions, "out": str(tmp_path / "run")}
    masp.train(Corridor, **settings)
    run = masp.train(Corridor, resume=True, **settings | {"frames": 320})
    assert run.summary["frames"] >= 320


@pytest.mark.parametrize("env", [JaxCorridor(), make_jax_corridor, "own_parts:make_jax_corridor"])
def test_jax_environments_are_trained_in(env, tiny, tmp_path):
    run = masp.train(env, **tiny, variant="rainbow", out=tmp_path / "run")
    assert run.config.env == ("local-jax-corridor" if isinstance(env, JaxCorridor) else "own_parts:make_jax_corridor")
    assert run.evaluate(2)[0].shape == (2,)


def test_a_configuration_is_accepted_and_settings_override_it(tiny, tmp_path):
    register("corridor-by-id", make_corridor)
    config = masp.TrainConfig(env="corridor-by-id", variant="rainbow")
    run = masp.train(config, **tiny, n_step=1, out=tmp_path / "run")
    assert (run.config.variant, run.config.agent.n_step) == ("rainbow", 1)
    assert run.config.agent.num_atoms == 51  # no preset


@pytest.mark.parametrize("where", ["env", "config"])
def test_a_configuration_takes_no_preset(where, tmp_path):
    config = masp.TrainConfig(env="planted-grid")
    with pytest.raises(UserError, match=r"is complete and takes no preset: use masp.make_config\('planted-grid', pre"):
        masp.train(**{where: config}, preset="planted", out=tmp_path / "run")
    made = masp.make_config("planted-grid", preset="planted", seed=4)
    assert made == masp.make_config("planted-grid", seed=4)
    assert (made.agent.num_atoms, made.seed) == (1, 4)


def test_a_run_fits_a_line(tiny, tmp_path):
    folder = tmp_path / ("deep-" * 20) / ("name-" * 20)
    run = masp.Run(folder, masp.TrainConfig(env="a" * 60), masp.ActionSet(2), [{"frames": 10**9}], None, None, None)
    assert len(repr(run)) <= 120 and "1,000,000,000 frames" in repr(run)


def test_a_local_function_trains_and_says_elsewhere_why_it_cannot_be_made(tiny, tmp_path):
    run = masp.train(lambda: Corridor(), **tiny, variant="rainbow", out=tmp_path / "run")
    assert run.evaluate(2)[0].shape == (2,)
    code = f"""
import numpy as np
import masp
print(masp.load_agent({str(run.path)!r}).act(np.zeros(6, np.float32)) in (0, 1))
run = masp.load_run({str(run.path)!r})
try:
    run.evaluate(2)
except masp.UserError as error:
    print(error)
"""
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "True"
    assert lines[1].startswith("local-lambda: this environment existed only in the process that trained in it")
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        ("planted-grid", {"learning_rat": 1}, "there is no setting 'learning_rat'; did you mean learning_rate?"),
        ("planted-grid", {"xyz": 1}, "there is no setting 'xyz'; `masp train --help` lists all"),
        ("planted-grid", {"frames": "many"}, "frames must be a number, got 'many'"),
        ("planted-grid", {"preset": "none"}, "there is no preset 'none'"),
        (make_nothing, {}, "own_parts:make_nothing: expected a Gymnasium or JAX environment from it, got int"),
        (
            make_corridor(),
            {},
            "local-Corridor: expected a function that makes environments, because several are played",
        ),
        (7, {}, "expected a function that makes an environment, or a JAX environment"),
        (make_corridor, {"env_options": {"width": 3}}, "own_parts:make_corridor has no option 'width'; it has length"),
        ("own_parts:absent", {}, "the module own_parts registers no absent"),
    ],
)
def test_mistakes_get_one_line(env, settings, message, tmp_path):
    with pytest.raises(UserError) as caught:
        masp.train(env, **settings, out=tmp_path / "run")
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_ids_of_masp_cannot_be_registered_again():
    with pytest.raises(UserError, match="planted-grid is already an environment of the family planted"):
        register("planted-grid", make_corridor)
