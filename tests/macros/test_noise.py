"""The noise experiment's corruption of macro sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.macros.noise import corrupt, replaced_indices

SET = ActionSet(6, [Macro((i % 6,) * (3 + i % 6), f"m{i}", i) for i in range(200)], env_id="Tiny-v0")


@given(st.floats(0, 1), st.integers(0, 2**40))
def test_only_replaced_macros_change_and_lengths_stay(p, seed):
    noisy = corrupt(SET, p, seed)
    replaced = set(replaced_indices(200, p, seed))
    assert noisy.lengths.tolist() == SET.lengths.tolist()
    assert noisy.env_id == SET.env_id
    for i, (before, after) in enumerate(zip(SET.macros, noisy.macros, strict=True)):
        assert (after.count is None and after.name == "") if i in replaced else after == before
    assert corrupt(SET, p, seed) == noisy


def test_extreme_probabilities_and_other_seeds():
    assert corrupt(SET, 0.0, 1) == SET
    assert len(replaced_indices(200, 1.0, 1)) == 200
    assert corrupt(SET, 0.5, 1) != corrupt(SET, 0.5, 2)
    assert set(replaced_indices(200, 0.25, 3)) < set(replaced_indices(200, 0.75, 3))


def test_replacements_are_uniform():
    many = ActionSet(4, [(0, 0, 0)] * 4000)
    sequences = np.array([macro.actions for macro in corrupt(many, 1.0, 0).macros])
    for position in range(3):
        counts = np.bincount(sequences[:, position], minlength=4)
        assert (abs(counts - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)).all()  # five standard deviations
    assert abs(len(replaced_indices(4000, 0.5, 0)) - 2000) < 5 * np.sqrt(4000) / 2


def test_invalid_arguments():
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserError, match="probability"):
            corrupt(SET, p, 0)
    with pytest.raises(UserError, match="seed"):
        corrupt(SET, 0.5, -1)
