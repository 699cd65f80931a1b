"""Terms: identifiers, words and scripts without spaces."""

import time

import pytest

from tickets.text.terms import MAX_TERM, terms


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("the ERR-4711!", {"err-4711", "err", "4711"}),
        ("com.foo.BarView crashes", {"com.foo.barview", "com", "foo", "bar", "view", "crash"}),
        ("SDK 3.1.0", {"sdk", "3.1.0", "3", "1", "0"}),
        ("createHTTPClient", {"createhttpclient", "creat", "http", "client"}),
        ("the app crashed and crashes", {"app", "crash"}),
        ("ログイン", {"ログ", "グイ", "イン"}),
        ("無法登入", {"無法", "法登", "登入"}),
        ("ＥＲＲ－４７１１", {"err-4711", "err", "4711"}),
        ("Größe STRASSE", {"grösse", "strass"}),
        ("", set()),
    ],
)
def test_terms_of(text: str, wanted: set[str]) -> None:
    assert set(terms(text)) == wanted


def test_count_is_of_occurrences() -> None:
    assert terms("crash crash crashes")["crash"] == 3


def test_long_word_is_cut_to_its_column() -> None:
    assert max(map(len, terms("x" * 10_000 + " a-" + "b" * 500))) == MAX_TERM


def test_hostile_text_takes_linear_time() -> None:
    started = time.process_time()
    for text in ("-" * 500_000, "a-" * 250_000, "aB" * 250_000, "漢" * 500_000, "." * 500_000):
        terms(text)
    assert time.process_time() - started < 10
