"""Corrupted and default macro sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.macros.mining.defaults import default_macros
from masp.macros.mining.names import ALE_ACTIONS, noop_action, spelled
from masp.macros.noise import corrupt, replaced_places

SET = ActionSet(6, [Macro((i % 6,) * (3 + i % 6), f"m{i}", i) for i in range(200)], env_id="Tiny-v0")


@given(st.floats(0, 1), st.integers(0, 2**40))
def test_lengths_stay_and_only_the_replaced_change(p, seed):
    noisy = corrupt(SET, p, seed)
    replaced = set(replaced_places(200, p, seed))
    assert noisy.lengths.tolist() == SET.lengths.tolist()
    assert noisy.env_id == SET.env_id
    for i, (before, after) in enumerate(zip(SET.macros, noisy.macros, strict=True)):
        assert (after.count is None and after.name == "") if i in replaced else after == before
    assert corrupt(SET, p, seed) == noisy


def test_extremes_and_other_seeds():
    assert corrupt(SET, 0.0, 1) == SET
    assert len(replaced_places(200, 1.0, 1)) == 200
    assert corrupt(SET, 0.5, 1) != corrupt(SET, 0.5, 2)
    assert set(replaced_places(200, 0.25, 3)) < set(replaced_places(200, 0.75, 3))


def test_uniform():
    many = ActionSet(4, [(0, 0, 0)] * 4000)
    drawn = np.array([macro.actions for macro in corrupt(many, 1.0, 0).macros])
    for place in range(3):
        counts = np.bincount(drawn[:, place], minlength=4)
        assert (abs(counts - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)).all()  # five standard deviations
    assert abs(len(replaced_places(4000, 0.5, 0)) - 2000) < 5 * np.sqrt(4000) / 2


def test_mistakes():
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserError, match="probability"):
            corrupt(SET, p, 0)
    with pytest.raises(UserError, match="seed"):
        corrupt(SET, 0.5, -1)


def test_default_macros():
    actions = default_macros(3, ("NOOP", "LEFT", "RIGHT"), "Tiny-v0")
    assert [macro.actions for macro in actions.macros] == [(1, 1), (2, 2), (1,) * 4, (2,) * 4]
    assert [macro.name for macro in actions.macros] == ["LEFTx2", "RIGHTx2", "LEFTx4", "RIGHTx4"]
    assert len(default_macros(7).macros) == 14
    with pytest.raises(UserError, match="at least twice"):
        default_macros(3, lengths=(1,))


def test_names():
    assert len(ALE_ACTIONS) == 18
    assert (ALE_ACTIONS[0], ALE_ACTIONS[17]) == ("NOOP", "DOWNLEFTFIRE")
    assert noop_action(("left", "noop")) == 1
    assert noop_action(("left",)) is None
    assert spelled((3, 3, 0, 3), ALE_ACTIONS) == "RIGHT×2 NOOP RIGHT"
    assert spelled((3, 3), ()) == "3×2"
