"""One function that reads every way a tracker writes a date.

Promises an aware time in UTC, or a ValueError.
Must never happen: a time that depends on the locale or the zone of the machine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar jän jänner janv janvier",
            "feb february februar fév févr février fev fevr fevrier",
            "mar march mär märz mrz mars",
            "apr april avr avril",
            "may mai",
            "jun june juni juin",
            "jul july juli juil juillet",
            "aug august aoû août aou aout",
            "sep sept september septembre",
            "oct october okt oktober octobre",
            "nov november novembre",
            "dec december dez dezember déc décembre decembre",
        ),
        start=1,
    )
    for name in names.split()
}

_CLOCK = (
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?"
    r" ?(?P<half>[ap]\.? ?m\.?)?)? ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d|[+-]\d\d)?"
)
_YEAR_FIRST = re.compile(
    r"(?P<a>\d{4})([/.-])(?P<b>\d{1,2})\2(?P<c>\d{1,2})" + _CLOCK, re.IGNORECASE
)
_NUMBERS = re.compile(
    r"(?P<a>\d{1,2})([/.-])(?P<b>\d{1,2})\2(?P<c>\d{4}|\d\d)" + _CLOCK, re.IGNORECASE
)
_NAMED = re.compile(
    r"(?P<a>\d{1,2})[./ -]+(?P<b>[^\W\d_]+)\.?[/ .-]+(?P<c>\d{4}|\d\d)" + _CLOCK, re.IGNORECASE
)
_EPOCH = re.compile(r"\d{9,13}(?:\.\d+)?")


class Moment(NamedTuple):
    """``zoned``: the text said which zone. ``ambiguous``: day and month could be swapped."""

    time: datetime
    zoned: bool
    ambiguous: bool


def parse(value: str | float, zone: tzinfo) -> Moment:
    """Read a date or a time; ``zone`` is used when the text states none.

    Known: ISO 8601 in its usual spellings, ``25/Feb/13 4:38 PM`` with English,
    German or French months, ``6/21/2025 16:14`` (month first unless it cannot
    be), ``21.6.2025``, seconds or milliseconds since 1970. A date without a
    time is midnight. Raises ValueError for anything else and for years outside
    1900 to 2200.
    """
    text = " ".join(str(value).split())
    if _EPOCH.fullmatch(text):
        number = float(text)
        return Moment(_checked(datetime.fromtimestamp(_seconds(number), UTC)), True, False)
    ambiguous = False
    if len(text) > 80:
        raise ValueError("too long for a date")
    if match := _YEAR_FIRST.fullmatch(text):
        year, month, day = (int(match[name]) for name in "abc")
    elif match := _NUMBERS.fullmatch(text):
        first, second, year = int(match["a"]), int(match["b"]), _year(match["c"])
        day_first = match[2] == "." or first > 12
        ambiguous = not day_first and second <= 12 and first != second
        day, month = (first, second) if day_first else (second, first)
    elif match := _NAMED.fullmatch(text):
        day, year = int(match["a"]), _year(match["c"])
        month = _MONTHS.get(match["b"].casefold(), 0)
    else:
        raise ValueError("not a date")
    stated = _zone(match["zone"])
    local = datetime(year, month, day, *_clock(match), tzinfo=stated or zone)
    return Moment(_checked(local.astimezone(UTC)), stated is not None, ambiguous)


def _seconds(number: float) -> float:
    # 1e11 seconds are the year 5138, 1e11 milliseconds are 1973.
    return number if number < 1e11 else number / 1000


def _year(text: str) -> int:
    year = int(text)
    return year if len(text) > 2 else year + (2000 if year < 70 else 1900)


def _clock(match: re.Match[str]) -> tuple[int, int, int, int]:
    if match["hour"] is None:
        return 0, 0, 0, 0
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no such hour")
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
    part = (match["part"] or "0")[:6].ljust(6, "0")
    return hour, int(match["minute"]), int(match["second"] or 0), int(part)


def _zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(offset if text[0] == "+" else -offset)


def _checked(time: datetime) -> datetime:
    if not 1900 <= time.year <= 2200:
        raise ValueError("no plausible year")
    return time
