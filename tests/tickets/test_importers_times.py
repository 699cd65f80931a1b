from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickets.importers.times import parse

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-02-13T20:21:36.000+0000", datetime(2013, 2, 13, 20, 21, 36, tzinfo=UTC)),
        ("2013-02-13T20:21:36+0100", datetime(2013, 2, 13, 19, 21, 36, tzinfo=UTC)),
        ("2013-02-13T20:21:36.5Z", datetime(2013, 2, 13, 20, 21, 36, 500_000, tzinfo=UTC)),
        ("2023-01-01 10:33:28 +0000", datetime(2023, 1, 1, 10, 33, 28, tzinfo=UTC)),
        ("2023-01-01 10:33:28 -05:30", datetime(2023, 1, 1, 16, 3, 28, tzinfo=UTC)),
        (1_360_786_896, datetime(2013, 2, 13, 20, 21, 36, tzinfo=UTC)),
        ("1360786896000", datetime(2013, 2, 13, 20, 21, 36, tzinfo=UTC)),
    ],
)
def test_parse_time_with_zone(text: str | int, expected: datetime) -> None:
    moment = parse(text, BERLIN)
    assert moment.time == expected
    assert moment.zoned


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25/Feb/13 4:38 PM", datetime(2013, 2, 25, 16, 38, tzinfo=BERLIN)),
        ("25/Feb/13 12:05 AM", datetime(2013, 2, 25, 0, 5, tzinfo=BERLIN)),
        ("25/Feb/13 12:05\u202fPM", datetime(2013, 2, 25, 12, 5, tzinfo=BERLIN)),
        ("11/May/24 03:26 PM", datetime(2024, 5, 11, 15, 26, tzinfo=BERLIN)),
        ("25. Mär 2013 16:38", datetime(2013, 3, 25, 16, 38, tzinfo=BERLIN)),
        ("1/Dez/13 04:38", datetime(2013, 12, 1, 4, 38, tzinfo=BERLIN)),
        ("25/févr./13 4:38 PM", datetime(2013, 2, 25, 16, 38, tzinfo=BERLIN)),
        ("25 août 2013", datetime(2013, 8, 25, tzinfo=BERLIN)),
        ("6/21/2025 16:14", datetime(2025, 6, 21, 16, 14, tzinfo=BERLIN)),
        ("21/6/2025 16:14", datetime(2025, 6, 21, 16, 14, tzinfo=BERLIN)),
        ("5.6.2025", datetime(2025, 6, 5, tzinfo=BERLIN)),
        ("2025-06-05", datetime(2025, 6, 5, tzinfo=BERLIN)),
    ],
)
def test_parse_time_without_zone_is_in_the_given_zone(text: str, expected: datetime) -> None:
    moment = parse(text, BERLIN)
    assert moment.time == expected
    assert not moment.zoned


def test_parse_tells_when_day_and_month_could_be_swapped() -> None:
    assert parse("6/7/2025", UTC).ambiguous
    assert parse("6/7/2025", UTC).time == datetime(2025, 6, 7, tzinfo=UTC)
    assert not parse("6/21/2025", UTC).ambiguous
    assert not parse("7/7/2025", UTC).ambiguous


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "32/Jan/13", "29/Feb/13", "13/Foo/13", "2013-13-01", "25/Feb/13 13:00 PM"),
        *("2013-02-13T25:00:00", "45000", "0001-01-01", "9999-12-31", "9" * 5000, "2013-02-13 x"),
        "99999999999999",
    ],
)
def test_parse_refuses_what_is_no_date(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text, UTC)


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2199, 12, 30)),  # noqa: DTZ001 - as it asks
    st.integers(-14 * 60, 14 * 60),
)
def test_parse_reads_back_what_isoformat_wrote(time: datetime, minutes: int) -> None:
    written = time.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse(written.isoformat(), BERLIN).time == written
    assert parse(written.strftime("%Y-%m-%d %H:%M:%S.%f %z"), BERLIN).time == written
