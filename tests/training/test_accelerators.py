"""Every program of both loops is lowered for CUDA and TPU, which needs neither; and what an iteration moves is counted.

Lowering fails for operations that exist on the CPU only. `jax.export` refuses custom calls that it does not know, such
as kernels; host callbacks are looked for in the program.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from masp.agent.agent import Agent
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.environments.base import EnvInfo, Step
from masp.macros.actions import ActionSet
from masp.ops import kernels
from masp.presets import PRESETS, from_preset
from masp.training import host
from masp.training.compiled import CompiledLoop
from masp.training.evaluation import Policy
from masp.training.host import HostLoop
from masp.training.lanes import start_of

VECTOR = EnvInfo("outside", (4,), np.dtype(np.float32), "vector", ActionSet(3, [(0, 1), (2, 2, 1)]))
VARIANTS = ("rainbow", "macros", "masp", "outcomes")
OBSERVED = {  # of the presets whose environments live outside JAX
    "paper-atari": ((84, 84, 1), np.uint8, "image"),
    "paper-minigrid": ((7, 7, 3), np.uint8, "minigrid"),
    "paper-sf2": ((84, 84, 1), np.uint8, "image"),
    "atari": ((84, 84, 1), np.uint8, "image"),
    "minigrid": ((7, 7, 3), np.uint8, "minigrid"),
    "gymnasium": ((4,), np.float32, "vector"),
}
IN_JAX = {"planted": "planted-grid", "minatar": "minatar-breakout"}
SMALL: dict[str, Any] = {"num_envs": 2, "batch_size": 4, "replay_steps": 400, "hidden": 8, "eval_episodes": 2}


@pytest.fixture(autouse=True)
def on_an_accelerator(monkeypatch):
    """What the package asks to know where it runs."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def require_portable(program: Any, *args: Any) -> None:
    """Export a jitted function of a loop for both kinds of accelerator."""
    exported = export.export(program, platforms=("cuda", "tpu"))(*args)
    text = exported.mlir_module()
    assert "callback" not in text, "a callback to the host"
    assert not re.search(r"tensor<[^>]*\?", text), "a shape that is not static"


class Outside:
    """Two environments outside JAX, whose episodes never end."""

    num_envs, action_mask = 2, None

    def __init__(self, info: EnvInfo):
        self.info = info

    def reset(self, seed: int) -> np.ndarray:
        return np.full((2, *self.info.observation_shape), seed % 7, self.info.observation_dtype)

    def step(self, actions: np.ndarray) -> Step:
        flags = np.zeros(2, bool)
        return Step(self.reset(int(actions[0])), np.ones(2, np.float32), flags, flags, flags)


def host_programs(config: TrainConfig, info: EnvInfo) -> dict[str, tuple[Any, ...]]:
    agent = Agent(config, info, info.actions.without_macros() if config.variant == "rainbow" else info.actions)
    outside: Any = Outside(info)
    loop = HostLoop(agent, outside, outside)
    observation = np.zeros((2, *info.observation_shape), info.observation_dtype)
    keys, start = start_of(config, agent, agent.actions)
    state = jax.eval_shape(agent.init, keys, observation, start)
    step = outside.step(np.zeros(2, int))
    policy = Policy(state.learner.params, agent.learner.similarity.context(state.learner.similarity), state.macros)
    rollout = jax.eval_shape(HostLoop._evaluation_begin, loop, policy, observation, None)
    iteration = {
        "decide": (HostLoop._decide, loop, state),
        "learn": (HostLoop._learn, loop, state, 1),
        "observe": (HostLoop._observe, loop, state, step),
    }
    if config.variant != "masp":  # the others differ in the variant by the shape of the similarity only
        return iteration
    return iteration | {
        "init": (jax.jit(agent.init), keys, observation, start),
        "sampled values": (HostLoop._sampled_values, loop, state),
        "first decision of an evaluation": (HostLoop._evaluation_begin, loop, policy, observation, None),
        "decision of an evaluation": (HostLoop._evaluation_decide, loop, policy, rollout, keys.act, 1),
        "step of an evaluation": (HostLoop._evaluation_advance, loop, policy, rollout, step),
    }


def compiled_programs(config: TrainConfig) -> dict[str, tuple[Any, ...]]:
    env: Any = make_env(config.env)
    actions = env.info.actions.without_macros() if config.variant == "rainbow" else env.info.actions
    agent = Agent(config, env.info, actions)
    loop = CompiledLoop(agent, env)
    keys, start = jax.tree.map(lambda leaf: np.stack([leaf] * 2), start_of(config, agent, actions))
    state = jax.eval_shape(CompiledLoop._init, loop, keys, start)
    learner = state.agent.learner
    policy = Policy(learner.params, agent.learner.similarity.context(learner.similarity), state.agent.macros)
    iteration = {"run": (CompiledLoop.run, loop, state, 1, True)}
    if config.variant != "masp":
        return iteration
    return iteration | {
        "init": (CompiledLoop._init, loop, keys, start),
        "sampled values": (CompiledLoop._sampled_values, loop, state.agent),
        "evaluate": (CompiledLoop._evaluate, loop, policy, keys.act, 2),
    }


def test_every_preset_is_exported():
    assert {*OBSERVED, *IN_JAX} == set(PRESETS) - {"retro"}
    assert PRESETS["retro"] == PRESETS["atari"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("preset", OBSERVED)
def test_the_host_loop_for_accelerators(preset, variant):
    shape, dtype, kind = OBSERVED[preset]
    info = EnvInfo("outside", shape, np.dtype(dtype), kind, ActionSet(3, [(0, 1), (2, 2, 1)]))
    changes = SMALL | ({"intra_option": True} if variant == "outcomes" else {})  # which it needs
    config = replace(from_preset(preset, "outside"), variant=variant, **changes)
    for program, *args in host_programs(config, info).values():
        require_portable(program, *args)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("preset", IN_JAX)
def test_the_compiled_loop_for_accelerators(preset, variant):
    if preset == "minatar":
        pytest.importorskip("pgx")
    config = replace(from_preset(preset, IN_JAX[preset]), variant=variant, **SMALL)
    for program, *args in compiled_programs(config).values():
        require_portable(program, *args)


def test_embeddings_of_actions_for_accelerators():
    config = replace(from_preset("planted", "planted-grid"), variant="masp", similarity_form="embedded", **SMALL)
    assert config.embeds(2)
    for program, *args in compiled_programs(config).values():
        require_portable(program, *args)


def test_what_only_a_cpu_can_do_is_found(monkeypatch):
    def called_back(x):
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), np.float32), x)

    with pytest.raises((AssertionError, ValueError, NotImplementedError)):
        require_portable(jax.jit(called_back), np.float32(1))
    monkeypatch.undo()
    if not kernels.available():
        return
    config = replace(from_preset("gymnasium", "outside"), **SMALL)
    program, *args = host_programs(config, VECTOR)["learn"]
    with pytest.raises((ValueError, NotImplementedError)):
        require_portable(program, *args)


class Moves:
    """Counts arrays that the host loop hands to its programs, and those that it fetches."""

    def __init__(self, monkeypatch):
        self.to_device: Counter[str] = Counter()
        self.to_host = 0
        for name in ("_decide", "_learn", "_observe"):
            monkeypatch.setattr(HostLoop, name, self._counted(name, getattr(HostLoop, name)))
        monkeypatch.setattr(host, "np", self)

    def _counted(self, name, program):
        def call(loop, *args):
            self.to_device[name] += sum(not isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(args))
            return program(loop, *args)

        return call

    def asarray(self, array, *args):
        self.to_host += isinstance(array, jax.Array)
        return np.asarray(array, *args)

    def __getattr__(self, name):
        return getattr(np, name)


def test_an_iteration_of_the_host_loop_moves_one_step_and_its_actions(monkeypatch):
    """To the device the five arrays of a step and the number of updates, to the host the actions."""
    config = replace(from_preset("gymnasium", "outside"), variant="rainbow", steps_per_update=2, **SMALL)
    agent = Agent(config, VECTOR, VECTOR.actions.without_macros())
    outside: Any = Outside(VECTOR)
    loop = HostLoop(agent, outside, outside)
    state = loop.run(loop.init([config], [agent.actions]), 4, False)
    moves = Moves(monkeypatch)
    loop.run(state, 10, True)
    assert moves.to_device == {"_decide": 0, "_learn": 10, "_observe": 50}
    assert moves.to_host == 10 + 1  # and which environments reset, at the beginning


def test_an_iteration_of_the_compiled_loop_moves_nothing():
    config = replace(from_preset("planted", "planted-grid"), variant="rainbow", **SMALL)
    env: Any = make_env("planted-grid")
    actions = env.info.actions.without_macros()
    loop = CompiledLoop(Agent(config, env.info, actions), env)
    state = loop.run(loop.init([config], [actions]), jnp.int32(1), jnp.array(False))
    ticks, learn = jnp.int32(5), jnp.array(True)
    with jax.transfer_guard("disallow"):
        state = loop.run(state, ticks, learn)
    assert int(state.agent.tick) == 6
