"""Files of other systems, read as a stream of tickets.

Promises that :func:`read` yields each row of a file as a RawTicket or as a
RowError that names its line, and then the FileNotes: what was assumed about
the file. To add a format, write its module and enter it in ``FORMATS``.
Must never happen: a file that is read as something it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tickets.importers import benchmark, jira_csv, jira_rest, plain_csv
from tickets.importers.glance import Glance, glance
from tickets.importers.raw import FileError, RawComment, RawLink, RawTicket, RowError
from tickets.importers.source import FileNote, ReadOptions, Row, Source

__all__ = [
    "FORMATS",
    "FileError",
    "FileNote",
    "Importer",
    "RawComment",
    "RawLink",
    "RawTicket",
    "ReadOptions",
    "Row",
    "RowError",
    "detect",
    "read",
]


@dataclass(frozen=True)
class Importer:
    """One format: what it is, how it is recognised, how it is read."""

    name: str
    description: str
    sniff: Callable[[Glance], bool]
    read: Callable[[Source], Iterator[Row]]


# In the order in which they are tried: the most particular first.
FORMATS: dict[str, Importer] = {
    name: Importer(name, description, module.sniff, module.read)
    for name, description, module in (
        ("jira-rest", "Jira REST v2: an issue, a search page, an array, or JSON Lines", jira_rest),
        ("benchmark", "JSON Lines in the shape of the retrieval benchmarks", benchmark),
        ("jira-csv", "Jira CSV export, all fields", jira_csv),
        ("csv", "any CSV with a key and a summary or description", plain_csv),
    )
}
_REFUSED = (
    ("<entity-engine-xml", "a Jira site backup; export the issues as CSV, or by REST"),
    ("<rss", "a Jira XML export, which is not supported yet; export the issues as CSV"),
    ("<html", "a web page; a Jira export named .xls is one: export the issues as CSV"),
    ("<", "XML or HTML, which is not supported"),
    ("From ", "a mailbox, which is not supported yet"),
)


_DEFAULTS = ReadOptions()


def detect(path: str | Path) -> str:
    """The name of the file's format, a key of ``FORMATS``.

    Raises FileError that says what was seen and what there is to choose from.
    """
    return _detect(Source(Path(path), _DEFAULTS))


def read(
    path: str | Path,
    format: str = "auto",  # noqa: A002 - as the command's option is called
    options: ReadOptions = _DEFAULTS,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """Every row of the file, then the notes. ``on_progress`` gets the bytes read so far.

    Raises FileError when the file as a whole cannot be read: at the call, or
    at the first row.
    """
    if format not in ("auto", *FORMATS):
        raise FileError(f"no format '{format}'; there are auto, {', '.join(FORMATS)}")
    source = Source(Path(path), options, on_progress)
    return _rows(FORMATS[_detect(source) if format == "auto" else format], source)


def _rows(importer: Importer, source: Source) -> Iterator[Row]:
    yield from importer.read(source)
    yield from source.notes()


def _detect(source: Source) -> str:
    seen = glance(source)
    for beginning, what in _REFUSED:
        # The element may stand below a declaration and a long comment.
        if seen.text.startswith(beginning) or (seen.text[:1] == "<" and beginning in seen.text):
            raise FileError(f"{source.path.name}: this is {what}")
    for importer in FORMATS.values():
        if importer.sniff(seen):
            return importer.name
    if isinstance(seen.first, dict):
        what = f"JSON with the keys {', '.join(list(seen.first)[:12])}"
    elif seen.text[:1] in ("{", "["):
        what = "JSON without issues"
    else:
        what = f"text that begins with {seen.text[:60]!r}"
    known = "; ".join(f"{each.name} ({each.description})" for each in FORMATS.values())
    raise FileError(f"{source.path.name}: {what}. Known formats: {known}")
