"""The compiled loop leaves the replay where it is."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from masp.config import replace
from masp.training.lanes import start_of
from masp.training.loop import make_loop


def init(loop, *configs):
    """The state before the first tick of runs with the loop's own actions."""
    return loop.init(configs, [loop.agent.actions] * len(configs))


@pytest.mark.parametrize("changes", [{"held_out": "separate"}, {"held_out": "next"}, {"intra_option": True}])
@pytest.mark.parametrize("steps_per_update", [1, 3])
def test_the_replay_is_written_in_place(tiny_config, changes, steps_per_update):
    config = replace(tiny_config, steps_per_update=steps_per_update, **changes).resolved()
    loop = make_loop(config)
    state = init(loop, config, replace(config, seed=1))
    program = loop.run.lower(loop, state, 1, True).compile().as_text()
    memory = state.agent.memory
    # With one update, which XLA takes out of its loop, the priorities are still copied.
    for part in (memory.observations, memory.tree[0]) if steps_per_update == 1 else (memory.observations,):
        shape = ",".join(map(str, part.shape))
        assert re.search(rf"f32\[{shape}\]", program), "it has another type"
        assert not re.search(rf"= f32\[{shape}\]\S* copy\(", program)


def test_parameters_are_copied_only_where_a_meta_step_is_due(tiny_config):
    """What it must remember is written in a branch; elsewhere Adam works in place."""
    config = replace(tiny_config, held_out="next", meta_period_updates=4, steps_per_update=1, hidden=24).resolved()
    agent = make_loop(config).agent
    keys, start = start_of(config, agent, agent.actions)
    state = agent.init(keys, jnp.zeros((config.num_envs, *agent.info.observation_shape)), start)
    learn = jax.jit(lambda state: agent.update(state, agent.update_keys(state)[0]), donate_argnums=0)
    program = learn.lower(state).compile().as_text()
    assert_copied_in_branches(program, state.learner.params["advantage_hidden"]["kernel"].shape)


def test_learning_overwrites_what_the_decision_has_read(tiny_config):
    """Parameters are copied to the target network, in a branch, and nowhere else."""
    config = replace(tiny_config, variant="macros", steps_per_update=1, hidden=24).resolved()
    loop = make_loop(config)
    state = init(loop, config)
    program = loop.run.lower(loop, state, 1, True).compile().as_text()
    assert_copied_in_branches(program, state.agent.learner.params["advantage_hidden"]["kernel"].shape)


def assert_copied_in_branches(program, shape):
    sizes = ",".join(map(str, shape))
    computations = dict(re.findall(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\{\n(.*?)^\}", program, re.MULTILINE | re.DOTALL))
    branches = {name for names in re.findall(r"branch_computations=\{([^}]*)\}", program) for name in names.split(", ")}
    branches |= set(re.findall(r"(?:true|false)_computation=(%[\w.\-]+)", program))
    copy = rf"= f32\[(?:1,)?{sizes}\]\S* copy\("
    copying = {f"%{name}" for name, body in computations.items() if re.search(copy, body)}
    assert branches and copying, "the program is written otherwise now"

    def conditional(name):
        """Whether it is a branch, or part of nothing but branches: copies may be fused with what is done with them."""
        callers = {
            f"%{other}" for other, body in computations.items() if re.search(rf"calls={re.escape(name)}\b", body)
        }
        return name in branches or (bool(callers) and all(map(conditional, callers)))

    assert [name for name in copying if not conditional(name)] == []
