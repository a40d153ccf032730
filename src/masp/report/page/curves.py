"""Curves for the page: mean and band over the seeds of a group, with fewer points but all peaks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_POINTS = 400
"""Points of a line on the page; a chart is rarely wider in pixels."""
ENOUGH_SEEDS = 5
"""From here on a bootstrap interval means something; below, the band is the range of the seeds."""
SAMPLES = 1000
"""Resamples of the bootstrap."""
Curve = tuple[np.ndarray, np.ndarray]
"""Frames [P] and values [P]."""


def peaks(curves: Sequence[np.ndarray], most: int = MOST_POINTS) -> np.ndarray:
    """Indices, at most about `most`, that keep the first and last point and every bucket's extremes of all curves [P].

    Extremes of a bucket stay, so no peak vanishes; between them, points of a chart this dense fall on one pixel.
    """
    count = len(curves[0])
    if count <= most:
        return np.arange(count)
    buckets = max((most - 2) // (2 * len(curves)), 1)
    edges = np.linspace(0, count, buckets + 1).astype(int)
    kept = {0, count - 1}
    for low, high in itertools.pairwise(edges):
        for curve in curves:
            part = curve[low:high]
            if part.size and not np.isnan(part).all():
                kept |= {low + int(np.nanargmin(part)), low + int(np.nanargmax(part))}
    return np.array(sorted(kept))


def line(curve: Curve, most: int = MOST_POINTS) -> dict[str, Any] | None:
    """One run's curve as x and y; None: it has no points."""
    frames, values = curve
    if not len(frames):
        return None
    kept = peaks([values], most)
    return {"x": rounded(frames[kept]), "y": rounded(values[kept])}


def band(curves: Sequence[Curve], most: int = MOST_POINTS) -> dict[str, Any] | None:
    """Mean over runs with a band; `n` is the number of runs at each point. None: no run has any points.

    Runs whose frames differ are interpolated, each within its own range.
    """
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return None
    frames, values = _aligned(curves)  # [P], [runs, P]
    mean = np.nanmean(values, axis=0)
    if len(curves) == 1:
        kept = peaks([mean], most)
        return {"x": rounded(frames[kept]), "y": rounded(mean[kept]), "n": 1}
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    kept = peaks([mean, low, high], most)
    if len(curves) >= ENOUGH_SEEDS:
        low, high = _interval(values[:, kept])
    else:
        low, high = low[kept], high[kept]
    counts = (~np.isnan(values[:, kept])).sum(axis=0)
    edges = {"low": rounded(low), "high": rounded(high)}
    n = int(counts[0]) if len(np.unique(counts)) == 1 else counts.tolist()
    return {"x": rounded(frames[kept]), "y": rounded(mean[kept]), **edges, "n": n}


def _aligned(curves: Sequence[Curve]) -> Curve:
    """Common frames [P] and values [runs, P], NaN outside the range of a run."""
    longest = max((frames for frames, _ in curves), key=len)
    spacing = np.median(np.diff(longest)) if len(longest) > 1 else 1.0
    values = np.full((len(curves), len(longest)), np.nan)
    for row, (frames, own) in zip(values, curves, strict=True):
        if np.abs(frames - longest[: len(frames)]).max() > spacing / 2:
            return _interpolated(curves)
        row[: len(own)] = own  # rows of the same number of frames, but for a few ticks
    return longest, values


def _interpolated(curves: Sequence[Curve]) -> Curve:
    grid = np.unique(np.concatenate([frames for frames, _ in curves]))
    return grid, np.array([np.interp(grid, *curve, left=np.nan, right=np.nan) for curve in curves])


def _interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % bootstrap interval of the mean over runs of [runs, P]; missing runs are left out of a mean."""
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    runs = len(values)
    weights = np.random.default_rng(0).multinomial(runs, np.full(runs, 1 / runs), SAMPLES).astype(float)
    totals, counts = weights @ filled, weights @ present
    means = np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)
    low, high = np.nanpercentile(means, [2.5, 97.5], axis=0)
    return low, high


def rounded(values: np.ndarray, digits: int = 5) -> list[Any]:
    """Numbers as JSON values with so many significant digits; NaN is null."""
    array = np.asarray(values, float)
    exponents = np.floor(np.log10(np.abs(np.where((array == 0) | ~np.isfinite(array), 1.0, array))))
    factor = 10.0 ** (digits - 1 - exponents)
    short = np.where(np.abs(array) >= 10 ** (digits - 1), np.round(array), np.round(array * factor) / factor)
    return [None if not np.isfinite(v) else int(v) if v == int(v) else float(f"{v:.10g}") for v in short.tolist()]
