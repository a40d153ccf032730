"""Trials: their ids, what they need, and the order of their units."""

import dataclasses
import json

import pytest
from tiny_experiment import BASE, MINED, PLAIN, RICH, TINY

from masp.config import field_sections, to_flat
from masp.errors import UserError
from masp.experiments import trial as trials
from masp.experiments.catalogue import NAMES, experiment
from masp.experiments.plan import plan, unit_from_json, unit_to_json
from masp.experiments.trial import IGNORED, LATER, Play, Solver, Sweep, Trial, config_of, macro_id, trial_id
from masp.presets import SWEEPS

replace = dataclasses.replace


def test_the_id_depends_on_what_decides_the_result():
    changes = [
        {"env": "planted-grid", "env_options": ()},
        {"env_options": ("contexts=3",)},
        {"frames": 500},
        {"control": "macros"},
        {"control": "uniform"},
        {"control": "truth"},
        {"macros": MINED},
        {"macros": replace(MINED, play=Play(solver=Solver(5)))},
        {"demonstrations": Solver(5)},
        {"demonstrations": Solver(6)},
        {"sweep": Sweep((0.1, 0.2))},
        {"sweep": Sweep((0.1, 0.2), judged="run")},
        {"overrides": (*BASE.overrides, ("penalty_weight", 0.5))},
        {"control": "transfer", "source": replace(BASE, control="macros")},
        {"control": "consensus", "source": replace(BASE, control="macros")},
    ]
    ids = [trial_id(replace(BASE, **change)) for change in changes]
    assert len({trial_id(BASE), *ids}) == len(changes) + 1


def test_the_id_does_not_depend_on_seeds_checkpoints_or_labels():
    assert trial_id(replace(BASE, seeds=(5,), together=False)) == trial_id(BASE)
    assert trial_id(BASE.with_overrides(out="elsewhere", env_workers=1)) == trial_id(BASE)


def test_the_id_of_rainbow_does_not_depend_on_macros():
    rainbow = replace(BASE, control="rainbow")
    assert trial_id(replace(rainbow, macros=MINED)) == trial_id(rainbow)


@pytest.mark.parametrize("control", ["rainbow", "macros"])
def test_settings_of_the_similarity_do_not_matter_without_a_penalty(control):
    trial = replace(BASE, control=control)
    changed = trial.with_overrides(penalty_weight=7.0, meta_period_updates=3, held_out="next", penalty_form="sum")
    assert trial_id(changed) == trial_id(trial)
    assert trial_id(trial.with_overrides(batch_size=8)) != trial_id(trial)


def test_macro_files_are_per_seed_only_with_noise():
    plain = {macro_id(MINED, "planted-bandit", (), seed) for seed in (0, 1)}
    noisy = {macro_id(replace(MINED, noise=0.5), "planted-bandit", (), seed) for seed in (0, 1)}
    noisier = {macro_id(replace(MINED, noise=0.75), "planted-bandit", (), seed) for seed in (0, 1)}
    assert (len(plain), len(noisy), len(plain | noisy | noisier)) == (1, 2, 5)


def test_noise_changes_the_id_of_a_trial_but_not_per_seed():
    noisy = replace(BASE, macros=replace(MINED, noise=0.5))
    assert trial_id(noisy) != trial_id(replace(BASE, macros=MINED))
    assert trial_id(replace(noisy, seeds=(5, 6))) == trial_id(noisy)


def test_settings_named_in_the_hash_exist():
    assert set(field_sections()) >= LATER | set(IGNORED)


def test_later_settings_count_only_away_from_their_default(monkeypatch):
    cached_id = trial_id.__wrapped__  # without the cache, which must not see another LATER
    flat = to_flat(config_of(BASE))
    before = cached_id(BASE)
    monkeypatch.setattr(trials, "LATER", frozenset({"intra_option", "trace_length"}))
    after = cached_id(BASE)
    assert after != before  # as if these settings did not exist when the record was written
    for name, other in {"intra_option": True, "trace_length": 2}.items():
        assert cached_id(BASE.with_overrides(**{name: flat[name]})) == after
        assert cached_id(BASE.with_overrides(**{name: other})) != after, name


def test_controls_match_their_names():
    configs = [config_of(replace(BASE, control=name)) for name in ("uniform", "random", "overlap", "truth")]
    frozen = [config.similarity for config in configs]
    assert all(similarity.frozen for similarity in frozen) and all(config.penalised for config in configs)
    assert [similarity.similarity_start for similarity in frozen[:3]] == ["constant", "random", "overlap"]
    learned = config_of(BASE).similarity
    assert not learned.frozen
    assert learned.similarity_form == "matrix"  # the paper's, however many actions there are
    as_frozen = dataclasses.replace(learned, meta_learning_rate=0.0, similarity_form="auto")
    assert frozen[0] == as_frozen  # although BASE overrides the rate
    assert config_of(replace(BASE, control="embedded")).embeds(20)
    assert config_of(replace(BASE, control="macros")).penalised is False
    assert config_of(replace(BASE, control="rainbow")).variant == "rainbow"
    assert config_of(replace(BASE, control="outcomes")).variant == "outcomes"


@pytest.mark.parametrize("name", ["planted", "structure", "minatar", "minigrid", "structure-minatar", "atari"])
def test_our_weights_are_for_a_mean_over_actions(name):
    forms = {config_of(cell.trial).similarity.penalty_form for cell in experiment(name).cells("laptop")}
    assert forms - {"literal"} == {"mean"}


@pytest.mark.parametrize("name", ["atari", "minigrid", "street-fighter", "minatar"])
def test_the_scale_paper_sweeps_the_papers_weights_of_a_sum(name):
    trials_of_masp = [cell.trial for cell in experiment(name).cells("paper") if cell.column == "masp"]
    for trial in trials_of_masp:
        assert config_of(trial).similarity.penalty_form == "sum"
        assert trial.sweep is not None
        assert trial.sweep.penalty_weight in [sweep["penalty_weight"] for sweep in SWEEPS.values()]


def test_trials_survive_json():
    for cell in (*RICH.cells("smoke"), *experiment("minigrid-demonstrations").cells("smoke")):
        assert trials.from_json(json.loads(json.dumps(trials.to_json(cell.trial)))) == cell.trial
    for unit in plan(RICH, "smoke").units:
        assert unit_from_json(json.loads(json.dumps(unit_to_json(unit)))) == unit


def test_a_sweep_uses_no_reported_seed():
    with pytest.raises(ValueError, match="must not use reported seeds"):
        replace(BASE, sweep=Sweep((0.1,), seeds=(1, 2)))
    swept = replace(BASE, sweep=Sweep((0.1, 0.2), (0.001, 0.01), seeds=(7,)))
    settings = [
        (dict(c.overrides)["penalty_weight"], dict(c.overrides)["meta_learning_rate"]) for c in swept.candidates()
    ]
    assert settings == [(0.1, 0.001), (0.1, 0.01), (0.2, 0.001), (0.2, 0.01)]
    assert all(candidate.seeds == (7,) and candidate.sweep is None for candidate in swept.candidates())


def test_invalid_trials_are_rejected():
    with pytest.raises(UserError, match="no control 'nonsense'"):
        replace(BASE, control="nonsense")
    with pytest.raises(ValueError, match="take a source"):
        replace(BASE, control="transfer")
    with pytest.raises(ValueError, match="seeds"):
        replace(BASE, seeds=(1, 1))
    with pytest.raises(ValueError, match="no meta-learning rate to sweep"):
        replace(BASE, control="uniform", sweep=Sweep((0.1,), (0.001, 0.01)))


@pytest.mark.parametrize("tiny", [TINY, RICH])
def test_units_come_after_what_they_need(tiny):
    done: set[tuple[str, int]] = set()
    for unit in plan(tiny, "smoke").units:
        assert set(unit.needs) <= done
        done |= {(unit.trial_id, seed) for seed in unit.seeds}


def test_first_seeds_come_first():
    """A run that is stopped early leaves a complete table with fewer seeds."""
    units = plan(experiment("minigrid"), "laptop").units
    assert [unit.seeds for unit in units] == [(seed,) for seed in (0, 1, 2) for _ in range(24)]
    assert len({unit.trial_id for unit in units[:24]}) == 24


def test_a_plan_of_some_columns():
    whole, some = (
        plan(experiment("minigrid"), "laptop"),
        plan(experiment("minigrid"), "laptop", only=["macros", "masp"]),
    )
    assert some.cells == whole.cells  # the table keeps its shape
    assert {unit.trial.control for unit in some.units} == {"macros", "masp"}
    assert {unit.id for unit in some.units} < {unit.id for unit in whole.units}
    with pytest.raises(UserError, match="no column 'other'; it has rainbow, macros"):
        plan(experiment("minigrid"), "laptop", only=["other"])


def test_a_plan_of_some_rows():
    whole, some = plan(experiment("minigrid"), "laptop"), plan(experiment("minigrid"), "laptop", rows="rooms")
    assert {unit.trial.env for unit in some.units} == {"FourRooms"} and some.cells == whole.cells
    both = plan(experiment("minigrid"), "laptop", only=["masp"], rows="Door Key")
    assert {(unit.trial.env, unit.trial.control) for unit in both.units} == {("DoorKey-8x8", "masp")}
    with pytest.raises(UserError, match="no row with 'kitchen' in its name; it has Door Key; Four Rooms"):
        plan(experiment("minigrid"), "laptop", rows="kitchen")


def test_seeds_share_a_unit_only_if_trained_together():
    assert [unit.seeds for unit in plan(TINY, "smoke").units] == [(0,), (1,)]
    together = replace(TINY, cells=lambda scale: [trials_cell(replace(PLAIN, together=True))])
    assert [unit.seeds for unit in plan(together, "smoke").units] == [(0, 1)]
    twelve = replace(PLAIN, together=True, seeds=tuple(range(12)))
    assert [unit.seeds for unit in plan(replace(TINY, cells=lambda scale: [trials_cell(twelve)]), "smoke").units] == [
        tuple(range(10)),
        (10, 11),
    ]


def trials_cell(trial: Trial):
    return replace(TINY.cells("smoke")[0], trial=trial)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_experiment_can_be_planned(name, scale):
    planned = plan(experiment(name), scale)
    cells = {(cell.row, cell.column) for cell in planned.cells}
    assert len(cells) == len(planned.cells) > 0
    for cell in planned.cells:
        assert len(cell.row) == len(planned.experiment.row_names)
        assert not set(cell.trial.seeds) & {seed for c in cell.trial.candidates() for seed in c.seeds}
    done: set[tuple[str, int]] = set()
    for unit in planned.units:
        assert set(unit.needs) <= done
        done |= {(unit.trial_id, seed) for seed in unit.seeds}


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_its_controls(name):
    columns = {cell.trial.control for cell in experiment(name).cells("laptop")}
    if name.startswith("defaults"):  # the variants of a user
        fixed = {f"{control} as it comes" for control in ("uniform", "random", "overlap")}
        outcomes = {"outcomes as it comes"} if name == "defaults" else set()
        assert columns - fixed == {"rainbow", "macros as it comes", "masp as it comes", *outcomes}
        assert (fixed <= columns) == (name == "defaults-minatar")
        rows = {cell.row for cell in experiment(name).cells("laptop") if cell.trial.control in fixed}
        assert all(row[1] == "32" for row in rows)  # for more macros they are in `structure-minatar`
    elif name.endswith("-transfer"):
        assert {"rainbow", "macros", "uniform", "masp", "transfer"} <= columns
    elif name.endswith("-transfer-agents"):
        assert columns == {"rainbow", "masp", "agent", "agent frozen"}
    elif name.endswith("-demonstrations"):  # as a user gets them, beside a learner without demonstrations
        assert columns == {"rainbow", *(f"{control} as it comes" for control in ("macros", "uniform", "masp"))}
        assert {cell.trial.demonstrations is None for cell in experiment(name).cells("laptop")} == {True, False}
    elif name.startswith("minatar"):  # at full scale, a fixed similarity beside the learned one
        assert {"rainbow", "macros", "masp"} <= columns
        assert columns & {"uniform", "uniform as it comes"}
    else:
        assert {"rainbow", "macros", "uniform", "random", "overlap", "masp"} <= columns
