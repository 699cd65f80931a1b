"""HTML as plain text that keeps its structure.

The standard library's HTMLParser takes quadratic time on unclosed tags and
comments (Python 3.11.7: over 8 s for 200 kB of "<!--"), so the tags are found
by one bounded pattern here; nothing is rendered from the result.
Must never happen: more than linear time, or a script's text in the result.
"""

from __future__ import annotations

import html
import re

_TAG = re.compile(r"<!--|<(/?)([a-z][a-z0-9:-]{0,40})((?:\s|/)[^<>]{0,4000})?>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\b(href|src|alt)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
_FENCED = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)
_BLANKS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")

_PARAGRAPHS = frozenset(
    (
        *("p", "div", "section", "article", "header", "footer", "table", "ul", "ol", "dl"),
        *("blockquote", "h1", "h2", "h3", "h4", "h5", "h6"),
    )
)
_LINES = frozenset(("br", "hr", "tr", "li", "dt", "dd"))
_SILENT = frozenset(("script", "style", "head", "title", "template"))
_BOLD = frozenset(("b", "strong"))


def unescape(text: str) -> str:
    """Entities become characters; those without a semicolon are left (URLs have such)."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)


def unix_lines(text: str) -> str:
    """Line ends as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def squeeze(text: str) -> str:
    """At most one blank line in a row."""
    return _BLANKS.sub("\n\n", text)


def fence(code: str, language: str = "") -> str:
    """A Markdown code block; its fence is longer than any fence inside."""
    body = code.strip("\n").rstrip()
    if not body.strip():
        return ""
    longest = max((len(found) for found in _FENCED.findall(body)), default=2)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def html_to_text(source: str) -> str:
    """Paragraphs, headings (``#``), lists, quotations (``>``), fenced code, ``text (address)``.

    Linear time. Bold stays as ``**bold**``, a picture becomes ``[image: name]``.
    """
    source = unix_lines(source)
    writer = _Writer()
    silent = ""
    at = 0
    comments = "-->" in source
    for tag in _TAG.finditer(source):
        if tag.start() < at:
            continue  # inside a comment
        if not silent:
            writer.text(source[at : tag.start()])
        at = tag.end()
        if tag[2] is None:
            end = source.find("-->", at) if comments else -1
            comments = end >= 0  # never search the rest of the text twice
            at = end + 3 if comments else at
            continue
        name, closing = tag[2].lower(), bool(tag[1])
        if silent:
            silent = "" if closing and name == silent else silent
        elif name in _SILENT and not closing:
            silent = name
        else:
            writer.tag(name, closing, tag[3] or "")
    if not silent:
        writer.text(source[at:])
    return writer.result()


class _Writer:
    """Collects finished blocks; the line in hand is in ``_line``."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._pre: list[str] | None = None
        self._counters: list[int] = []  # one per open list; negative: bullets
        self._quotes = 0
        self._prefix = ""
        self._bold = False
        self._href = ""
        self._href_at = 0

    def text(self, text: str) -> None:
        if self._pre is not None:
            self._pre.append(unescape(text))
        elif text:
            self._line.append(unescape(re.sub(r"\s+", " ", text)))

    def tag(self, name: str, closing: bool, attributes: str) -> None:
        if name == "pre":
            self._preformatted(closing)
        elif self._pre is not None:
            if name == "br":
                self._pre.append("\n")
        elif name in _BOLD:
            self._mark_bold(not closing)
        elif name == "code":
            self._line.append("`")
        elif name == "a":
            self._anchor(closing, attributes)
        elif name == "img":
            values = _values(attributes)
            picture = values.get("alt") or values.get("src", "").rsplit("/", 1)[-1]
            self._line.append(f"[image: {picture}]")
        elif name in ("td", "th"):
            self._line.append("" if closing else " | ")
        elif name in _PARAGRAPHS or name in _LINES:
            self._break(name, closing)

    def result(self) -> str:
        if self._pre is not None:
            self._preformatted(closing=True)
        self._end_line()
        return "\n".join(self._blocks).strip()

    def _break(self, name: str, closing: bool) -> None:
        self._end_line()
        if name in _PARAGRAPHS and self._blocks and self._blocks[-1]:
            self._blocks.append("")
        if name == "blockquote":
            self._quotes = max(0, self._quotes + (-1 if closing else 1))
        elif name in ("ul", "ol"):
            if not closing:
                self._counters.append(0 if name == "ol" else -1)
            elif self._counters:
                self._counters.pop()
        elif name == "li" and not closing:
            self._prefix = self._item()
        elif name[0] == "h" and name[1:].isdigit() and not closing:
            self._prefix = "#" * int(name[1:]) + " "

    def _item(self) -> str:
        # A hostile page may nest a thousand lists; an indent of eight says as much.
        indent = "  " * min(max(0, len(self._counters) - 1), 8)
        if not self._counters or self._counters[-1] < 0:
            return indent + "- "
        self._counters[-1] += 1
        return f"{indent}{self._counters[-1]}. "

    def _end_line(self) -> None:
        self._mark_bold(False)
        line = " ".join("".join(self._line).split())
        self._line = []
        self._href = ""
        if line:
            self._blocks.append("> " * min(self._quotes, 8) + self._prefix + line)
            self._prefix = ""

    def _mark_bold(self, on: bool) -> None:
        if on != self._bold:
            self._line.append("**")
            self._bold = on

    def _preformatted(self, closing: bool) -> None:
        if closing and self._pre is not None:
            self._blocks.append(fence("".join(self._pre)))
            self._pre = None
        elif not closing and self._pre is None:
            self._end_line()
            self._pre = []

    def _anchor(self, closing: bool, attributes: str) -> None:
        if not closing:
            self._href = unescape(_values(attributes).get("href", ""))
            self._href_at = len(self._line)
        elif self._href:
            label = "".join(self._line[self._href_at :]).strip()
            if self._href.startswith(("http", "mailto:")) and self._href != label:
                self._line.append(f" ({self._href})")
            self._href = ""


def _values(attributes: str) -> dict[str, str]:
    return {m[1].lower(): m[2] or m[3] or m[4] or "" for m in _ATTRIBUTE.finditer(attributes)}
