"""The measures against values worked out by hand, the intervals, and the golden files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval.evaluation import golden, report
from retrieval.evaluation.golden import GoldenError, Query
from retrieval.evaluation.relevance import METRICS, interval, measure
from retrieval.evaluation.runs import Run

# By hand, gain 1, discount log2(place + 1):
# - two of two found at places 2 and 3: MRR 1/2; NDCG@3 = (1/log2(3) + 1/log2(4)) over the
#   best possible (1/log2(2) + 1/log2(3)) = (0.63093 + 0.5) / 1.63093 = 0.69343;
# - one of one at place 1: everything 1;
# - two relevant, one of them at place 1, the other not found: R is 1/2 from place 1 on,
#   NDCG@1 = 1, NDCG@3 = 1 / 1.63093 = 0.61315;
# - one of one at place 4: MRR 1/4, in R@10 and hit@10 only;
# - one of one at place 11: MRR 1/11, in R@100 only.
CASES: dict[str, tuple[set[str], str, list[float]]] = {
    "places 2 and 3": ({"a", "b"}, "x a b", [1 / 2, 0, 1, 1, 1, 0, 0.69343, 0, 1]),
    "place 1": ({"a"}, "a x y", [1, 1, 1, 1, 1, 1, 1, 1, 1]),
    "one of two": ({"a", "b"}, "a x y z", [1, 0.5, 0.5, 0.5, 0.5, 1, 0.61315, 1, 1]),
    "place 4": ({"a"}, "x y z a", [1 / 4, 0, 0, 1, 1, 0, 0, 0, 1]),
    "place 11": ({"a"}, "b c d e f g h i j k a", [1 / 11, 0, 0, 0, 1, 0, 0, 0, 0]),
    "not found": ({"a"}, "x y z", [0] * 9),
    "nothing ranked": ({"a"}, "", [0] * 9),
}


def test_measure_values_by_hand() -> None:
    queries = [Query(name, "text", frozenset(case[0])) for name, case in CASES.items()]
    run = Run("run", {name: case[1].split() for name, case in CASES.items()})
    expected = np.array([case[2] for case in CASES.values()])
    assert list(METRICS) == [
        "MRR", "R@1", "R@3", "R@10", "R@100", "NDCG@1", "NDCG@3", "hit@1", "hit@10",
    ]  # fmt: skip
    np.testing.assert_allclose(measure(queries, run), expected, atol=5e-6)


def test_interval_of_coin_is_as_wide_as_theory() -> None:
    # Standard error of the mean of 400 fair coins: sqrt(0.25 / 400) = 0.025; 1.96 of them.
    low, high = interval(np.array([[0.0], [1.0]] * 200))
    assert low[0] == pytest.approx(0.5 - 0.049, abs=0.004)
    assert high[0] == pytest.approx(0.5 + 0.049, abs=0.004)


def test_interval_same_values_same_ends() -> None:
    values = np.random.default_rng(5).random((50, 3))
    assert np.array_equal(interval(values), interval(values))


def test_interval_pairs_the_columns_of_a_query() -> None:
    # Both columns vary, their difference does not: every resample must draw whole queries.
    first = np.random.default_rng(5).random(80)
    low, high = interval(np.column_stack([first, first + 0.1]))
    np.testing.assert_allclose(low[1] - low[0], 0.1)
    np.testing.assert_allclose(high[1] - high[0], 0.1)


def test_compare_reports_n_and_paired_difference() -> None:
    queries = [Query("q1", "t", frozenset("a")), Query("q2", "t", frozenset("b"))]
    worse = Run("baseline", {"q1": ["x", "a"], "q2": ["x", "b"]})
    better = Run("graph", {"q1": ["a"], "q2": ["b"]})
    comparison = report.compare("all queries", queries, [worse, better])
    assert comparison.n == 2
    assert comparison.runs["baseline"]["MRR"] == report.Figure(0.5, 0.5, 0.5)
    assert comparison.runs["graph"]["MRR"] == report.Figure(1.0, 1.0, 1.0)
    assert comparison.differences["graph − baseline"]["MRR"] == report.Figure(0.5, 0.5, 0.5)
    assert str(comparison.differences["graph − baseline"]["R@10"]) == "0.000 [0.000, 0.000]"


def test_comparisons_leave_near_copies_out_the_second_time() -> None:
    queries = [
        Query("q1", "t", frozenset("a"), near_copy=True),
        Query("q2", "t", frozenset("b")),
    ]
    run = Run("graph", {"q1": ["a"], "q2": ["x", "b"]})
    everything, far = report.comparisons(queries, [run])
    assert (everything.n, everything.runs["graph"]["MRR"].mean) == (2, 0.75)
    assert (far.n, far.runs["graph"]["MRR"].mean) == (1, 0.5)


def test_comparisons_without_near_copies_is_one() -> None:
    queries = [Query("q1", "t", frozenset("a"))]
    assert len(report.comparisons(queries, [Run("graph", {"q1": ["a"]})])) == 1


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    def files(queries: Any, qrels: Any) -> tuple[Path, Path]:
        paths = tmp_path / "queries.jsonl", tmp_path / "qrels.jsonl"
        for path, content in zip(paths, (queries, qrels), strict=True):
            lines = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
            path.write_text(lines, encoding="utf-8")
        return paths

    return files


QUERIES = [{"query_id": f"q{i}", "text": f"text {i}"} for i in range(1, 6)]
QRELS = [{"query_id": f"q{i}", "relevant": [f"t{i}"]} for i in range(1, 6)]


def test_load_whole_files(write: Callable[..., tuple[Path, Path]]) -> None:
    qrels = [{**QRELS[0], "near_copy": True, "relevant": ["t1", "t9"]}, *QRELS[1:]]
    loaded = golden.load(*write(QUERIES, qrels))
    assert [query.id for query in loaded.queries] == ["q1", "q2", "q3", "q4", "q5"]
    assert loaded.queries[0] == Query("q1", "text 1", frozenset({"t1", "t9"}), True, "", 1)
    assert not loaded.queries[1].near_copy


def test_part_splits_the_queries_by_date(
    write: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    dates = ["2013-05-01", "2012-01-01", "2013-06-01", "2012-02-01", "2011-12-01"]
    tickets = [
        {"id": q["query_id"], "created": date} for q, date in zip(QUERIES, dates, strict=True)
    ]
    (tmp_path / "query_tickets.jsonl").write_text("\n".join(map(json.dumps, tickets)))
    loaded = golden.load(*write(QUERIES, QRELS))
    assert [query.id for query in loaded.part("dev")] == ["q5", "q2"]
    assert [query.id for query in loaded.part("test")] == ["q4", "q1", "q3"]
    assert loaded.part("all") == loaded.part("dev") + loaded.part("test")


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        ("", QRELS, "queries.jsonl: the file is empty."),
        ("\n \n", QRELS, "queries.jsonl: the file is empty."),
        (QUERIES, "", "qrels.jsonl: the file is empty."),
        ('{"query_id": "q1", "text": "t"}\n{"query_id"', QRELS, "queries.jsonl line 2: not JSON"),
        (["q1"], QRELS, "queries.jsonl line 1: not a JSON object."),
        ([{"query_id": "q1", "text": " "}], QRELS, "queries.jsonl line 1: 'text' must be a text"),
        ([{"text": "t"}], QRELS, "queries.jsonl line 1: 'query_id' must be a text"),
        ([*QUERIES, QUERIES[1]], QRELS, "queries.jsonl line 6: q2 came before."),
        (QUERIES, [*QRELS, QRELS[1]], "qrels.jsonl line 6: q2 came before."),
        (QUERIES[:4], QRELS, "qrels.jsonl line 5: no query q5 in queries.jsonl."),
        (QUERIES, QRELS[:4], "qrels.jsonl: no line for the query q5 of queries.jsonl."),
        (QUERIES, [{"query_id": "q1", "relevant": []}], "qrels.jsonl line 1: 'relevant' must be"),
        (QUERIES, [{"query_id": "q1", "relevant": "t1"}], "qrels.jsonl line 1: 'relevant' must"),
    ],
)
def test_load_faulty_files_names_file_and_line(
    write: Callable[..., tuple[Path, Path]], queries: object, qrels: object, message: str
) -> None:
    with pytest.raises(GoldenError) as caught:
        golden.load(*write(queries, qrels))
    assert str(caught.value).startswith(message)


def test_load_missing_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"nowhere\.jsonl: no such file\.$"):
        golden.load(tmp_path / "nowhere.jsonl", tmp_path / "qrels.jsonl")


def test_load_not_text_names_file(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(GoldenError, match=r"queries\.jsonl: cannot be read"):
        golden.load(tmp_path / "queries.jsonl", tmp_path / "qrels.jsonl")


def test_check_unknown_ticket_names_its_line(write: Callable[..., tuple[Path, Path]]) -> None:
    loaded = golden.load(*write(QUERIES, QRELS))
    loaded.check({"t1", "t2", "t3", "t4", "t5", "t6"})
    with pytest.raises(GoldenError) as caught:
        loaded.check({"t1", "t2", "t3", "t5"})
    assert str(caught.value) == "qrels.jsonl line 4: q4 names t4, which is not in the corpus."


def test_ids_of_tickets(tmp_path: Path) -> None:
    path = tmp_path / "tickets.jsonl"
    path.write_text('{"id": "t1"}\n\n{"id": "t2"}\n{"id": 3}\n')
    with pytest.raises(GoldenError, match=r"tickets\.jsonl line 4: 'id' must be a text"):
        golden.ids(path)
    path.write_text('{"id": "t1"}\n\n{"id": "t2"}\n')
    assert golden.ids(path) == ["t1", "t2"]
