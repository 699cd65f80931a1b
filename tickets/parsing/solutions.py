"""Find in the thread below a ticket what solved it, what caused it, how to live with it.

Promises that every value is a stretch of one comment, and carries the author,
time and visibility of that comment.
Must never happen: a test report or a closing formula told as the solution; words
of an internal note in a section that everybody may read.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from tickets.importers.raw import RawComment, RawTicket

from . import blocks, headings


class Finding(NamedTuple):
    """A section found in a comment."""

    kind: str
    text: str
    comment: RawComment


_KINDS = ("fix_solution", "root_cause", "workaround")
_MAX_LOOK = 2_000

# A paragraph is about the kind when a sentence in it begins like this. "This is
# because" may speak of anything, so only a comment that opens with it counts.
_LEAD_IN = {
    "root_cause": re.compile(
        r"(?:^|[.!:]\s+)[-*• ]*(?:actually,? |so |the |its )*"
        r"(?:root cause(?: of [^.\n]{1,60})? (?:is|was|seems|appears)\b"
        r"|(?:real |actual |underlying )?cause (?:is|was|of|for)\b"
        r"|(?:this )?(?:problem|issue|crash|error|bug|failure|exception) (?:is|was) "
        r"(?:caused by|due to|because)\b)"
        r"|\A(?:hi\b[^\n]*\s+)?this (?:is|was) (?:caused by|due to|because)\b",
        re.IGNORECASE,
    ),
    "workaround": re.compile(
        r"(?:^|[.!:,]\s+)[-*• ]*(?:so |but |and |as )?"
        r"(?:an? |the |one |my |our |temporary |possible |simple |current |known |quick )*"
        r"work-? ?around(?: (?:is|was|for|would|could|that|to|i|we|you|in|until|at)\b|:|,)",
        re.IGNORECASE,
    ),
}
_HINT = {
    "root_cause": re.compile(r"cause|due to", re.IGNORECASE),
    "workaround": re.compile(r"work.{0,2}around", re.IGNORECASE),
}
# Test reports, closing formulas, reviews: they say that it works, not why.
_FORMULA = re.compile(
    r"\W*(?:(?:re-?)?verified\b|verif(?:y|ying|ication)\b|(?:re-?|i )?tested\b|re-?test"
    r"|test(?:ing)? (?:on|with|using|env|case)|(?:re-?)?(?:clos|open)(?:ing|ed?)\b"
    r"|resolved as (?!an? part|part)"
    r"|mark(?:ing|ed)\b|(?:issue|bug|ticket|fix) (?:is )?(?:verified|closed|not reproduc)"
    r"|(?:this )?works (?:fine|as expected|for me)|anvil\b|environment used"
    r"|(?:removed|updated?|adding|added) (?:the )?labels?\b|(?:code )?review|cr\b|ft\b|apm\b"
    r"|functional(?:ly)? (?:test|review)|pulled\b|looks good|lgtm\b|approved\b|accepted\b)",
    re.IGNORECASE,
)
# Names the change itself, so whoever wrote it made it.
_LINK = re.compile(r"https?://\S{0,200}/(?:(pull|merge_requests)|commits?|changesets)/\w")
_CHANGE = re.compile(
    r"\bpull[- ]?req|\bpull pending|\bPRs?\b|\bstate:resolved\b|\bcommit [0-9a-f]{7}"
    r"|\A\W*(?:(?:this|it|bug|issue) (?:is|was|has been) |was |has been )?"
    r"(?:fixed|resolved|solved|implemented|done) "
    r"(?:in|by|with|via|as an? part|as part|on|through)\b",
    re.IGNORECASE,
)
_BLAMES = re.compile(r"\b(?:caused by|broken?|breaks|introduced)\b", re.IGNORECASE)
_PROMISES = re.compile(
    r"\b(?:will|i'll|planning to|plan to|going to|can you|could you|please)\s+"
    r"(?:\w+\s+){0,5}(?:PR|pull)\b",
    re.IGNORECASE,
)
_BACKPORT = re.compile(r"\b(?:back-?\s?port|cherry|also sent|\d_\d_X\b)", re.IGNORECASE)
_TELLS = re.compile(
    r"(?<!will be )(?<!to be )(?<!can be )(?<!not )(?<!n't )(?<!get )"
    r"\b(?:fixed|resolved|solved|corrected|addressed) (?:in|by|with|via|as part|through)\b"
    r"|\bthe fix (?:is|was|for)\b|\bchecked in\b|\b(?:has|have) been "
    r"(?:fixed|solved|resolved|corrected|added|changed|removed|updated|implemented)\b"
    r"|\bi(?:'ve| have)? (?:just )?(?:fixed|added|changed|removed|updated|implemented)\b",
    re.IGNORECASE,
)
_ADVISES = re.compile(
    r"\b(?:work-?around|solution) (?:is|was|for|to)\b|\binstead of\b"
    r"|\byou(?:'ll)? (?:need to|have to|must|should|can use)\b"
    r"|\bshould be (?:set|used|called|passed|done)\b",
    re.IGNORECASE,
)
# People close a ticket and then write down what they did.
_AFTERTHOUGHT = timedelta(hours=1)


def find(raw: RawTicket, comments: list[tuple[RawComment, str]], have: set[str]) -> list[Finding]:
    """The sections of the kinds above that ``have`` lacks, at most one of each kind.

    ``comments`` are the comments of ``raw`` with their text, in order of time.
    """
    found: dict[str, Finding] = {}
    # A later word overrides an earlier one, and a public one an internal one.
    newest_first = comments[::-1]
    for comment, text in sorted(newest_first, key=lambda c: not c[0].public):
        under = _under_headings(text)
        for kind in _KINDS:
            if kind in have or kind in found:
                continue
            if value := under.get(kind) or _led_in(text, kind):
                found[kind] = Finding(kind, value, comment)
    if "fix_solution" not in have and "fix_solution" not in found:
        answer = _accepted(comments) or _told_by_developer(raw, comments)
        if answer:
            found["fix_solution"] = Finding("fix_solution", answer[1], answer[0])
    return list(found.values())


def _under_headings(text: str) -> dict[str, str]:
    """What a comment says under its headings, by kind."""
    found: dict[str, str] = {}
    for kind, value in headings.divide(text):
        if kind in _KINDS and not _FORMULA.match(value):
            found[kind] = f"{found[kind]}\n\n{value}" if kind in found else value
    return found


def _led_in(text: str, wanted: str) -> str:
    """The first paragraph with the lead-in; code that its colon announces goes along."""
    hint = _HINT.get(wanted)
    if hint is None or not hint.search(text):
        return ""
    runs = list(blocks.split(text))
    for run, after in zip(runs, [*runs[1:], None], strict=True):
        paragraphs = [] if run.code else re.split(r"\n[ \t]*\n", run.text.strip())
        for paragraph in paragraphs:
            if _LEAD_IN[wanted].search(paragraph[:_MAX_LOOK]) and "?" not in paragraph:
                announces = paragraph is paragraphs[-1] and paragraph.rstrip().endswith(":")
                return f"{paragraph}\n\n{after.text}" if announces and after else paragraph
    return ""


def _accepted(comments: list[tuple[RawComment, str]]) -> tuple[RawComment, str] | None:
    return next((c for c in comments if c[0].accepted and c[0].public), None)


def _told_by_developer(
    raw: RawTicket, comments: list[tuple[RawComment, str]]
) -> tuple[RawComment, str] | None:
    """The comment of a fixed ticket that says what fixed it, or None.

    In falling order: a link to the change, its name, a link to its port to another
    branch, telling that it was made, advice. The last of equals wins. What is no more
    than telling or advice counts from an agent or the assignee only.
    """
    if raw.resolution_category != "fixed":
        return None
    best: tuple[int, RawComment, str] | None = None
    for comment, text in comments:
        late = (
            raw.resolved_at is not None
            and comment.created_at is not None
            and comment.created_at > raw.resolved_at + _AFTERTHOUGHT
        )
        if late or not comment.public:
            continue
        customer = comment.role == "customer" or comment.author == raw.reporter
        rank = _rank(text[:_MAX_LOOK], customer and comment.author != raw.assignee)
        if rank and (best is None or rank >= best[0]):
            best = rank, comment, text
    return best and best[1:]


def _rank(text: str, by_customer: bool) -> int:
    """How plainly ``text`` says what fixed the ticket; 0 is not at all."""
    if _FORMULA.match(text):
        return 0
    if link := _LINK.search(text):
        if not link[1] and _BLAMES.search(text[: link.end() + 100]):
            return 0
        return 3 if _BACKPORT.search(text) else 5
    if _CHANGE.search(text):
        return 0 if _PROMISES.search(text) else 4
    if by_customer or "?" in text:
        return 0
    return 2 if _TELLS.search(text) else int(bool(_ADVISES.search(text)))
