"""The history of similarities: what is kept, how exactly, how much, and after a resume."""

import numpy as np
import pytest

from masp.errors import UserError
from masp.training import similarity_history
from masp.training.similarity_history import SimilarityHistory, quantised, read_history


def random_similarity(count, seed):
    matrix = np.random.default_rng(seed).uniform(0, 0.3, (count, count)).astype(np.float32)
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1)
    return matrix


def test_quantised_by_hand():
    snapshot = quantised(7, np.array([[1, 0.2, 0.1], [0.2, 1, 0], [0.1, 0, 1]]))
    assert snapshot.frames.tolist() == [7] and snapshot.pairs.tolist() == [[255, 128, 0]]
    np.testing.assert_allclose(snapshot.matrix(0)[0], [1, 0.2, 128 / 255 * 0.2], rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_file_gives_back_what_was_added_up_to_half_a_step(tmp_path, count):
    history, matrix = SimilarityHistory(tmp_path / "h.safetensors", count, None), random_similarity(count, count)
    history.add(0, 0, np.eye(count))
    history.add(1, 100, matrix)
    kept = read_history(tmp_path / "h.safetensors", count)
    assert kept.frames.tolist() == [0, 100]
    np.testing.assert_array_equal(kept.matrix(0), np.eye(count))
    np.testing.assert_allclose(kept.matrix(1), matrix, atol=0.3 / 510 + 1e-6)


def add_rows(history, rows):
    for row in rows:
        history.add(row, 10 * row, random_similarity(6, row))


def test_moments_stay_evenly_spaced_and_few(tmp_path):
    history = SimilarityHistory(tmp_path / "h.safetensors", 6, None)
    add_rows(history, range(1000))
    frames = read_history(tmp_path / "h.safetensors", 6).frames
    assert 32 <= len(frames) <= 64 and frames[0] == 0 and len(set(np.diff(frames))) == 1


def test_thousand_actions_take_a_few_megabytes(tmp_path):
    file = tmp_path / "h.safetensors"
    history = SimilarityHistory(file, 1042, None)
    for row in range(12):
        history.add(row, row, random_similarity(1042, row))
        assert file.stat().st_size < similarity_history.MOST_BYTES + 10_000
    assert len(read_history(file, 1042).frames) >= 3


@pytest.mark.parametrize("kill_at, checkpoint", [(70, 40), (70, 64), (30, 5), (65, 63), (200, 129)])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, kill_at, checkpoint):
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    add_rows(SimilarityHistory(whole, 6, None), range(300))
    add_rows(SimilarityHistory(broken, 6, None), range(kill_at))
    add_rows(SimilarityHistory(broken, 6, 10 * checkpoint), range(checkpoint, 300))
    assert broken.read_bytes() == whole.read_bytes()


def test_fresh_run_begins_a_new_history_and_a_damaged_one_does_not_stop_training(tmp_path):
    file = tmp_path / "h.safetensors"
    add_rows(SimilarityHistory(file, 6, None), range(3))
    add_rows(SimilarityHistory(file, 6, None), [5])
    assert read_history(file, 6).frames.tolist() == [50]
    file.write_bytes(b"nonsense")
    add_rows(SimilarityHistory(file, 6, 100), [11])
    assert read_history(file, 6).frames.tolist() == [110]


def test_file_that_does_not_fit_is_refused(tmp_path):
    file = tmp_path / "h.safetensors"
    assert read_history(file, 6) is None
    add_rows(SimilarityHistory(file, 6, None), [0])
    with pytest.raises(UserError, match="does not fit 7 actions"):
        read_history(file, 7)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(UserError, match="checksum"):
        read_history(file, 6)
