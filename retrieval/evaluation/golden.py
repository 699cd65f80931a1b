"""Questions whose right tickets are known: queries.jsonl and qrels.jsonl.

Promises that what is loaded is whole: every query has at least one relevant
ticket, every relevance line has its query, and every relevant ticket is in the
corpus. Anything else is an error that names file and line.
Must never happen: a query that is silently left out of a figure.

A query line holds ``query_id`` and ``text``, and may hold ``created``; a
relevance line holds ``query_id``, ``relevant`` (ids of tickets) and may hold
``near_copy`` (the query repeats the words of a relevant ticket: an easy one).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Part = Literal["all", "dev", "test"]


class GoldenError(ValueError):
    """A file of the benchmark cannot be used; the message names file and line."""


@dataclass(frozen=True)
class Query:
    """A question and the ids of the tickets that are right. ``line`` is in the qrels file."""

    id: str
    text: str
    relevant: frozenset[str]
    near_copy: bool = False
    created: str = ""
    line: int = 0


@dataclass(frozen=True)
class Golden:
    """All queries of a benchmark, oldest first where the files date them."""

    qrels: Path
    queries: tuple[Query, ...]

    def part(self, name: Part) -> tuple[Query, ...]:
        """ "dev" is the earlier half, to tune on; "test" the later one, to report on."""
        half = len(self.queries) // 2
        return {"all": self.queries, "dev": self.queries[:half], "test": self.queries[half:]}[name]

    def check(self, corpus: Collection[str]) -> None:
        """Raises GoldenError for the first relevant ticket that is not among ``corpus``."""
        for query in sorted(self.queries, key=lambda q: q.line):
            if missing := sorted(query.relevant - set(corpus)):
                raise GoldenError(
                    f"{self.qrels.name} line {query.line}: {query.id} names {missing[0]}, "
                    "which is not in the corpus."
                )


def load(queries: Path, qrels: Path) -> Golden:
    """Read both files. Raises GoldenError.

    Queries are put in order of ``created``; where that is missing their order
    in the file counts. A file query_tickets.jsonl beside the queries may hold
    the dates (keys ``id`` and ``created``).
    """
    dates = _dates(queries.with_name("query_tickets.jsonl"))
    texts: dict[str, tuple[str, str]] = {}
    for line, row in _rows(queries):
        query_id = _text(queries, line, row, "query_id")
        if query_id in texts:
            raise GoldenError(f"{queries.name} line {line}: {query_id} came before.")
        created = str(row.get("created") or dates.get(query_id, ""))
        texts[query_id] = _text(queries, line, row, "text"), created
    found: dict[str, Query] = {}
    for line, row in _rows(qrels):
        query_id = _text(qrels, line, row, "query_id")
        if query_id not in texts:
            raise GoldenError(f"{qrels.name} line {line}: no query {query_id} in {queries.name}.")
        if query_id in found:
            raise GoldenError(f"{qrels.name} line {line}: {query_id} came before.")
        found[query_id] = Query(
            query_id,
            text=texts[query_id][0],
            created=texts[query_id][1],
            relevant=_relevant(qrels, line, row),
            near_copy=row.get("near_copy") is True,
            line=line,
        )
    if lacking := [query_id for query_id in texts if query_id not in found]:
        raise GoldenError(f"{qrels.name}: no line for the query {lacking[0]} of {queries.name}.")
    # Sorting is stable: without dates the order of the file stays.
    return Golden(qrels, tuple(sorted((found[i] for i in texts), key=lambda q: q.created)))


def ids(tickets: Path) -> list[str]:
    """The ids of a tickets.jsonl, in its order. Raises GoldenError."""
    return [_text(tickets, line, row, "id") for line, row in _rows(tickets)]


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object of a JSON Lines file with the number of its line; blank lines are skipped."""
    empty = True
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    empty = False
                    yield number, _object(path, number, line)
    except FileNotFoundError:
        raise GoldenError(f"{path}: no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"{path}: cannot be read: {error}.") from error
    if empty:
        raise GoldenError(f"{path.name}: the file is empty.")


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise GoldenError(f"{path.name} line {number}: not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise GoldenError(f"{path.name} line {number}: not a JSON object.")
    return value


def _text(path: Path, line: int, row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise GoldenError(f"{path.name} line {line}: '{key}' must be a text that is not empty.")
    return value


def _relevant(path: Path, line: int, row: dict[str, Any]) -> frozenset[str]:
    value = row.get("relevant")
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise GoldenError(f"{path.name} line {line}: 'relevant' must be a list of ticket ids.")
    return frozenset(value)


def _dates(path: Path) -> dict[str, str]:
    """Query id → date as ISO text, from the optional file of the query tickets."""
    if not path.is_file():
        return {}
    return {str(row.get("id")): str(row.get("created") or "") for _, row in _rows(path)}
