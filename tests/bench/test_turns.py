"""Timing in turns: order, ratios, and a training loop that is ready to be timed."""

import numpy as np
import pytest

from masp.bench.turns import Training, in_turns, ratio
from masp.config import replace
from masp.presets import from_preset


def test_the_order_alternates_between_turns():
    calls = []
    seconds = in_turns({name: lambda name=name: calls.append(name) for name in "abc"}, 3)
    assert "".join(calls) == "abccbaabc"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_ratios_are_those_of_the_turns():
    figures = ratio("slow_over_fast", np.array([2.0, 6.0, 12.0]), np.array([1.0, 2.0, 3.0]))
    assert figures["slow_over_fast_ratio"] == 3.0
    assert figures["slow_over_fast_ratio_interval"] == pytest.approx([2.2, 3.8])


def test_training_counts_its_steps_and_updates():
    config = replace(
        from_preset("planted", "planted-bandit"),
        variant="macros",
        num_envs=2,
        steps_per_update=4,
        min_replay_steps=20,
        replay_steps=200,
        hidden=4,
        batch_size=4,
    )
    training = Training(config, ticks=16)
    training()
    # every episode of the bandit is one step and one tick that resets: 16 ticks of 2 environments are 16 steps
    assert training.steps == 16
    assert training.updates == 4
