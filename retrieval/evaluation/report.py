"""What an evaluation says: figures with n and intervals, as tables and as JSON.

Promises that every figure is printed beside its number of queries and its
interval, that modes are compared query by query, and that the JSON holds what
is needed to repeat the run.
Must never happen: a figure over fewer queries than it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.utils import timezone
from rich.box import SIMPLE
from rich.table import Table

from tickets.index import INDEX_VERSION
from tickets.parsing import PARSER_VERSION

from .golden import Query
from .relevance import METRICS, RESAMPLES, SEED, Values, interval, measure
from .runs import DEPTH, MODES, Corpus, Run

LIBRARIES = ("pytrec-eval-terrier", "numpy", "onnxruntime", "graphglot")


@dataclass(frozen=True)
class Figure:
    """A mean over queries with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


Figures = dict[str, Figure]  # by metric


@dataclass(frozen=True)
class Comparison:
    """Runs over the same ``n`` queries, and what each but the first differs by from it."""

    title: str
    n: int
    runs: dict[str, Figures]
    differences: dict[str, Figures]


def compare(title: str, queries: Sequence[Query], runs: Sequence[Run]) -> Comparison:
    """All metrics of each run, and the paired differences to the first one."""
    values = {run.name: measure(queries, run) for run in runs}
    first, *others = values
    return Comparison(
        title,
        len(queries),
        {name: _figures(own) for name, own in values.items()},
        {f"{name} − {first}": _figures(values[name] - values[first]) for name in others},
    )


def comparisons(queries: Sequence[Query], runs: Sequence[Run]) -> list[Comparison]:
    """Over all queries, and again without the near copies when there are some."""
    far = [query for query in queries if not query.near_copy]
    found = [compare("all queries", queries, runs)]
    if 0 < len(far) < len(queries):
        found.append(compare("without near copies", far, runs))
    return found


def table(comparison: Comparison) -> Table:
    """One row a metric, one column a run or difference."""
    columns = comparison.runs | comparison.differences
    result = Table(title=f"{comparison.title} (n = {comparison.n})", box=SIMPLE)
    result.add_column("")
    for name in columns:
        result.add_column(name, no_wrap=True)
    for metric in METRICS:
        result.add_row(metric, *(str(figures[metric]) for figures in columns.values()))
    return result


def ablation_table(comparison: Comparison) -> Table:
    """One row a run: what is lost or won against the first one."""
    result = Table(title=f"parts of graph mode (n = {comparison.n})", box=SIMPLE)
    for heading in ("", "MRR", "R@10", "MRR − all parts"):
        result.add_column(heading, no_wrap=True)
    first, *_ = comparison.runs
    for name, figures in comparison.runs.items():
        difference = comparison.differences.get(f"{name} − {first}")
        against = str(difference["MRR"]) if difference else ""
        result.add_row(name, str(figures["MRR"]), str(figures["R@10"]), against)
    return result


def seconds_table(runs: Iterable[Run]) -> Table:
    """Seconds a query by run: mean and 95th percentile."""
    result = Table(title="seconds per query", box=SIMPLE)
    for heading in ("", "mean", "p95"):
        result.add_column(heading)
    for run in runs:
        mean, p95 = _seconds(run)
        result.add_row(run.name, f"{mean:.3f}", f"{p95:.3f}")
    return result


def to_json(
    files: Sequence[Path],
    asked: dict[str, Any],
    within: Corpus,
    queries: Sequence[Query],
    runs: Sequence[Run],
    compared: Sequence[Comparison],
    ablation: Comparison | None,
) -> dict[str, Any]:
    """Settings (``asked`` among them), figures, and for every query the places of its
    relevant tickets."""
    return {
        "created": timezone.now().isoformat(timespec="seconds"),
        "settings": {
            "supportkg": settings.VERSION,
            "parser": PARSER_VERSION,
            "index": INDEX_VERSION,
            "embedding_model": settings.EMBEDDING_MODEL,
            "libraries": {name: version(name) for name in LIBRARIES},
            "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
            **asked,
            "depth": DEPTH,
            "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
            "modes": {run.name: asdict(MODES[run.name]) for run in runs},
        },
        "tickets": len(within.keys),
        "foreign_tickets": within.foreign,
        "seconds": {
            run.name: dict(zip(("mean", "p95"), _seconds(run), strict=True)) for run in runs
        },
        "comparisons": [asdict(comparison) for comparison in compared],
        "ablation": asdict(ablation) if ablation else None,
        "queries": [
            {
                "id": query.id,
                "near_copy": query.near_copy,
                "relevant": sorted(query.relevant),
                "places": {run.name: _places(query, run) for run in runs},
            }
            for query in queries
        ],
    }


def _figures(values: Values) -> Figures:
    rows = zip(values.mean(axis=0), *interval(values), strict=True)
    return {
        metric: Figure(*(round(float(v), 6) for v in row))
        for metric, row in zip(METRICS, rows, strict=True)
    }


def _places(query: Query, run: Run) -> list[int]:
    """Places of the relevant tickets that were found, from 1."""
    return [i for i, key in enumerate(run.ranked[query.id], start=1) if key in query.relevant]


def _seconds(run: Run) -> tuple[float, float]:
    return float(np.mean(run.seconds)), float(np.percentile(run.seconds, 95))
