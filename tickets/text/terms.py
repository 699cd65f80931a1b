"""Text → terms for BM25: identifiers whole and in parts, words stemmed, CJK in pairs.

Promises that ``ERR-4711``, ``com.foo.Bar`` and ``3.1.0`` are found as they are
written, and that scripts without spaces are found by any two neighbouring
characters. Indexing and search use this one function.
Must never happen: a term longer than its column, or time beyond linear in the text.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from functools import lru_cache

import Stemmer

MAX_TERM = 64

# Han, kana, Hangul, Thai, Lao, Khmer, Burmese: written without spaces between words
# (Hangul has some, but particles cling to words).
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d"
)
_TOKEN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+(?:[-.:/@#+][^\W{_UNSPACED}]+)*")
_PART = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_STOP = frozenset(
    "a an and are as at be but by for from has have i if in is it its not of on or so that the "
    "then there this to was we were will with you".split()
)
_local = threading.local()


def terms(text: str) -> Counter[str]:
    """How often each term occurs in ``text``."""
    found: Counter[str] = Counter()
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        token = match.group()
        if _IS_UNSPACED.match(token):
            found.update(_pairs(token))
        else:
            found.update(_words(token))
    return found


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(maxsize=100_000)
def _words(token: str) -> tuple[str, ...]:
    """A token as terms: itself, and when it is made of parts, each of them."""
    lower = token.casefold()
    parts = [part for piece in _PART.findall(token) for part in _camel(piece)]
    if len(parts) == 1:
        return () if lower in _STOP else (_stem(lower),)
    words = [_stem(part) for part in parts if part not in _STOP]
    return (lower[:MAX_TERM], *words)


def _camel(piece: str) -> list[str]:
    if piece.islower() or piece.isdigit() or not piece.isascii():
        return [piece.casefold()]
    return [part.lower() for part in _CAMEL.findall(piece)]


def _stem(word: str) -> str:
    stem = _stemmer().stemWord(word) if word.isascii() and word.isalpha() else word
    return str(stem)[:MAX_TERM]


def _stemmer() -> Stemmer.Stemmer:
    # A stemmer object is not safe to share between threads.
    if not hasattr(_local, "stemmer"):
        _local.stemmer = Stemmer.Stemmer("english")
    return _local.stemmer
