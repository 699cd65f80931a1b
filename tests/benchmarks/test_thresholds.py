"""Where the two cosines of a model should lie: SUPPORTKG_CORPUS=DIR make bench.

Prints, for a row of thresholds, what a proposed link and a refused question
would be worth on the benchmark. The tables in docs/evaluation.md come from here.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from retrieval import query, ranking
from retrieval.evaluation import golden, runs
from supportkg.lib import embeddings
from tests.benchmarks.conftest import SOURCE
from tests.benchmarks.measuring import say
from tickets.models import Chunk, Link

OFF_TOPIC = Path(__file__).with_name("offtopic.txt").read_text(encoding="utf-8").splitlines()
SAME = ("DUPLICATE_OF", "CLONE_OF", "RELATES_TO")
_CODE = re.compile(r"[A-Z][A-Z0-9_]+-\d+")


@pytest.mark.django_db
def test_close_titles_are_linked_more_often(corpus: Path) -> None:
    """implicit_link_min_cosine: of the pairs of titles above it, how many people linked."""
    model = embeddings.get_model()
    chunks = Chunk.objects.filter(kind="summary", ordinal=0, ticket__source=SOURCE)
    titles = list(chunks.filter(model=model.name).values_list("ticket_id", "text", "vector"))
    places = {ticket_id: place for place, (ticket_id, *_) in enumerate(titles)}
    links = Link.objects.filter(
        source=SOURCE, type__in=SAME, origin=Link.Origin.TRACKER, other__isnull=False
    )
    linked = {
        (min(ends), max(ends))
        for pair in links.values_list("ticket_id", "other_id")
        if len(ends := {places[i] for i in pair if i in places}) == 2
    }
    pairs, scores = _close_pairs(np.array([vector for *_, vector in titles]))
    is_linked = np.array([pair in linked for pair in pairs])
    codes = [match.group() if (match := _CODE.search(text)) else "" for _, text, _ in titles]
    # As in tickets.linking: titles that name different keys or codes only share a form.
    forms = np.array([bool(codes[a] and codes[b] and codes[a] != codes[b]) for a, b in pairs])
    say(f"{len(titles)} titles; {len(linked)} linked pairs ({', '.join(SAME)})")
    shares = []
    for threshold in (0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        above = (scores >= threshold) & ~forms
        left_out = (scores >= threshold) & forms
        found = is_linked[above].sum()
        shares.append(found / above.sum())
        say(
            f"cosine >= {threshold:.2f}: {above.sum()} pairs, {found} of them linked "
            f"({shares[-1]:.3f}), {found / len(linked):.3f} of all linked; left out as forms: "
            f"{left_out.sum()}, {is_linked[left_out].sum()} of them linked"
        )
    assert shares[-1] > 2 * shares[0]


@pytest.mark.django_db
def test_off_topic_questions_are_farther_than_real_ones(corpus: Path) -> None:
    """decline_below_cosine: how many real and how many off-topic questions are refused."""
    loaded = golden.load(corpus / "queries.jsonl", corpus / "qrels.jsonl")
    within = runs.corpus(SOURCE, golden.ids(corpus / "tickets.jsonl"))

    def closeness(questions: list[str]) -> NDArray[np.float64]:
        ranked = (ranking.rank(query.analyze(text), within.projects).tickets for text in questions)
        return np.array([max(ticket.closeness for ticket in tickets) for tickets in ranked])

    whole = closeness([q.text for q in loaded.queries])
    title = closeness([q.text.partition("\n")[0] for q in loaded.queries])
    off = closeness(OFF_TOPIC)
    for threshold in np.arange(0.26, 0.53, 0.02):
        say(
            f"below {threshold:.2f}: {(whole < threshold).sum()} of {len(whole)} whole reports "
            f"and {(title < threshold).sum()} of {len(title)} titles refused; answered off topic: "
            f"{(off[::2] >= threshold).sum()} of {len(off[::2])} to choose by, "
            f"{(off[1::2] >= threshold).sum()} of {len(off[1::2])} to report"
        )
    chosen = embeddings.get_model().decline_below_cosine
    assert (whole < chosen).mean() < 0.02
    assert (off[1::2] >= chosen).mean() < 0.1


def _close_pairs(
    vectors: NDArray[np.float32],
) -> tuple[list[tuple[int, int]], NDArray[np.float64]]:
    """Pairs of places with a cosine of at least 0.7, the smaller place first, and the cosines."""
    pairs: list[tuple[int, int]] = []
    scores = []
    for start in range(0, len(vectors), 500):
        cosines = vectors[start : start + 500] @ vectors.T
        rows, columns = np.nonzero(cosines >= 0.7)
        keep = rows + start < columns
        pairs += zip((rows[keep] + start).tolist(), columns[keep].tolist(), strict=True)
        scores.append(cosines[rows[keep], columns[keep]])
    return pairs, np.concatenate(scores).astype(float)
