"""The compiled loop leaves the replay where it is."""

from __future__ import annotations

import re

import pytest

from masp.config import replace
from masp.training.train import make_loop


@pytest.mark.parametrize("changes", [{"held_out": "separate"}, {"held_out": "next"}, {"intra_option": True}])
@pytest.mark.parametrize("steps_per_update", [1, 3])
def test_the_replay_is_written_in_place(tiny_config, changes, steps_per_update):
    config = replace(tiny_config, steps_per_update=steps_per_update, **changes).resolved()
    loop = make_loop(config)
    state = loop.init([config, replace(config, seed=1)])
    program = loop._run.lower(loop, state, 1, True).compile().as_text()
    memory = state.agent.memory
    # With one update, which XLA takes out of its loop, the priorities are still copied.
    for part in (memory.observations, memory.tree[0]) if steps_per_update == 1 else (memory.observations,):
        shape = ",".join(map(str, part.shape))
        assert re.search(rf"f32\[{shape}\]", program), "it has another type"
        assert not re.search(rf"= f32\[{shape}\]\S* copy\(", program)
