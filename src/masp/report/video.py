"""A played episode as a moving picture, with the macro that is being played written under it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from masp.errors import UserError

BY_PILLOW = (".gif", ".webp", ".png")
SMALLEST_WIDTH, CAPTION_HEIGHT = 320, 44


class Scene(NamedTuple):
    """One step."""

    picture: np.ndarray  # [H, W, 3] uint8
    caption: str  # up to two lines


def require_format(path: str | Path) -> None:
    """Raise unless a video can be written under this name."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mp4":
        if shutil.which("ffmpeg") is None:
            raise UserError(f"{path}: mp4 needs the program ffmpeg; without it use .gif or .webp")
    elif suffix not in BY_PILLOW:
        raise UserError(f"{path}: a video is .gif, .webp, .png (animated) or .mp4")


def write_video(path: str | Path, scenes: Iterable[Scene], scenes_per_second: float = 10.0) -> int:
    """Write it, whole or not at all; returns how many scenes there were."""
    require_format(path)
    images = [_drawn(scene) for scene in scenes]
    partial = Path(path).with_name("partial-" + Path(path).name)
    if Path(path).suffix.lower() == ".mp4":
        _write_mp4(partial, images, scenes_per_second)
    else:
        duration = round(1000 / scenes_per_second)
        images[0].save(partial, save_all=True, append_images=images[1:], duration=duration, loop=0)
    partial.replace(path)
    return len(images)


def _drawn(scene: Scene) -> Image.Image:
    """The picture, enlarged by a whole number where it is small, over its caption."""
    image = Image.fromarray(np.ascontiguousarray(scene.picture, np.uint8))
    times = -(-SMALLEST_WIDTH // image.width)
    image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    # mp4 wants even sides
    canvas = Image.new("RGB", (image.width + image.width % 2, image.height + image.height % 2 + CAPTION_HEIGHT))
    canvas.paste(image)
    font = ImageFont.load_default(size=15)
    ImageDraw.Draw(canvas).multiline_text((6, image.height + 3), scene.caption, fill="white", font=font)
    return canvas


def _write_mp4(path: Path, images: list[Image.Image], scenes_per_second: float) -> None:
    size = f"{images[0].width}x{images[0].height}"
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(scenes_per_second), "-i", "-"]
    command = ["ffmpeg", "-loglevel", "error", "-y", *raw, "-pix_fmt", "yuv420p", str(path)]
    done = subprocess.run(
        command, input=b"".join(image.tobytes() for image in images), capture_output=True, check=False
    )
    if done.returncode:
        raise UserError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()[-200:]}")
