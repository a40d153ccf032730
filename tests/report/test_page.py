"""The content of the page and its file, without a browser."""

import base64
import gzip
import json
import re

import numpy as np
import pytest
from made_runs import FOUR, action_set, make_run

from masp.cli.main import main
from masp.config import replace
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.report.page import write_report
from masp.report.page.charts import LEARNING, charts, flat_note
from masp.report.page.colours import CONTRAST, NIGHT, PAPER, contrast, shades
from masp.report.page.document import run_page
from masp.report.page.groups import grouped
from masp.report.page.maps import map_data, read_moments
from masp.report.page.runs import ReportRun, find_runs
from masp.report.page.usage import usage_data

STORY = ["A story.", ("A lead", "A text.")]


def content(file):
    """The content of a page file, unpacked."""
    packed = re.search(r'<script type="text/plain" id="content">([^<]*)</script>', file.read_text()).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def block_of(page, section, kind):
    blocks = next(part for part in page["sections"] if part["id"] == section)["blocks"]
    return next(block for block in blocks if block["kind"] == kind)


@pytest.fixture
def runs(tmp_path):
    for variant, level in (("macros", 0.3), ("masp", 0.8), ("rainbow", 0.95)):
        for seed in range(2):
            make_run(tmp_path / "all" / variant / f"seed-{seed}", variant, seed, level=level)
    return tmp_path / "all"


def test_command_writes_one_file_that_names_no_other(runs, tmp_path, capsys):
    assert main(["report", str(runs), "--out", str(tmp_path / "r.html")]) == 0
    assert "open it in a browser" in capsys.readouterr().out
    text = (tmp_path / "r.html").read_text()
    assert not re.search(r'(src|href)="(?!#|data:,)', text) and len(text) < 3_000_000
    page = content(tmp_path / "r.html")
    assert [section["id"] for section in page["sections"]] == [
        *("summary", "learning", "similarity", "macros", "penalty", "settings", "system")
    ]
    assert page["title"] == "planted-grid" and page["subtitle"] == "6 runs in 3 groups"
    assert str(tmp_path) not in json.dumps(page)


def test_finding_orders_groups_and_table_has_intervals(runs, tmp_path):
    page = content(write_report([runs], tmp_path / "r.html", "A title", STORY, {"masp": "with the penalty"}))
    finding = block_of(page, "summary", "text")["text"]
    assert re.fullmatch(r"After 20,000 frames, evaluation success: rainbow .*; masp .*; macros .*\.", finding)
    table = block_of(page, "summary", "table")
    assert [row[0]["text"] for row in table["rows"]] == ["rainbow", "macros", "masp"]
    assert table["rows"][2][0]["note"] == "with the penalty"
    assert re.fullmatch(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", table["rows"][2][1])
    assert table["columns"] == ["group", "last evaluation success", "mean over the run", "actions", "seeds"]
    assert page["title"] == "A title" and page["story"] == [["", "A story."], ["A lead", "A text."]]


def test_finding_says_how_long_each_group_has_trained(tmp_path):
    make_run(tmp_path / "a", "macros", rows=20, level=0.3)
    other = make_run(tmp_path / "b", "masp", rows=10)
    page = run_page([ReportRun.open(path) for path in find_runs([tmp_path])])
    finding = block_of(page, "summary", "text")["text"]
    assert re.fullmatch(r"Evaluation success: masp \S+ after 10,000 frames; macros \S+ after 20,000 frames\.", finding)
    (other / "summary.json").unlink()
    page = run_page([ReportRun.open(path) for path in find_runs([tmp_path])], captions={"planted-grid": "grid"})
    assert block_of(page, "summary", "text")["text"].startswith("So far, evaluation success: masp")


def test_captions_name_groups_and_tasks(tmp_path):
    options = ("copies=2", "size=5")
    runs = [ReportRun.open(make_run(tmp_path / "a", rows=4)), ReportRun.open(make_run(tmp_path / "b", rows=4))]
    runs[1].config = replace(runs[1].config, env_options=options)
    page = run_page(runs, captions={"planted-grid (copies=2 size=5)": "small", "masp": "all of it"})
    assert page["title"] == "planted-grid and small"
    maps = block_of(page, "similarity", "maps")["maps"]
    assert [one["label"] for one in maps] == ["masp, seed 0: planted-grid", "masp, seed 0: small"]


def test_speed_is_that_since_the_row_before_and_begins_anew_after_a_pause(tmp_path):
    run = ReportRun.open(make_run(tmp_path / "one", rows=5))
    for row, (frames, seconds) in zip(run.rows, ((10, 5), (30, 7), (60, 8), (70, 2), (90, 6)), strict=True):
        row |= {"frames": frames, "seconds": seconds}
    frames, speed = run.curve("speed")
    assert frames.tolist() == [30, 60, 90] and speed.tolist() == [10, 30, 5]
    run.rows = run.rows[:1]
    assert len(run.curve("speed")[0]) == 0


def test_groups_are_what_differs_in_more_than_the_seed(tmp_path):
    paths = [make_run(tmp_path / f"{w}-{s}", seed=s, penalty_weight=w, rows=4) for w in (0.1, 0.5) for s in (0, 1)]
    paths.append(make_run(tmp_path / "other", env="planted-bandit", rows=4))
    groups = grouped([ReportRun.open(path) for path in paths])
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("masp, penalty weight 0.1", 2),
        ("masp, penalty weight 0.5", 2),
        ("masp", 1),
    ]
    assert len({group.colour for group in groups}) == 3 and {group.task for group in groups} == {
        "planted-grid",
        "planted-bandit",
    }


def test_learning_curve_is_that_of_the_rows(tmp_path):
    run = ReportRun.open(make_run(tmp_path / "one", rows=6))
    chart = charts(LEARNING, grouped([run]), "learning")[0]
    expected = [(row["frames"], round(row["eval_success"], 4)) for row in run.rows if row["eval_success"] is not None]
    assert [(x, round(y, 4)) for x, y in zip(chart["lines"][0]["x"], chart["lines"][0]["y"], strict=True)] == expected
    assert chart["lines"][0]["n"] == 1 and chart["title"] == "Evaluation success"


def test_line_at_zero_is_said_in_words(tmp_path):
    groups = grouped(
        [ReportRun.open(make_run(tmp_path / "a", "masp", level=-9)), ReportRun.open(make_run(tmp_path / "b", "macros"))]
    )
    assert charts(LEARNING, groups, "learning")[0]["note"] == "masp: 0 all the time, on the axis."


def test_lines_that_hide_one_another_are_said_in_words():
    lines = [{"name": name, "y": [value, value, None]} for name, value in (("a", 1), ("b", 1), ("c", 2), ("d", 0))]
    assert flat_note(lines[:2]) == "a, b: 1 all the time."
    assert flat_note(lines) == "a, b: 1 all the time. d: 0 all the time, on the axis."
    assert flat_note([{"name": "e", "y": [1, 2]}, lines[2]]) == ""


def test_map_has_groups_as_neighbours_and_the_pairs_of_its_moments(tmp_path):
    run = ReportRun.open(make_run(tmp_path / "one", actions=action_set(16), rows=16))
    history = read_moments(run)
    data = map_data("one", run.actions, history)
    groups = np.array(data["order"]) % 4
    assert (np.diff(groups) != 0).sum() == 3, "each group of alike actions is in one piece"
    assert data["frames"] == history.frames.tolist() and len(data["tree"]) == 19
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(data["pairs"][-1]), np.uint8), history.pairs[-1])
    assert data["names"][:4] == list(FOUR) and "-" in data["names"][4] and data["note"] == ""
    assert [(middle, more) for middle, _, more in data["clusters"]] == [(2, 4), (7, 4), (12, 4), (17, 4)]
    assert sorted(name for _, name, _ in data["clusters"]) == sorted(FOUR)


def test_map_of_which_nothing_was_learned_says_so(tmp_path):
    from masp.training.similarity_history import quantised

    data = map_data("one", action_set(4), quantised(0, np.full((8, 8), 0.1)))
    assert "nothing was learned" in data["note"]


def test_few_very_similar_pairs_do_not_set_the_colours():
    from masp.training.similarity_history import quantised

    matrix = np.full((60, 60), 0.05)
    matrix[0, 1] = matrix[1, 0] = 0.9
    data = map_data("one", action_set(56), quantised(0, matrix))
    assert data["clipped"] and data["top"] == pytest.approx(0.05, rel=0.1)


def test_usage_by_hand(tmp_path):
    run = ReportRun.open(make_run(tmp_path / "one", actions=ActionSet(2, [(0, 1)]), rows=2))
    for row, decisions in zip(run.rows, ([6, 2, 2], [0, 0, 10]), strict=True):
        row |= {"decisions": np.array(decisions, np.float32), "rewards": np.array(decisions, np.float32)}
    usage = usage_data("one", run)
    shares = np.frombuffer(base64.b64decode(usage["shares"]), np.uint8).reshape(3, 2) / 255 * usage["scale"]
    np.testing.assert_allclose(shares, [[0.2, 1], [0.6, 0], [0.2, 0]], atol=1 / 255)
    assert usage["macros"] == 0.6 and usage["macro_steps"] == pytest.approx(24 / 32) and usage["macro_rewards"] == 0.6
    assert usage["names"] == ["0-1", "0", "1"]


def test_running_runs_are_read_as_far_as_they_are(tmp_path):
    run = ReportRun.open(make_run(tmp_path / "one", rows=4))
    with open(tmp_path / "one" / "metrics.jsonl", "a") as file:
        file.write(
            json.dumps({**run.rows[-1], "frames": 5000, "decisions": [1] * 16, "advantage": None}) + '\n{"frames": 60'
        )
    assert run.update() and run.frames == 5000 and not run.update()
    (tmp_path / "one" / "summary.json").unlink()
    assert run.state == "stopped"
    text = (tmp_path / "one" / "metrics.jsonl").read_text()
    (tmp_path / "one" / "new.jsonl").write_text("".join(text.splitlines(keepends=True)[:2]))
    (tmp_path / "one" / "new.jsonl").replace(tmp_path / "one" / "metrics.jsonl")
    assert run.update() and run.frames == 2000, "a file that was replaced is read anew"


def test_page_says_who_wrote_a_run_and_not_where(tmp_path):
    path = make_run(tmp_path / "one", rows=2)
    versions = {"python": "3.11.7", "masp": "0.2.0", "jax": "0.10.2"}
    starts = [{"host": "secret-host", "commit": commit, "versions": versions} for commit in ("aaa1", "bbb2", "bbb2")]
    (path / "starts.jsonl").write_text("".join(json.dumps(start) + "\n" for start in starts) + "torn")
    page = run_page([ReportRun.open(path)])
    tables = [block for part in page["sections"] if part["id"] == "settings" for block in part["blocks"]]
    row = next(table for table in tables if table["caption"] == "Made by")["rows"][0]
    assert row[1] == "aaa1, then bbb2" and row[3:] == ["3.11.7", "0.10.2", "1"]
    assert "secret-host" not in json.dumps(page)


def test_run_without_rows_is_on_the_page(tmp_path):
    path = make_run(tmp_path / "one", rows=1)
    for name in ("metrics.jsonl", "summary.json", "similarity.safetensors", "similarity-history.safetensors"):
        (path / name).unlink(missing_ok=True)
    page = run_page([ReportRun.open(path)])
    assert "stopped at 0 %" in json.dumps(page)


def test_names_from_files_cannot_end_the_script_or_begin_a_tag(tmp_path):
    nasty = "</script><script>alert(1)</script>\"'&\x1b[31m"
    actions = ActionSet(2, [Macro((0, 1), nasty)], ("<b>", nasty))
    file = write_report([make_run(tmp_path / "one", actions=actions, rows=4)], tmp_path / "r.html", nasty)
    assert "alert" not in file.read_text() and content(file)["title"] == nasty.replace("\x1b", "\ufffd")


@pytest.mark.parametrize("colour", ["#1f3b73", "#6fa8dc", "#111111", "#ffffff", "#cc2936", "#c9a227"])
def test_colours_can_be_told_from_the_page(colour):
    light, dark = shades(colour)
    assert contrast(light, PAPER) >= CONTRAST and contrast(dark, NIGHT) >= CONTRAST
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_mistakes_are_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere"), "--out", str(tmp_path / "r.html")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    with pytest.raises(UserError, match="not a run directory, and there is none in it"):
        find_runs([tmp_path])
    run = make_run(tmp_path / "one", rows=2)
    assert main(["report", str(run), "--out", str(tmp_path / "no" / "r.html")]) == 2
    assert "no such folder to write to" in capsys.readouterr().err
