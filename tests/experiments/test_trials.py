"""Trials: what makes two the same, what they need, and the order in which they can run."""

import dataclasses
import json

import pytest
from tiny_experiment import BASE, MINED, PLAIN, RICH, TINY

from masp.config import field_sections, to_flat
from masp.errors import UserError
from masp.experiments import trial as trials
from masp.experiments.catalogue import NAMES, experiment
from masp.experiments.identity import ALWAYS, IGNORED, config_of, macro_id, trial_id
from masp.experiments.plan import plan, unit_from_json, unit_to_json
from masp.experiments.trial import Sweep, Trial

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
    assert trial_id(BASE.with_overrides(checkpoint_every_frames=7)) == trial_id(BASE)


def test_macros_do_not_matter_to_rainbow():
    rainbow = replace(BASE, control="rainbow")
    assert trial_id(replace(rainbow, macros=MINED)) == trial_id(rainbow)


def test_noise_changes_the_macro_file_and_its_seed_only_with_noise():
    ids = [macro_id(macros, "planted-bandit", ()) for macros in (MINED, replace(MINED, noise_seed=1))]
    assert ids[0] == ids[1]
    noisy = replace(MINED, noise=0.5)
    assert len({ids[0], *(macro_id(replace(noisy, noise_seed=s), "planted-bandit", ()) for s in (0, 1))}) == 3


def test_fields_known_to_the_hash_exist():
    assert set(field_sections()) >= ALWAYS | set(IGNORED)


def test_a_field_that_came_later_counts_only_away_from_its_default():
    flat = to_flat(config_of(BASE))
    later = sorted(set(flat) - ALWAYS - set(IGNORED))
    assert {"intra_option", "similarity_from"} <= set(later)
    for name in later:
        assert trial_id(BASE.with_overrides(**{name: flat[name]})) == trial_id(BASE)
    for name, other in {"intra_option": True, "similarity_from": "outcomes", "similarity_rank": 2}.items():
        assert trial_id(BASE.with_overrides(**{name: other})) != trial_id(BASE), name


def test_controls_are_what_their_names_say():
    frozen = [config_of(replace(BASE, control=name)).similarity for name in ("uniform", "random", "overlap", "truth")]
    assert not any(similarity.learns for similarity in frozen) and all(similarity.active for similarity in frozen)
    assert [similarity.similarity_start for similarity in frozen[:3]] == ["constant", "random", "overlap"]
    assert config_of(BASE).similarity.learns
    uniform, learned = frozen[0], config_of(BASE).similarity
    assert uniform == dataclasses.replace(learned, learn_similarity=False)
    assert not config_of(replace(BASE, control="macros")).similarity.active
    assert config_of(replace(BASE, control="rainbow")).variant == "rainbow"


def test_trials_survive_json():
    for cell in RICH.cells("smoke"):
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


def test_mistakes_are_refused():
    with pytest.raises(UserError, match="no control 'nonsense'"):
        replace(BASE, control="nonsense")
    with pytest.raises(ValueError, match="take a source"):
        replace(BASE, control="transfer")
    with pytest.raises(ValueError, match="seeds"):
        replace(BASE, seeds=(1, 1))


@pytest.mark.parametrize("tiny", [TINY, RICH])
def test_units_come_after_what_they_need(tiny):
    done: set[tuple[str, int]] = set()
    for unit in plan(tiny, "smoke").units:
        assert set(unit.needs) <= done
        done |= {(unit.trial_id, seed) for seed in unit.seeds}


def test_first_seeds_come_first():
    """A run that is stopped early leaves a whole table with fewer seeds."""
    units = plan(experiment("minigrid"), "laptop").units
    assert [unit.seeds for unit in units] == [(seed,) for seed in (0, 1, 2) for _ in range(24)]
    assert len({unit.trial_id for unit in units[:24]}) == 24


def test_some_columns_only():
    whole, some = (
        plan(experiment("minigrid"), "laptop"),
        plan(experiment("minigrid"), "laptop", only=["macros", "masp"]),
    )
    assert some.cells == whole.cells  # the table keeps its shape
    assert {unit.trial.control for unit in some.units} == {"macros", "masp"}
    assert {unit.id for unit in some.units} < {unit.id for unit in whole.units}
    with pytest.raises(UserError, match="no column 'other'; it has rainbow, macros"):
        plan(experiment("minigrid"), "laptop", only=["other"])


def test_some_rows_only():
    whole, some = plan(experiment("minigrid"), "laptop"), plan(experiment("minigrid"), "laptop", rows="rooms")
    assert {unit.trial.env for unit in some.units} == {"FourRooms"} and some.cells == whole.cells
    both = plan(experiment("minigrid"), "laptop", only=["masp"], rows="Door Key")
    assert {(unit.trial.env, unit.trial.control) for unit in both.units} == {("DoorKey-8x8", "masp")}
    with pytest.raises(UserError, match="no row with 'kitchen' in its name; it has Door Key; Four Rooms"):
        plan(experiment("minigrid"), "laptop", rows="kitchen")


def test_seeds_are_one_unit_only_where_asked():
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
def test_controls_stand_beside_the_claim(name):
    columns = {cell.trial.control for cell in experiment(name).cells("laptop")}
    if name.startswith("defaults"):  # what a user gets
        fixed = {f"{control} as it comes" for control in ("uniform", "random", "overlap")}
        assert columns - fixed == {"rainbow", "macros as it comes", "masp as it comes"}
        assert (fixed <= columns) == (name == "defaults-minatar")  # where a claim is made of the similarity
        rows = {cell.row for cell in experiment(name).cells("laptop") if cell.trial.control in fixed}
        assert all(row[1] == "32" for row in rows)  # with more, `structure-minatar` has them
    elif name.endswith("-transfer"):
        assert {"rainbow", "macros", "uniform", "masp", "transfer"} <= columns
    else:
        assert {"rainbow", "macros", "uniform", "random", "overlap", "masp"} <= columns
