"""Colours that can be told from the page, in light and in dark."""

from __future__ import annotations

PAPER, NIGHT = "#ffffff", "#17191d"
"""Backgrounds of charts, as in page.css."""
CONTRAST = 3.0
"""Least contrast of a line with the background (WCAG 1.4.11)."""


def shades(colour: str) -> list[str]:
    """The colour for the light and for the dark page: mixed with black or white as far as needed."""
    return [_against(colour, PAPER, 0), _against(colour, NIGHT, 255)]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, between 1 and 21."""
    low, high = sorted((_luminance(_channels(one)), _luminance(_channels(other))))
    return (high + 0.05) / (low + 0.05)


def _against(colour: str, background: str, target: int) -> str:
    mixed = colour
    for percent in range(0, 100, 4):
        channels = [round(c + (target - c) * percent / 100) for c in _channels(colour)]
        mixed = "#" + "".join(f"{c:02x}" for c in channels)
        if contrast(mixed, background) >= CONTRAST:
            break
    return mixed


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(channels: tuple[int, int, int]) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
