"""Measures of a run against the relevant tickets, with intervals.

Promises the definitions of trec_eval (by pytrec_eval), one value per query, so
that runs can be compared query by query; a query for which nothing relevant was
found counts 0.
Must never happen: a mean over only the queries that found something.

MRR: 1 / place of the first relevant ticket. R@k: share of a query's relevant
tickets among the first k. hit@k: 1 when at least one is. NDCG@k: gain 1 for a
relevant ticket, discounted by log2(place + 1), over the best that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytrec_eval
from numpy.typing import NDArray

from .golden import Query
from .runs import Run

Values = NDArray[np.float64]

METRICS = {
    "MRR": "recip_rank",
    "R@1": "recall_1",
    "R@3": "recall_3",
    "R@10": "recall_10",
    "R@100": "recall_100",
    "NDCG@1": "ndcg_cut_1",
    "NDCG@3": "ndcg_cut_3",
    "hit@1": "success_1",
    "hit@10": "success_10",
}
RESAMPLES = 10_000
SEED = 20_240_501


def measure(queries: Sequence[Query], run: Run) -> Values:
    """One row a query, one column a metric (in the order of METRICS), each 0 to 1."""
    qrels = {query.id: dict.fromkeys(query.relevant, 1) for query in queries}
    # trec_eval orders by score, so each place gets one.
    scores = {
        query.id: {key: float(-place) for place, key in enumerate(run.ranked[query.id])}
        for query in queries
    }
    found = pytrec_eval.RelevanceEvaluator(qrels, set(METRICS.values())).evaluate(scores)
    return np.array([[found[q.id][name] for name in METRICS.values()] for q in queries])


def interval(values: Values) -> tuple[Values, Values]:
    """Ends of the 95 % bootstrap interval of each column's mean (percentiles, seeded).

    ``values`` has one row a query (or a query's difference between two runs).
    """
    n = len(values)
    draws = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    means = draws @ values / n
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return low, high
