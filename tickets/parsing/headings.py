"""Divide the text of a ticket at the headings that people write in it.

Promises one answer per line, in time bounded by a constant: is this a heading,
of which kind, and what text follows it on the same line; and that every line
that is not such a heading comes out exactly once.
Must never happen: an ordinary sentence ("Expected it to work") taken for a
heading.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from tickets import sections

from . import blocks

# Nobody writes a longer heading, and the bound keeps every regex below cheap.
_MAX_HEAD = 120
_MAX_NAME = 60

_MARKS = r"*_+=~\[\]【】《》「」<>■□●◆◇▼▶★☆#|"
# What may stand before the words: bullets, emphasis, rules, "1." or "2)", emoji.
_LEAD = re.compile(rf"[\s\-–—•·{_MARKS}]*(?:\(?\d{{1,2}}[.)、．]\s*)?[\s{_MARKS}]*")
_EMOJI = re.compile(r"[☀-➿️\U0001F000-\U0001FAFF]+\s*")
_COLON = re.compile(r"\s?[:：]+")
_DASH = re.compile(r"\s+(?:[-–—=]+>?|→)\s+|\s+(?=\(?1[.)]\s)")
_CLOSING = re.compile(r"[*_+\]】》」]*\s*")
_UNKNOWN = re.compile(r"#{1,6}\s+\S")
_ITEM = re.compile(r"\s*([12])\s?[.)]")
_BULLET = re.compile(r"\s*(?:[-*•#]|\d{1,2}\s?[.)])")
_RULE = re.compile(r"\s*(?:-{3,}|={3,}|~{3,})\s*")
_NO_WORD = re.compile(r"[\W_]+")
_THE = re.compile(r"the +", re.IGNORECASE)
_FIRST_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_QUOTES = frozenset('"`“”{};')
# "…the app closes. Workaround: use a webview" – a heading inside a paragraph.
_INLINE = re.compile(
    r"(?<=[.!?;)。！？])\s*"
    r"(?=([^\W\d_](?:[^\W\d_]|['’-]){0,20}(?: [^\W\d_]{1,14}){0,3})[:：])"
)
_INLINE_KINDS = frozenset(
    {"steps_to_reproduce", "actual_result", "expected_result", "workaround", "root_cause"}
)


@dataclass(frozen=True)
class Heading:
    """``kind`` is '' for a heading the template does not know; ``rest`` follows on its line."""

    kind: str
    rest: str = ""


@dataclass
class _Part:
    """What stands under one heading; ``line`` is the heading as written."""

    kind: str
    line: str = ""
    lines: list[str] = field(default_factory=list)
    code: list[blocks.Run] = field(default_factory=list)

    @property
    def prose(self) -> str:
        return blocks.trimmed(self.lines)


def divide(text: str) -> Iterator[tuple[str, str]]:
    """(kind, text) for each stretch of ``text``, in order; a kind may come several times.

    What stands under no known heading is 'description'. Code is cut out as
    'code_block', but stays with a kind that has nothing else to say. A heading
    with nothing below it stays in the description.
    """
    parts = _with_numbered_steps(list(_parts(text)))
    told = {"description", *(part.kind for part in parts if part.prose)}
    for part in parts:
        if part.prose:
            yield part.kind, part.prose
        elif not part.code and part.line:
            yield "description", part.line.strip()
        for run in part.code:
            yield ("code_block", run.inner) if part.kind in told else (part.kind, run.text)


def _parts(text: str) -> Iterator[_Part]:
    part = _Part("description")
    for run in blocks.split(text):
        if run.code:
            if run.inner:
                part.code.append(run)
                part.lines += [""] if part.lines[-1:] != [""] else []
            continue
        for line, following in zip(run.lines, [*run.lines[1:], ""], strict=True):
            if not line.strip():
                if part.lines[-1:] != [""]:
                    part.lines.append("")
                continue
            for piece in _pieces(line):
                heading = read(piece, following)
                if heading is None:
                    part.lines.append(piece)
                    continue
                yield part
                part = _Part(heading.kind or "description", piece if heading.kind else "")
                part.lines.append(heading.rest if heading.kind else piece)
    yield part


def _with_numbered_steps(parts: list[_Part]) -> list[_Part]:
    """Steps that nobody titled: a list "1. … 2. …" right above the result, where no steps are."""
    if any(part.kind == "steps_to_reproduce" for part in parts):
        return parts
    for position, (part, after) in enumerate(pairwise(parts)):
        if part.kind == "description" and after.kind in ("actual_result", "expected_result"):
            numbers = {m[1]: i for i, line in enumerate(part.lines) if (m := _ITEM.match(line))}
            if "1" in numbers and numbers.get("2", -1) > numbers["1"]:
                steps = _Part("steps_to_reproduce", lines=part.lines[numbers["1"] :])
                before = _Part("description", lines=part.lines[: numbers["1"]], code=part.code)
                return [*parts[:position], before, steps, *parts[position + 1 :]]
    return parts


def normalize(words: str) -> str:
    """Lower case, one space between words, nothing but letters and digits."""
    if not words.isascii():
        words = unicodedata.normalize("NFKC", words)
    return _NO_WORD.sub(" ", words.casefold()).strip()


@cache
def _known() -> dict[str, str]:
    return {normalize(h): kind for h, kind in sections.template().by_heading.items()}


@cache
def _first_words() -> frozenset[str]:
    return frozenset(name.split(" ", 1)[0] for name in _known())


def read(line: str, following: str = "") -> Heading | None:
    """What ``line`` announces, or None; ``following`` is the line after it.

    The shapes: "## Steps", "*Steps*", "[Steps]", "--- Steps ---", "STEPS", "1) Steps:",
    "Steps to reproduce", "Actual result: it crashes", "Steps to reproduce - 1. open".
    A single word needs a colon, a dash, a mark around it, capitals or a rule below it.
    """
    head = line[:_MAX_HEAD]
    start = _start(head)
    word = _FIRST_WORD.match(head, _matched(_THE, head, start))
    found = None
    # Nearly every line of a ticket ends here, so this test comes first.
    if word and normalize(word[0]) in _first_words():
        found = (
            _before_colon(line, head, start)
            or _alone(line, head, start, following)
            or _before_dash(line, head, start)
        )
    return found or (Heading("") if _UNKNOWN.match(head) else None)


def is_rule(line: str) -> bool:
    """Is it a line of dashes, such as stands below a heading?"""
    return len(line) <= _MAX_HEAD and _RULE.fullmatch(line) is not None


def _pieces(line: str) -> list[str]:
    """``line``, cut where a sentence ends and a heading with a colon begins.

    Items of a list stay whole: "2. Press it. Expected: it opens" is one step of many.
    """
    if (":" not in line and "：" not in line) or _BULLET.match(line):
        return [line]
    cuts = [
        m.end()
        for m in _INLINE.finditer(line)
        if not m[1][0].islower() and _known().get(normalize(m[1])) in _INLINE_KINDS
    ]
    return [line[a:b] for a, b in zip([0, *cuts], [*cuts, len(line)], strict=True)]


def _start(head: str) -> int:
    start = _matched(_LEAD, head, 0)
    emoji = _matched(_EMOJI, head, start)
    return _matched(_LEAD, head, emoji) if emoji > start else start


def _matched(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _before_colon(line: str, head: str, start: int) -> Heading | None:
    colon = _COLON.search(head, start, start + _MAX_NAME)
    if colon is None:
        return None
    # "Expected (as on Android): 5": what the brackets say belongs to the text.
    kind, after = _kind(head[start : colon.start()]), _matched(_CLOSING, head, colon.end())
    if not kind and (bracket := head.find(" (", start, colon.start())) > 0:
        kind, after = _kind(head[start:bracket]), bracket
    rest = line[after:].strip()
    if not kind or _looks_like_code(head[start], rest):
        return None
    return Heading(kind, rest)


def _before_dash(line: str, head: str, start: int) -> Heading | None:
    dash = _DASH.search(head, start, start + _MAX_NAME)
    kind = _kind(head[start : dash.start()]) if dash else ""
    return Heading(kind, line[dash.end() :].strip()) if dash and kind else None


def _alone(line: str, head: str, start: int, following: str) -> Heading | None:
    if len(line) > _MAX_NAME + start:
        return None
    name = line[start:].rstrip()
    words = normalize(name)
    kind = _kind(name)
    if not kind:
        return None
    shaped = (
        " " in words
        or bool(head[:start].strip(" \t-–—•·0123456789.)("))
        or name[-1] in _MARKS + "-–—"
        or name.isupper()
        or len(_CJK.findall(words)) > 2
        or is_rule(following)
    )
    return Heading(kind) if shaped else None


def _kind(name: str) -> str:
    if _QUOTES.intersection(name):
        return ""
    words = normalize(name)
    return _known().get(words) or _known().get(words.removeprefix("the "), "")


def _looks_like_code(initial: str, rest: str) -> bool:
    """Is it "title: 'Tab 1'," of pasted source, which no sentence looks like?"""
    if rest.endswith(("{", ";")) or (rest[:1] == "'" and initial.islower()):
        return True
    return rest.endswith(",") and (rest[0] in "\"'" or " " not in rest)
