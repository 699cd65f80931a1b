"""The first look at a file, and the two ways to walk through one: lines of JSON, rows of CSV.

Promises that a line or row that is broken becomes a RowError with its line.
Must never happen: the whole of a JSON Lines or CSV file in memory.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from tickets.importers.encoding import SAMPLE
from tickets.importers.raw import FileError, RowError
from tickets.importers.source import Source

# The default, 131,072, is less than one long log. The limit is the process's own; it keeps a
# quote that is never closed from taking all memory.
csv.field_size_limit(1 << 26)

_MAX_FIRST_LINE = 1 << 26
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


@dataclass(frozen=True)
class Glance:
    """The beginning of a file: its text, the first JSON record, the headings if it is a table."""

    text: str
    first: Any = None
    headings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Heading:
    """The headings of a table and what separates its cells."""

    names: tuple[str, ...]
    delimiter: str

    @property
    def places(self) -> dict[str, list[int]]:
        """Lower-case heading → the columns that have it: several, in Jira's exports."""
        found: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            found.setdefault(name.casefold(), []).append(place)
        return found

    def listed(self) -> str:
        """The headings for a message: each once, 40 at most."""
        names = list(dict.fromkeys(self.names))
        return ", ".join(names[:40]) + (f" and {len(names) - 40} more" if names[40:] else "")


@dataclass(frozen=True)
class Record:
    """One row of a table; ``line`` is where it began."""

    line: int
    cells: list[str]
    places: dict[str, list[int]]

    def one(self, *names: str) -> str:
        """The first cell that is not blank under one of the headings (lower case)."""
        return next((cell for name in names for cell in self.all(name)), "")

    def all(self, name: str) -> list[str]:
        """Every cell that is not blank under a heading (lower case)."""
        return [c for c in (self.cells[i] for i in self.places.get(name, ())) if c.strip()]


def glance(source: Source) -> Glance:
    """A first look. Raises FileError when there is nothing but blanks."""
    with source.open(newline="") as file:
        text = file.read(SAMPLE).lstrip()
    if text[:1] not in ("{", "["):
        return Glance(text, headings=() if text[:1] == "<" else read_heading(source).names)
    with source.open(newline="\n") as file:
        for line in islice(_lines(file), 5):
            try:
                return Glance(text, json.loads(line))
            except (ValueError, RecursionError):
                continue
    return Glance(text)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_MAX_FIRST_LINE):
        if line.strip():
            yield line


def json_lines(source: Source) -> Iterator[tuple[int, Any]]:
    """(line number, value or RowError) for every line that is not blank."""
    with source.open(newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                value = RowError(number, "", f"the line is not JSON: {str(error)[:200]}")
            yield number, value


def read_heading(source: Source) -> Heading:
    """The first row that is not blank. Raises FileError when there is none."""
    with source.open(newline="") as file:
        lines = list(islice(file, 100))
    while lines and not lines[0].strip():
        lines.pop(0)
    stated = _SEPARATOR.fullmatch(lines[0]) if lines else None
    delimiters = stated[1] if stated else ",;\t|"
    tries = [(_first(lines[1:] if stated else lines, d), d) for d in delimiters]
    names, delimiter = max(tries, key=lambda each: len(each[0]))
    if not any(names):
        raise FileError(f"{source.path.name}: the file is empty")
    return Heading(names, delimiter)


def _first(lines: list[str], delimiter: str) -> tuple[str, ...]:
    try:
        cells = next((row for row in csv.reader(lines, delimiter=delimiter) if row), [])
    except csv.Error:
        return ()
    return tuple(" ".join(cell.split()) for cell in cells)


def records(source: Source, heading: Heading) -> Iterator[Record | RowError]:
    """Every row below the headings. A row with more or fewer cells becomes a RowError."""
    places, width = heading.places, len(heading.names)
    with source.open(newline="") as file:
        feed = _Feed(file)
        rows = csv.reader(feed, delimiter=heading.delimiter)
        above = True
        while True:
            line = rows.line_num + 1
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield RowError(line, "", str(error))
                continue
            if not any(cell.strip() for cell in cells):
                continue
            if above:
                above = _SEPARATOR.fullmatch(heading.delimiter.join(cells)) is not None
                continue
            if feed.ended:
                yield RowError(line, "", "a quotation mark opened in this row is never closed")
            elif len(cells) < width or any(cells[width:]):
                found = f"{len(cells)} cells where the heading has {width}"
                yield RowError(line, "", found, source.clean(cells[0][:40]))
            else:
                yield Record(line, cells, places)


class _Feed:
    """Lines for a csv.reader, which asks for one past the last only inside a quoted cell."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for line in self._lines:
            return line
        self.ended = True
        raise StopIteration
