"""Observations as flat vectors: by hand for every kind."""

import jax.numpy as jnp
import numpy as np

from masp.environments.minigrid_mission import MOST_WORDS
from masp.similarity.features import flat_features


def test_vectors_and_planes_are_flattened_behind_a_one():
    np.testing.assert_array_equal(flat_features(jnp.array([[2.0, 3.0]]), "vector"), [[1, 2, 3]])
    planes = jnp.array([[[[True, False]], [[False, True]]]])  # [1, 2, 1, 2]
    np.testing.assert_array_equal(flat_features(planes, "planes"), [[1, 1, 0, 0, 1]])


def test_images_are_averaged_in_blocks():
    image = np.zeros((1, 25, 24, 2), np.uint8)  # blocks of 2 x 2; the last row is left out
    image[0, 0, 0, 1], image[0, 1, 1, 1], image[0, 24] = 255, 51, 255
    found = np.asarray(flat_features(jnp.asarray(image), "image"))
    assert found.shape == (1, 1 + 12 * 12 * 2)
    np.testing.assert_allclose(found[0, 1:3], [0.0, (1.0 + 0.2) / 4], rtol=1e-6)
    assert found[0, 3:].max() == 0.0


def test_small_images_stay_as_they_are():
    image = jnp.full((1, 5, 7, 1), 51, jnp.uint8)
    np.testing.assert_allclose(flat_features(image, "image")[0, 1:], np.full(35, 0.2), rtol=1e-6)


def test_minigrid_cells_are_one_hot():
    cells = np.zeros((1, 7, 7, 4), np.uint8)
    cells[0, 0, 0] = (10, 5, 2, 3)  # agent, a colour, a state, a direction
    found = np.asarray(flat_features(jnp.asarray(cells), "minigrid"))[0, 1:].reshape(49, 25)
    expected = np.zeros(25)
    expected[[10, 11 + 5, 17 + 2, 21 + 3]] = 1
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found.sum(axis=1), np.full(49, 4))


def test_the_mission_plays_no_part():
    cells = np.zeros((2, 7, 7, 5), np.uint8)
    cells[1, ..., 4].reshape(-1)[:MOST_WORDS] = 3
    found = np.asarray(flat_features(jnp.asarray(cells), "minigrid-mission"))
    np.testing.assert_array_equal(found[0], found[1])
