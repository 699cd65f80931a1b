"""A ticket's text, whatever its markup, as plain text with structure.

Promises that structure comes out in one way for every markup: headings as
``## Heading``, code as a fenced block, lists as ``- `` and ``1. ``, bold as
``**bold**``, quotations as ``> ``. The raw text stays with the ticket.
Must never happen: a change inside code; more than linear time on hostile text
(every repeat in a pattern is bounded or cannot overlap with what follows it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tickets.text.html import fence, html_to_text, squeeze, unescape, unix_lines

_VERBATIM = re.compile(r"(?<!\\)\{(code|noformat|html)(?::([^{}\n]{0,200}))?\}", re.IGNORECASE)
_CLOSE = {
    kind: re.compile(r"(?<!\\)\{" + kind + r"\}", re.IGNORECASE)
    for kind in ("code", "noformat", "html")
}
_TAGS = re.compile(
    r"(?<!\\)\{(?:(?P<quote>quote)|(?P<panel>panel)(?::(?P<options>[^{}\n]{0,300}))?"
    r"|color(?:: ?#?\w{1,30})?|anchor(?::[^{}\n]{0,100})?)\}",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?<![\\:])\\\\(?:[ \t]{0,80}(?:\n|\Z)|(?=[ \t]))")
_HEADING = re.compile(r"h([1-6])\.(?!\d)[ \t]*(.*)")
_RULE = re.compile(r"-{4,}")
_ITEM = re.compile(r"([*#]{1,8}|[*#]{0,7}-)[ \t]+(\S.*)")
_CELLS = re.compile(r"\|{1,2}")
_INLINE = re.compile(
    r"""
      \\(?P<escaped>[{}\[\]*!|])
    | \{\{(?P<mono>(?:[^{}\n]|[{}](?![{}])){1,500})\}\}
    | \[~(?P<user>[^\[\]|\n]{1,200})\]
    | \[\^(?P<file>[^\[\]|\n]{1,300})\]
    | \[(?P<label>[^\[\]|\n]{1,300})\|(?P<url>[^\[\]|\s]{1,2000})(?:\|[^\[\]\n]{0,200})?\]
    | \[(?P<bare>(?:https?|ftp|mailto):[^\[\]|\s]{1,2000})\]
    | !(?P<image>[^\s!|][^!|\n]{0,300}\.(?:png|jpe?g|gif|bmp|svg|webp|tiff?))(?:\|[^!\n]{0,200})?!
    | (?<![\w*])\*(?P<bold>[^\s*](?:[^*\n]{0,300}[^\s*])?)\*(?![\w*])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTE = "\n{quote}\n"


def to_text(text: str, format: str) -> str:  # noqa: A002 - as the field is called
    """``text`` in ``format`` (plain, wiki, markdown, html) as plain text with structure.

    Plain text and Markdown only get Unix line ends. Raises KeyError for
    another format.
    """
    return _FORMATS[format](text)


def wiki_to_text(text: str) -> str:
    """Jira wiki markup as plain text with structure. Linear time."""
    parts = list(_parts(unix_lines(text).replace("{*}", "*")))
    tags = sum(body.count(_QUOTE) for kind, _, body in parts if not kind)
    writer = _Writer(quotes_left=tags // 2 * 2)  # the last of an odd number opens nothing
    for kind, options, body in parts:
        if kind == "html":
            writer.lines.append(html_to_text(body))
        elif kind:
            writer.lines.append(fence(body, _language(options)))
        elif body:
            writer.write(body.removeprefix("\n").removesuffix("\n"))  # the join brings them back
    return "\n".join(writer.lines).strip()


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """(kind, options, body): verbatim parts with their kind, text between with none.

    An unclosed verbatim part runs to the end. Tags in the text that stand for
    a line of their own are on lines of their own.
    """
    at = 0
    while opened := _VERBATIM.search(text, at):
        yield "", "", _TAGS.sub(_tag, text[at : opened.start()])
        kind = opened[1].lower()
        closed = _CLOSE[kind].search(text, opened.end())
        yield kind, opened[2] or "", text[opened.end() : closed.start() if closed else None]
        at = closed.end() if closed else len(text)
    yield "", "", _TAGS.sub(_tag, text[at:])


def _tag(match: re.Match[str]) -> str:
    if match["quote"]:
        return _QUOTE
    if not match["panel"]:
        return ""
    title = _options(match["options"]).get("title", "")
    return f"\n*{title}*\n" if title else "\n"


def _options(text: str | None) -> dict[str, str]:
    pairs = (option.partition("=") for option in (text or "").split("|"))
    return {name.strip().lower(): value.strip(" \"'") for name, _, value in pairs}


def _language(options: str) -> str:
    values = _options(options)
    first = options.partition("|")[0].strip().lower()
    language = values.get("lang") or ("" if "=" in first else first)
    return language if re.fullmatch(r"(?!none$)[a-z0-9+#.-]{1,20}", language) else ""


class _Writer:
    """Lines of text, with what goes on from one line to the next."""

    def __init__(self, quotes_left: int) -> None:
        self.lines: list[str] = []
        self._quotes_left = quotes_left
        self._quoting = False
        self._counters: list[int] = []
        self._blank = False

    def write(self, text: str) -> None:
        first = len(self.lines)
        for line in _BREAK.sub("\n", text).split("\n"):
            if line != _QUOTE.strip():
                shown = self._line(line.rstrip())
                self.lines.append(f"> {shown}" if self._quoting and shown else shown)
            elif self._quotes_left:
                self._quotes_left -= 1
                self._quoting = not self._quoting
                # Without a blank line Markdown would draw what follows into the quotation.
                self.lines += [] if self._quoting else [""]
        self.lines[first:] = [squeeze("\n".join(self.lines[first:]))]

    def _line(self, line: str) -> str:
        text = line.strip()
        if not text:
            self._blank = True
            return ""
        if item := _ITEM.fullmatch(text):
            self._blank = False
            return self._item(item[1], _inline(item[2]))
        heading = _HEADING.fullmatch(text)
        if heading or self._blank:
            self._counters.clear()  # the list ended; after a line break it goes on
        self._blank = False
        if heading:
            return "#" * int(heading[1]) + " " + _inline(heading[2]).replace("**", "")
        if text.startswith("bq. "):
            return "> " + _inline(text[4:])
        if _RULE.fullmatch(text):
            return "---"
        if len(text) > 2 and text[0] == text[-1] == "|":
            return _table_row(text)
        return _inline(line)

    def _item(self, marks: str, text: str) -> str:
        depth = len(marks)
        del self._counters[depth:]
        self._counters += [0] * (depth - len(self._counters))
        indent = "  " * (depth - 1)
        if marks[-1] != "#":
            return f"{indent}- {text}"
        self._counters[-1] += 1
        return f"{indent}{self._counters[-1]}. {text}"


def _table_row(text: str) -> str:
    cells = [cell.strip() for cell in _CELLS.split(_inline(text).strip("|"))]
    row = "| " + " | ".join(cells) + " |"
    return row + "\n" + "| --- " * len(cells) + "|" if text.startswith("||") else row


def _inline(text: str) -> str:
    return unescape(_INLINE.sub(_replace, text))


def _replace(match: re.Match[str]) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind == "mono":
        return f"`{value}`"
    if kind == "user":
        return "@" + value.removeprefix("accountid:")
    if kind == "file":
        return f"[attachment: {value}]"
    if kind == "url":
        label = _inline(match["label"].strip())
        return label if label == value else f"{label} ({value})"
    if kind == "image":
        return "[image: " + value.rsplit("/", 1)[-1] + "]"
    if kind == "bold":
        return f"**{_inline(value)}**"
    return value  # escaped, bare


def _plain(text: str) -> str:
    return unix_lines(text).strip()


_FORMATS = {
    "plain": _plain,
    "markdown": _plain,
    "wiki": wiki_to_text,
    "html": html_to_text,
}
