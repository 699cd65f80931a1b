"""The file being read, and what had to be assumed or left out on the way.

Promises that the file is read as a stream, that every text and time of a row
passes through here, and that each assumption becomes one note, with a count,
not one line for every row.
Must never happen: one bad row that ends the reading of a file.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, TextIO
from zoneinfo import ZoneInfo

from tickets.importers import times
from tickets.importers.encoding import find_encoding
from tickets.importers.raw import FileError, RawLink, RawTicket, RowError

MAX_KEY = 255
MAX_DEPTH = 20
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_PREFIX = re.compile(r"([A-Z][A-Z0-9_]*)-\d+")


@dataclass(frozen=True)
class ReadOptions:
    """What the person who imports knows and the file does not say.

    ``project`` is where every ticket goes, whatever the file says;
    ``timezone`` is the zone of times that state none; ``columns`` maps our
    field to their heading (plain CSV only).
    """

    project: str = ""
    timezone: str = "UTC"
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileNote:
    """Something to tell about the file as a whole; ``line`` is where it first happened."""

    message: str
    count: int = 1
    line: int = 0
    example: str = ""

    def __str__(self) -> str:
        where = f" ({self.count} times, first on line {self.line})" if self.line else ""
        return self.message + where + (f": {self.example!r}" if self.example else "")


Row = RawTicket | RowError | FileNote


class BadRowError(ValueError):
    """The row in hand cannot become a ticket; ``column`` says where."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


class Source:
    """One open file. ``line`` is the line of the row in hand, for the notes."""

    def __init__(
        self, path: Path, options: ReadOptions, on_progress: Callable[[int], None] | None = None
    ) -> None:
        if not path.is_file():
            raise FileError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}")
        self.path = path
        self.options = options
        self.zone = _zone(options.timezone)
        self.encoding, guess = find_encoding(path)
        self.line = 0
        self._size = path.stat().st_size
        self._on_progress = on_progress
        self._notes: dict[str, FileNote] = {}
        if guess:
            self.note(guess)

    @contextmanager
    def open(self, newline: str) -> Iterator[TextIO]:
        """The decoded file; ``newline`` as for :func:`open`."""
        with self.path.open("rb") as binary:
            text = io.TextIOWrapper(binary, self.encoding, errors="replace", newline=newline)
            self._raw = binary.raw
            yield text

    def row(self, line: int, key: object, make: Callable[[], RawTicket]) -> RawTicket | RowError:
        """What ``make`` returns, or the error that it raised as a row of its own."""
        self.line = line
        if self._on_progress:
            self._on_progress(self._size if self._raw.closed else self._raw.tell())
        try:
            return replace(make(), line=line)
        except BadRowError as error:
            return RowError(line, error.column, str(error), self.clean(str(key or ""))[:MAX_KEY])

    def note(self, message: str, example: str = "", count: int = 1) -> None:
        """Tell it once, and count how often."""
        example = _UNSTORABLE.sub("\ufffd", example[:80])
        old = self._notes.get(message, FileNote(message, 0, self.line, example))
        self._notes[message] = replace(old, count=old.count + count)

    def notes(self) -> Iterator[FileNote]:
        """Everything noted so far, in order."""
        yield from self._notes.values()

    # -- values of a row -----------------------------------------------------

    def clean(self, text: str) -> str:
        """``text`` as PostgreSQL can store it."""
        cleaned, count = _UNSTORABLE.subn("\ufffd", text)
        if count:
            self.note("NUL characters and lone surrogates replaced by U+FFFD", count=count)
        return cleaned

    def text(self, value: Any, column: str) -> str:
        """A text or a number as text; nothing as an empty one. Raises BadRowError."""
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            kind = "a list" if isinstance(value, list) else "an object"
            raise BadRowError(column, f"{kind} where a text was expected")
        return self.clean(str(value))

    def words(self, value: Any, column: str) -> tuple[str, ...]:
        """A list of texts, without blanks and repeats. Raises BadRowError."""
        values = value if isinstance(value, list) else [value]
        texts = (self.text(each, column).strip() for each in values)
        return tuple(dict.fromkeys(t for t in texts if t))

    def json(self, value: Any, depth: int = 0) -> Any:
        """A JSON value as PostgreSQL can store it. Raises BadRowError when it is too deep."""
        if depth > MAX_DEPTH:
            raise BadRowError("", f"values are nested more than {MAX_DEPTH} deep")
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {self.clean(k): self.json(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [self.json(v, depth + 1) for v in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    def time(self, value: Any, column: str, must: bool = False) -> datetime | None:
        """A time in UTC; one that is not understood is noted, or BadRowError if it ``must``."""
        if value is None or not str(value).strip():
            return None
        try:
            moment = times.parse(value, self.zone)
        except (ValueError, OverflowError):
            example = str(value)[:80]
            if must:
                raise BadRowError(column, f"{example!r} is not a date that is known here") from None
            self.note(f"column {column}: a date was not understood and left out", example)
            return None
        if not moment.zoned:
            zone = self.options.timezone
            self.note(f"times state no zone and are read as {zone} (timezone)", str(value))
        if moment.ambiguous:
            self.note("dates of numbers are read as month/day/year", str(value))
        return moment.time

    def ticket(
        self, key: str, project: str, links: Iterable[RawLink | None] = (), **fields: Any
    ) -> RawTicket:
        """A ticket whose key is sound, in its project, with each link once. Raises BadRowError."""
        key = key.strip()
        if not key:
            raise BadRowError("key", "the ticket has no key")
        if not sound_key(key):
            raise BadRowError(
                "key", f"{key[:40]!r} is no key: control characters, or over {MAX_KEY}"
            )
        prefix = _PREFIX.fullmatch(key)
        project = self.options.project or project.strip() or (prefix[1] if prefix else "")
        if not project:
            raise BadRowError("project", "no project: name one with --project")
        return RawTicket(key=key, project=project, links=self._links(links), **fields)

    def _links(self, links: Iterable[RawLink | None]) -> tuple[RawLink, ...]:
        kept = set()
        for link in links:
            if link is None:
                continue
            if link.from_key == link.to_key:
                self.note("a link of a ticket to itself was left out", link.from_key)
            elif not (sound_key(link.from_key) and sound_key(link.to_key)):
                self.note("a link to something that is no ticket key was left out", link.to_key)
            else:
                kept.add(link)
        # Sorted, so that a tracker that lists them in another order changed nothing.
        return tuple(sorted(kept, key=lambda k: (k.type, k.from_key, k.to_key, k.label)))


def sound_key(key: str) -> bool:
    return 0 < len(key) <= MAX_KEY and not _CONTROL.search(key)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise FileError(f"timezone: '{name}' is not known; write it like Europe/Berlin") from None
