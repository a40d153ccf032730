"""Training ends at a target or on a plateau."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import masp
from masp import EarlyStopping, UserError
from own_parts import make_corridor

RUN = SimpleNamespace(path=Path("run"), config=SimpleNamespace(env="corridor"))


def evaluations(rule, values):
    """The decisions of the rule on consecutive evaluations."""
    rule.on_start(RUN)
    return [rule.on_evaluation(RUN, {"frames": 1, "eval_return": value}) for value in values]


def test_the_target_is_reached():
    assert evaluations(EarlyStopping(target=2.0), [1.0, 1.9, 2.0]) == [False, False, True]


def test_patience_counts_evaluations_without_improvement():
    assert evaluations(EarlyStopping(patience=2), [1, 0, 2, 2, 1]) == [False, False, False, False, True]
    assert evaluations(EarlyStopping(patience=1, min_improvement=0.5), [1, 1.4]) == [False, True]


def test_runs_are_counted_separately():
    rule, other = EarlyStopping(patience=1), SimpleNamespace(path=Path("other"))
    rule.on_start(RUN)
    rule.on_start(other)
    row = {"eval_return": 1.0}
    assert [rule.on_evaluation(run, row) for run in (RUN, other, RUN)] == [False, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"), [({}, "needs a target"), ({"patience": 0}, "patience must be at least 1, got 0")]
)
def test_rules_that_say_nothing_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        EarlyStopping(**arguments)


def test_unknown_metrics_are_named():
    with pytest.raises(UserError, match="there is no metric 'score'; there are frames, eval_return"):
        evaluations(EarlyStopping(target=1, metric="score"), [1])
    with pytest.raises(UserError, match="corridor has no value for the metric eval_success"):
        EarlyStopping(target=1, metric="eval_success").on_evaluation(RUN, {"eval_success": None})


def test_a_run_ends_early_and_complete(tiny, tmp_path):
    settings = tiny | {"frames": 100_000, "variant": "rainbow"}
    run = masp.train(make_corridor, **settings, callbacks=[EarlyStopping(target=-1.0)], out=tmp_path / "run")
    assert run.summary["frames"] < 200
    assert run.agent is not None
