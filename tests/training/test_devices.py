"""Lanes on eight devices do what they do on one. The devices are virtual, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

CODE = """
import json, sys
import jax, numpy as np
from masp.config import TrainConfig, replace
from masp.training import devices
from masp.training.lanes import lane_actions
from masp.training.loop import make_loop

assert len(jax.devices()) == 8
flat = json.loads(sys.argv[1])
configs = [replace(TrainConfig(env="planted-grid"), **flat, seed=seed, penalty_weight=0.1 * (seed + 1))
           for seed in range(8)]

def trained():
    loop = make_loop(configs[0].resolved())
    state = loop.init([config.resolved() for config in configs], lane_actions(configs, loop.agent.info))
    for ticks, learn in ((10, False), (40, True), (1, True)):
        state = loop.run(state, ticks, learn)
    places = len(state.agent.actor.steps.sharding.device_set)
    (_, rows), *_ = loop.replay_rows(state, 45, 50)
    played = loop.evaluate(state, 4, 1)
    (after, *_), frames = loop.checkpoints(state), loop.frames(loop.run(loop.reset_tally(state), 3, True))
    arrays = {jax.tree_util.keystr(path): np.asarray(leaf)
              for path, leaf in jax.tree_util.tree_leaves_with_path((after, played, rows, frames))}
    return places, arrays

eight, spread = trained()
devices.jax.local_devices = lambda: jax.devices()[:1]
one, plain = trained()
np.savez(sys.argv[2], **{f"spread{name}": array for name, array in spread.items()},
         **{f"plain{name}": array for name, array in plain.items()})
print(json.dumps([eight, one]))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The places of the lanes, and all arrays of both runs."""
    settings = {
        "env_options": ["size=4", "copies=2", "max_steps=6"],
        "num_envs": 3,
        "frames": 240,
        "hidden": 8,
        "num_atoms": 1,
        "noisy": False,
        "batch_size": 8,
        "replay_steps": 300,
        "min_replay_steps": 40,
        "steps_per_update": 6,
        "embedding": 4,
        "meta_period_updates": 1,
    }
    file = tmp_path_factory.mktemp("devices") / "arrays.npz"
    run = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(settings), str(file)],
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), np.load(file)


def test_lanes_are_spread_over_all_devices(runs):
    assert runs[0] == [8, 1]


def test_lanes_on_eight_devices_equal_those_on_one(runs):
    """Whole numbers are equal; real ones up to rounding, which differs with the number of lanes in a multiplication."""
    arrays = runs[1]
    names = [name.removeprefix("plain") for name in arrays if name.startswith("plain")]
    assert len(names) > 50
    for name in names:
        spread, plain = arrays[f"spread{name}"], arrays[f"plain{name}"]
        if np.issubdtype(plain.dtype, np.floating):
            np.testing.assert_allclose(spread, plain, rtol=1e-3, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(spread, plain, err_msg=name)
    assert arrays["plain[0].agent.learner.updates"] > 10
