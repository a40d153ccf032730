"""Videos of episodes of an agent, with the macro that is being played written below each step; also while it trains."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from masp.environments.base import ObservationKind
from masp.environments.gymnasium_vector import GymVector
from masp.environments.registry import is_jax, make_env
from masp.errors import UserError
from masp.training.callbacks import Callback, RunView
from masp.training.playing import PlayerEnv, Tick, make_player_env, play
from masp.training.run import Run
from masp.whole_file import whole_file

LONGEST = 3_000
"""Steps after which a video is cut."""
PILLOW_SUFFIXES = (".gif", ".webp", ".png")
SMALLEST_WIDTH, CAPTION_HEIGHT = 320, 44
COLOURS = np.array(
    [
        (31, 119, 180),
        (255, 127, 14),
        (44, 160, 44),
        (214, 39, 40),
        (148, 103, 189),
        (140, 86, 75),
        (227, 119, 194),
        (127, 127, 127),
        (188, 189, 34),
        (23, 190, 207),
    ],
    np.uint8,
)
"""One per plane; further planes start again with the first."""


class Scene(NamedTuple):
    """One step of a video."""

    picture: np.ndarray  # [H, W, 3] uint8
    caption: str  # up to two lines


def film(run: Run, path: str, seed: int) -> int:
    """Play one episode and write it to `path`; returns the number of steps."""
    env = _filmed_env(run)
    try:
        return write_video(path, islice(_scenes(run, env, seed), LONGEST))
    finally:
        env.close()


def _filmed_env(run: Run) -> PlayerEnv:
    """The run's environment; a Gymnasium environment renders itself if it can."""
    options = tuple(run.config.env_options)
    if isinstance(plain := make_env(run.config.env, options), GymVector) and not is_jax(plain):
        plain.close()
        try:
            return make_player_env(run.config.env, (*options, "render_mode=rgb_array"))
        except UserError:
            pass  # it has no such option
    return make_player_env(run.config.env, options)


def _scenes(run: Run, env: PlayerEnv, seed: int) -> Iterator[Scene]:
    score = 0.0
    for number, tick in enumerate(play(run, env, seed, run.config.eval_epsilon)):
        image = env.render() if hasattr(env, "render") else None
        if image is None:
            image = picture(tick.step.observation[0], env.info.observation_kind)
        score += float(tick.step.reward[0])
        yield Scene(image, _caption(run, tick, number + 1, score))
        if tick.step.terminated[0] or tick.step.truncated[0]:
            return


def _caption(run: Run, tick: Tick, number: int, score: float) -> str:
    action = int(tick.action[0])
    length = len(run.actions.sequence(action))
    part = f" ({int(tick.position[0]) + 1} of {length})" if length > 1 else ""
    return f"{run.actions.names[action]}{part}\nstep {number}   return {score:g}"


def picture(observation: np.ndarray, kind: ObservationKind) -> np.ndarray:
    """An observation as an image [H, W, 3] of uint8, for environments that do not render themselves."""
    draw = {"image": _image, "planes": _planes, "minigrid": _cells, "minigrid-mission": _cells, "vector": _bars}[kind]
    return draw(observation)


def _image(observation: np.ndarray) -> np.ndarray:
    """The newest frame; three channels are colours, other numbers are stacked grey frames."""
    return observation if observation.shape[-1] == 3 else np.repeat(observation[..., -1:], 3, axis=-1)


def _planes(observation: np.ndarray) -> np.ndarray:
    """Every plane in its colour; later planes cover earlier ones."""
    image = np.full((*observation.shape[:2], 3), 20, np.uint8)
    for plane in range(observation.shape[-1]):
        image[observation[..., plane] > 0] = COLOURS[plane % len(COLOURS)]
    return image


def _cells(observation: np.ndarray) -> np.ndarray:
    """MiniGrid's own rendering of the agent's view: the agent stands at the bottom and looks up."""
    from minigrid.core.grid import Grid

    cells, visible = Grid.decode(observation[..., :3])
    width, height = observation.shape[:2]
    return cells.render(24, (width // 2, height - 1), 3, visible)


def _bars(observation: np.ndarray, height: int = 64, width: int = 8) -> np.ndarray:
    """One bar per number, upwards if positive; the longest fills half the height."""
    values = np.nan_to_num(np.ravel(observation).astype(float))
    lengths = np.round(values / max(np.abs(values).max(), 1e-9) * (height // 2 - 1)).astype(int)
    image = np.full((height, len(values) * width, 3), 20, np.uint8)
    middle = height // 2
    for i, length in enumerate(lengths):
        low, high = sorted((middle - length, middle))
        image[low : high + 1, i * width : (i + 1) * width - 1] = COLOURS[i % len(COLOURS)]
    return image


def require_format(path: str | Path) -> None:
    """Raise unless videos with this suffix can be written."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mp4":
        if ffmpeg() is None:
            raise UserError(f"{path}: mp4 needs ffmpeg: pip install 'masp-rl[video]'; without it use .gif or .webp")
    elif suffix not in PILLOW_SUFFIXES:
        raise UserError(f"{path}: a video is .gif, .webp, .png (animated) or .mp4")


def write_video(path: str | Path, scenes: Iterable[Scene], scenes_per_second: float = 10.0) -> int:
    """Write the video atomically; returns the number of scenes."""
    require_format(path)
    images = [_frame(scene) for scene in scenes]
    suffix = Path(path).suffix.lower()
    if suffix == ".mp4":
        content = _mp4(images, scenes_per_second, str(path))
        with whole_file(path) as file:
            file.write(content)
    else:
        duration = round(1000 / scenes_per_second)
        kind = Image.registered_extensions()[suffix]
        with whole_file(path) as file:
            images[0].save(file, kind, save_all=True, append_images=images[1:], duration=duration, loop=0)
    return len(images)


def _frame(scene: Scene) -> Image.Image:
    """The picture, enlarged by an integer factor if it is small, above its caption."""
    image = Image.fromarray(np.ascontiguousarray(scene.picture, np.uint8))
    factor = -(-SMALLEST_WIDTH // image.width)
    image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    # mp4 needs even sides
    canvas = Image.new("RGB", (image.width + image.width % 2, image.height + image.height % 2 + CAPTION_HEIGHT))
    canvas.paste(image)
    font = ImageFont.load_default(size=15)
    ImageDraw.Draw(canvas).multiline_text((6, image.height + 3), scene.caption, fill="white", font=font)
    return canvas


def ffmpeg() -> str | None:
    """The program ffmpeg: of the system, else of the package imageio-ffmpeg; None: there is none."""
    if (program := shutil.which("ffmpeg")) is not None:
        return program
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


def _mp4(images: list[Image.Image], scenes_per_second: float, name: str) -> bytes:
    size = f"{images[0].width}x{images[0].height}"
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(scenes_per_second), "-i", "-"]
    with tempfile.TemporaryDirectory() as folder:  # ffmpeg goes back in the file that it writes
        video = Path(folder) / "video.mp4"
        command = [ffmpeg() or "ffmpeg", "-loglevel", "error", "-y", *raw, "-pix_fmt", "yuv420p", str(video)]
        process = subprocess.run(
            command, input=b"".join(image.tobytes() for image in images), capture_output=True, check=False
        )
        if process.returncode:
            raise UserError(f"ffmpeg could not write {name}: {process.stderr.decode(errors='replace').strip()[-200:]}")
        return video.read_bytes()


class Videos(Callback):
    """Films one episode at an evaluation, in `videos/FRAMES.gif` of each run directory.

    The episode is played in an environment of its own, with the same seed every time, so that videos can be compared
    and training is not disturbed. An example is examples/tracking.py.

    Examples:
      >>> Videos(every=5, suffix=".webp")
      Videos(every=5, suffix='.webp')
    """

    def __init__(self, every: int = 1, suffix: str = ".gif", seed: int = 0):
        """`every`: evaluations per video; `suffix`: .gif, .webp, .png (animated) or .mp4 (needs ffmpeg)."""
        require_format(f"videos/episode{suffix}")
        if every < 1:
            raise UserError(f"every must be at least 1, got {every}")
        self.every, self.suffix, self.seed = every, suffix, seed
        self._evaluations: dict[Path, int] = {}

    def __repr__(self) -> str:
        return f"Videos(every={self.every}, suffix={self.suffix!r})"

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> None:
        number = self._evaluations[run.path] = self._evaluations.get(run.path, 0) + 1
        if (number - 1) % self.every:
            return
        policy = run.policy()
        filmed = Run(run.path, run.config, run.actions, [], policy["params"], policy["similarity"], run.info)
        folder = run.path / "videos"
        folder.mkdir(exist_ok=True)
        film(filmed, str(folder / f"{row['frames']}{self.suffix}"), self.seed)
