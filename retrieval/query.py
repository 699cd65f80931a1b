"""A question becomes entities by section kind, and intents.

Promises a result for any text, by rules alone: P, a list of (section kind,
value) to compare with the graph, and I, the intents that say which section
holds the answer (RAG-KG, arXiv 2404.17723, section 2.2.1).
Must never happen: time beyond linear in the text; an exception for odd input.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from tickets.sections import SIMILAR_TO, template
from tickets.text.markup import to_text

MAX_QUESTION = 20_000
MAX_PHRASE = 500
_KEY = re.compile(r"(?<![\w-])[A-Z][A-Z0-9_]{1,30}-\d{1,9}(?![\w-])")
# Error codes and the like: letters and at least two digits in one word.
_IDENTIFIER = re.compile(r"(?<![\w-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d[\w-]*\d)[A-Za-z0-9][\w-]{2,62}")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Words that link a phrase to the topic and say nothing themselves.
_EDGES = re.compile(
    r"^(?:[\s,:;.?!-]|(?:the|a|an|of|for|to|when|if|that|this|with|by|in|on|about|ticket|issue|"
    r"bug|problem|error)\b)+|[\s,:;.?!？。-]+$",
    re.IGNORECASE,
)
# A line that asks for links says so; a title only happens to hold such words.
_ASKS = re.compile(
    r"[?？]|^\s*(?:which|what|show|list|give|find|are|is|does|do|has|have|duplicates|blockers|"
    r"(?:similar |related |linked )?(?:tickets|issues|bugs)|sub-?tasks|children|parent|epic|"
    r"clones)\b",
    re.IGNORECASE,
)
# What is left of the verb at the end once the phrase before it is gone.
_TAILS = re.compile(
    r"\b(?:depend(?:s|ing|ent)? on|(?:been )?(?:fix(?:ed)?|solved?|resolved?)|blocked by|"
    r"block(?:ing|ed)?|about|closed|open|done)"
    r"\s*[?？.!]*\s*$",
    re.IGNORECASE,
)

Direction = Literal["in", "out", "both"]


@dataclass(frozen=True)
class Intent:
    """What is asked for: sections, best first, or one type of relationship."""

    name: str
    sections: tuple[str, ...] = ()
    relationship: str = ""
    direction: Direction = "both"


@dataclass(frozen=True)
class QueryAnalysis:
    """P and I of a question. ``keys`` are words shaped like ticket keys, ``identifiers``
    all words shaped like error codes; a report's body is not searched for either.

    ``text`` is the whole question as plain text; the values of ``entities`` are
    parts of it. ``intents`` is never empty: a question that says nothing about
    what it wants is about how such a problem was solved.
    """

    question: str
    text: str
    entities: tuple[tuple[str, str], ...]
    intents: tuple[Intent, ...]
    keys: tuple[str, ...]
    identifiers: tuple[str, ...]
    explicit: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "entities": [list(pair) for pair in self.entities],
            "intents": [intent.name for intent in self.intents],
            "keys": list(self.keys),
            "identifiers": list(self.identifiers),
            "intent_stated": self.explicit,
        }


DEFAULT_INTENT = Intent("solve", ("fix_solution", "workaround", "root_cause", "description"))


def analyze(question: str) -> QueryAnalysis:
    """Entities, intents and ticket keys of a question of at most MAX_QUESTION characters."""
    cleaned = unicodedata.normalize("NFC", question.replace("\x00", " "))[:MAX_QUESTION].strip()
    text = to_text(cleaned, "wiki").strip()
    prose = _FENCE.sub(" ", text).strip() or text
    first, _, rest = prose.partition("\n")
    intents: tuple[Intent, ...] = ()
    topic = first
    # A filed ticket has a title and a body; only something that is asked has an intent.
    asked = not rest.strip() or "?" in first or "？" in first
    if asked:
        intents, topic = _intents(first)
    entities = [("summary", topic), ("description", f"{topic}\n{rest}".strip())]
    return QueryAnalysis(
        question=question,
        text=f"{topic}\n{text.partition(chr(10))[2]}".strip() if rest.strip() else topic,
        entities=tuple((kind, value) for kind, value in entities if value),
        intents=intents or (DEFAULT_INTENT,),
        keys=tuple(dict.fromkeys(_KEY.findall(first))) if asked else (),
        identifiers=tuple(dict.fromkeys(_IDENTIFIER.findall(first))) if asked else (),
        explicit=bool(intents),
    )


def _intents(line: str) -> tuple[tuple[Intent, ...], str]:
    """The first intent that a line states, and what is left of the line as its topic."""
    # Phrases look ahead: what they may look at is bounded, or a hostile line takes forever.
    words = " ".join(line.split())
    line, tail = words[:MAX_PHRASE], words[MAX_PHRASE:]
    asks = bool(_ASKS.search(line) or _KEY.search(line))
    for intent, phrase in _phrases():
        if intent.relationship and not asks:
            continue
        if match := phrase.search(line):
            rest = f"{line[: match.start()]} {line[match.end() :]}{tail}"
            topic = _EDGES.sub("", _EDGES.sub("", _TAILS.sub("", rest))).strip()
            return (intent,), topic or words
    return (), words


@cache
def _phrases() -> tuple[tuple[Intent, re.Pattern[str]], ...]:
    data = yaml.safe_load(Path(__file__).with_name("intents.yaml").read_text(encoding="utf-8"))
    found = []
    for name, entry in data.items():
        intent = Intent(
            name,
            tuple(entry.get("sections", ())),
            entry.get("relationship", ""),
            entry.get("direction", "both"),
        )
        known = {*template().links, SIMILAR_TO, ""}
        unknown = set(intent.sections) - set(template().kinds) or {intent.relationship} - known
        if unknown:
            raise ValueError(f"intents.yaml: {name} names '{min(unknown)}', not in the template")
        for patterns in entry["phrases"].values():
            found += [(intent, re.compile(pattern, re.IGNORECASE)) for pattern in patterns]
    return tuple(found)
