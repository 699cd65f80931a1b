"""A section's plain text with structure, as safe HTML.

Promises that nothing of the text reaches the page but as text: every character
is escaped, and the only elements are the few that are made here.
Must never happen: an address, tag or attribute out of a ticket in the markup;
more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

_FENCE = re.compile(r"```[ \t]*[\w+#.-]{0,40}[ \t]*")
_HEADING = re.compile(r"#{1,6}[ \t]+(\S.*)")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")

Inline = Callable[[str], SafeString]


def bold(line: str) -> SafeString:
    """Escaped text in which ``**words**`` are strong."""
    return mark_safe(_BOLD.sub(r"<strong>\1</strong>", escape(line)))  # noqa: S308 - escaped


def to_html(text: str, inline: Inline = bold) -> SafeString:
    """Fenced code, headings, quotations and paragraphs; line breaks are kept by the style sheet.

    ``inline`` makes safe HTML of the text between block marks.
    """
    return mark_safe("".join(_blocks(text.split("\n"), inline)))  # noqa: S308 - parts are safe


def _blocks(lines: list[str], inline: Inline) -> Iterator[SafeString]:
    # A passage may begin or end inside code: without pairs, fences are lines like others.
    paired = sum(bool(_FENCE.fullmatch(line)) for line in lines) % 2 == 0
    kind, held = "text", list[str]()
    for line in lines:
        fence = paired and bool(_FENCE.fullmatch(line))
        if kind == "code":
            following = "text" if fence else "code"
        elif fence:
            following = "code"
        elif line == ">" or line.startswith("> "):
            following = "quote"
        elif _HEADING.fullmatch(line):
            following = "heading"
        else:
            following = "text" if line.strip() else "gap"
        if following != kind or fence or kind == "heading":
            yield _block(kind, held, inline)
            held = []
        kind = following
        if not fence and kind != "gap":
            held.append(line)
    yield _block(kind, held, inline)


def _block(kind: str, lines: list[str], inline: Inline) -> SafeString:
    if not lines:
        return SafeString("")
    if kind == "code":
        return format_html('<pre tabindex="0"><code>{}</code></pre>', "\n".join(lines))
    if kind == "quote":
        inner = "\n".join(line[2:] for line in lines)
        return format_html("<blockquote><p>{}</p></blockquote>", inline(inner))
    if kind == "heading":
        match = _HEADING.fullmatch(lines[0])
        return format_html('<p class="subheading">{}</p>', inline(match[1] if match else ""))
    return format_html("<p>{}</p>", inline("\n".join(lines)))
