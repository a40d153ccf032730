"""Observations as pictures, and videos."""

import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from masp.environments.planted import CELL, PlantedBandit, PlantedGrid
from masp.errors import UserError
from masp.report.video import CAPTION_HEIGHT, COLOURS, Scene, picture, require_format, write_video
from masp.training.jax_vector import JaxVector


def scenes(count, size=40):
    return [Scene(np.full((size, size, 3), 9 * i, np.uint8), f"macro ({i})\nstep {i}") for i in range(count)]


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_a_video_holds_every_step_enlarged_and_captioned(tmp_path, suffix):
    path = tmp_path / f"episode.{suffix}"
    assert write_video(path, scenes(5)) == 5
    with Image.open(path) as video:
        assert video.n_frames == 5
        assert video.size == (320, 320 + CAPTION_HEIGHT)
        video.seek(4)
        frame = np.asarray(video.convert("RGB")).astype(int)
    np.testing.assert_allclose(frame[:320], 36, atol=4)  # the picture, and nothing else
    assert frame[320:].max() > 200  # white letters
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_names_that_cannot_be_written():
    with pytest.raises(UserError, match=r"a video is .gif"):
        require_format("episode.avi")


def test_without_any_ffmpeg_mp4_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r"pip install 'masp-rl\[video\]'"):
        require_format("episode.mp4")


def test_mp4_by_the_package(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    path = tmp_path / "episode.mp4"
    assert write_video(path, scenes(4)) == 4
    assert path.read_bytes()[4:8] == b"ftyp" and path.stat().st_size > 1000


def test_the_planted_grid_draws_itself():
    vector = JaxVector(PlantedGrid(size=5), 1)
    observation = vector.reset(3).reshape(4, 5)
    row, column, goal_row, goal_column = observation.argmax(axis=1)
    image = vector.render().astype(int)
    assert image.shape == (5 * CELL + 1, 5 * CELL + 1, 3)
    agent = image[row * CELL + CELL // 2, column * CELL + CELL // 2]
    goal = image[goal_row * CELL + CELL // 2, goal_column * CELL + CELL // 2]
    assert agent[2] > agent[1] + 50 and goal[1] > goal[0] + 50  # blue, green
    assert JaxVector(PlantedBandit(), 1).render() is None


def test_images_show_their_newest_frame():
    grey = np.zeros((4, 5, 2), np.uint8)
    grey[1, 2, 1] = 200
    image = picture(grey, "image")
    assert image.shape == (4, 5, 3)
    assert (image[1, 2] == 200).all() and image.sum() == 600
    colour = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    np.testing.assert_array_equal(picture(colour, "image"), colour)


def test_planes_have_colours():
    planes = np.zeros((3, 3, 2), bool)
    planes[0, 0, 0] = planes[1, 1] = True
    image = picture(planes, "planes")
    np.testing.assert_array_equal(image[0, 0], COLOURS[0])
    np.testing.assert_array_equal(image[1, 1], COLOURS[1])  # the later plane lies on top
    np.testing.assert_array_equal(image[2, 2], [20, 20, 20])


def test_vectors_are_bars():
    image = picture(np.array([1.0, -0.5, 0.0, np.nan]), "vector")
    lit = (image != 20).any(axis=2)
    heights = [lit[:, 8 * i].sum() for i in range(4)]
    assert heights == [32, 17, 1, 1]
    assert lit[:32, 0].sum() == 31 and not lit[:32, 8].any()  # up, and down


@pytest.mark.parametrize(("kind", "planes"), [("minigrid", 4), ("minigrid-mission", 5)])
def test_minigrid_is_image_by_minigrid(kind, planes):
    cells = np.zeros((7, 7, planes), np.uint8)
    cells[..., 0] = 1
    cells[3, 3, :3] = (8, 1, 0)  # a goal, green
    image = picture(cells, kind)
    assert image.shape == (7 * 24, 7 * 24, 3)
    middle = image[3 * 24 + 12, 3 * 24 + 12].astype(int)
    assert middle[1] > middle[0] + 50 and middle[1] > middle[2] + 50
