"""Bundles that travel: their cards, and `masp push` and `masp pull` with a folder in place of a repository."""

import importlib.util
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import masp
from masp.cli.main import main
from masp.similarity.card import Card

ACTIONS = masp.ActionSet(2, [(0, 1), (1, 1, 1)], ["left", "right"], "Corridor-v0")
CARD = Card("Corridor-v0", "masp", 6000, 0, {"return": 0.5}, {"masp": "0.2.0"}, "a note")


def make_bundle(card=CARD):
    similarity = np.full((4, 4), 0.25, np.float32)
    np.fill_diagonal(similarity, 1.0)
    return masp.Bundle(ACTIONS, similarity, card)


@pytest.fixture
def file(tmp_path):
    masp.save_bundle(tmp_path / "b.safetensors", make_bundle())
    return tmp_path / "b.safetensors"


def write(path, **changes):
    """A bundle file with other metadata, as a stranger may make one."""
    metadata = {"format": "masp-bundle", "version": "1", "actions": json.dumps(ACTIONS.to_json())} | changes
    save_file({"similarity": make_bundle().similarity}, path, metadata)


def test_the_card_travels_in_the_file(file, tmp_path):
    bundle = masp.load_bundle(file)
    assert bundle.card == CARD and bundle.actions == ACTIONS
    masp.save_bundle(tmp_path / "plain.safetensors", make_bundle(Card()))
    write(tmp_path / "old.safetensors")
    for name in ("plain", "old"):  # bundles without a card are as they always were
        assert masp.load_bundle(tmp_path / f"{name}.safetensors").card == Card()
    assert b"card" not in (tmp_path / "plain.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("card", "match"),
    [
        ("[1]", "expected a JSON object, got list"),
        ('{"script": "x"}', "'script' is no field of a card"),
        ('{"frames": -1}', "frames cannot be -1"),
        ('{"seed": true}', "seed cannot be True"),
        ('{"env": 3}', "env cannot be 3"),
        ('{"figures": {"return": "high"}}', "figures cannot be"),
        ('{"figures": {"return": NaN}}', "NaN is not a JSON number"),
        ('{"versions": {"masp": ["1"]}}', "versions cannot be"),
        (json.dumps({"note": "x" * 5000}), "note cannot be"),
        (json.dumps({"figures": {str(i): i for i in range(100)}}), "figures cannot be"),
        ("{", "broken JSON"),
    ],
)
def test_cards_of_strangers_are_read_strictly(card, match, tmp_path):
    write(tmp_path / "b.safetensors", card=card)
    with pytest.raises(masp.UserError, match=match) as error:
        masp.load_bundle(tmp_path / "b.safetensors")
    assert "b.safetensors, card: " in str(error.value) and len(str(error.value)) < 1000


def test_push_and_pull_a_folder(file, tmp_path, capsys):
    shared, pulled = tmp_path / "shared" / "corridor", tmp_path / "pulled.safetensors"
    assert main(["push", str(file), str(shared), "--note", "of one seed"]) == 0
    assert "4 actions, 2 of them macros" in capsys.readouterr().out
    page = (shared / "README.md").read_text()
    assert "Corridor-v0" in page and '"return": 0.5' in page and f"masp pull {shared}" in page
    assert main(["pull", str(shared), "--out", str(pulled)]) == 0
    assert "trained on Corridor-v0 (masp, 6,000 frames)" in capsys.readouterr().out
    bundle = masp.load_bundle(pulled)
    np.testing.assert_array_equal(bundle.similarity, make_bundle().similarity)
    assert bundle.card.note == "of one seed" and bundle.card.figures == {"return": 0.5}
    assert main(["push", str(file), str(shared)]) == 2
    assert "add --replace" in capsys.readouterr().err
    assert main(["push", str(file), str(shared), "--replace"]) == 0
    assert masp.load_bundle(shared / "bundle.safetensors").card.note == "a note"


def test_only_what_was_understood_is_written_again(tmp_path):
    """A pulled file has no part that the reader did not check."""
    folder = tmp_path / "shared"
    folder.mkdir()
    metadata = {"format": "masp-bundle", "version": "1", "actions": json.dumps(ACTIONS.to_json()), "more": "script"}
    tensors = {"similarity": make_bundle().similarity, "payload": np.ones(100, np.float32)}
    save_file(tensors, folder / "bundle.safetensors", metadata)
    assert main(["pull", str(folder), "--out", str(tmp_path / "out.safetensors")]) == 0
    content = (tmp_path / "out.safetensors").read_bytes()
    assert b"script" not in content and b"payload" not in content


def test_texts_of_a_card_are_no_markup(tmp_path):
    from masp.sharing import readme

    page = readme(make_bundle(Card(env="x`\n---\n```\n# title\x1b[2J", note="```\n# big")), "a/b")
    lines = page.splitlines()
    assert "\x1b" not in page
    assert [line for line in lines if line.startswith("# ")] == ["# Macro-actions and their similarity"]
    assert [line for line in lines if line.startswith("```")] == ["```bash", "```", "```json", "```"]
    assert lines.count("---") == 2


def failing(arguments, code, match, capsys):
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert match in error and error.count("\n") == 1


def test_mistakes_are_one_line(file, tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "out.safetensors")
    failing(["push", "nothing", "./x"], 2, "no such run directory or bundle", capsys)
    failing(["push", str(file), str(file)], 2, "is a file", capsys)
    failing(["pull", str(tmp_path), "--out", out], 2, "no such bundle", capsys)
    failing(["pull", str(tmp_path), "--out", str(tmp_path / "x.json")], 2, "ends with .safetensors", capsys)
    failing(["pull", str(tmp_path), "--out", str(file)], 2, "exists; choose another --out", capsys)
    failing(["pull", str(tmp_path), "--out", out, "--revision", "v1"], 2, "has no revisions", capsys)
    (tmp_path / "bundle.safetensors").write_bytes(b"\x10" * 100)
    failing(["pull", str(tmp_path), "--out", out], 2, "not a bundle", capsys)
    if importlib.util.find_spec("huggingface_hub") is None:
        failing(["pull", "me/corridor", "--out", out], 2, "pip install 'masp-rl[hub]'", capsys)
    assert not (tmp_path / "out.safetensors").exists()
