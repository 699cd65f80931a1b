"""Prints a measured quantity with its number of values and the interval of its mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from retrieval.evaluation.relevance import interval


def say(line: str) -> None:
    """Print a line of the benchmark's report."""
    print(f"\n{line}")  # noqa: T201


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def tell(what: str, values: Sequence[float], unit: str) -> float:
    """Print mean, 95 % interval, 95th percentile and n; returns the mean."""
    column = np.asarray(values, dtype=float)[:, None]
    (low,), (high,) = interval(column)
    mean = float(column.mean())
    say(
        f"{what}: {mean:.4g} {unit} [{low:.4g}, {high:.4g}], "
        f"p95 {np.percentile(column, 95):.4g}, n = {len(column)}"
    )
    return mean
