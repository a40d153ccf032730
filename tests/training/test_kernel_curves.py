"""Training with kernels and without is the same up to rounding."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from masp import ops
from masp.config import replace
from masp.training.loop import make_loop


@pytest.mark.parametrize("changes", [{}, {"noisy": True, "dueling": True, "held_out": "next"}])
@pytest.mark.skipif(ops.kernels_used() == "none", reason=ops.kernels_status())
def test_same_curve_with_and_without_kernels(monkeypatch, tiny_config, changes):
    """A few hundred steps: longer, and rounding would choose another action somewhere."""
    config = replace(tiny_config, **changes).resolved()
    found = {}
    for switch in ("0", "1"):
        monkeypatch.setenv("MASP_NATIVE", switch)
        loop = make_loop(config)
        state = loop.run(loop.init([config, replace(config, seed=1)], [loop.agent.actions] * 2), 20, False)
        found[switch] = loop.run(state, 20, True).agent
    without, with_kernels = found["0"], found["1"]
    assert int(without.learner.updates) > 5
    np.testing.assert_array_equal(without.actor.steps, with_kernels.actor.steps)
    for part in ("params", "similarity"):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3),
            getattr(without.learner, part),
            getattr(with_kernels.learner, part),
        )
