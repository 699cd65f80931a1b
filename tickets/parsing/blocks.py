"""Tell code, logs and stack traces from prose, line by line.

Promises that every line of the text is in exactly one run, in order, and that
the time is linear in the text.
Must never happen: prose swallowed by a fence that is never closed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# Shapes are judged by the beginning of a line; a longer look finds nothing new.
_MAX_LOOK = 300
_MIN_LOG_LINES = 3
_MIN_FRAMES = 2

_FENCE = re.compile(r"\s*(`{3,})([^`]*)$")
_FRAME = re.compile(
    r"\s*(?:"
    r"at [\w.$<>/ ]{2,120}\([^()]{0,120}\)"  # Java, JavaScript with a function
    r"|at (?:\w+://|/|\w:\\)\S+:\d+"  # JavaScript without one
    r"|File \"[^\"]{1,200}\", line \d+"  # Python
    r"|\d{1,3}\s+\S{1,80}(?: \S{1,40})?\s+0x[0-9a-fA-F]{6,16}\b"  # Objective-C, Swift
    r")"
)
_LOG = re.compile(
    r"\s*(?:"
    r"\[(?:ERROR|INFO|WARN|WARNING|DEBUG|TRACE|FATAL)\s*\]"
    r"|(?:ERROR|INFO|WARN|WARNING|DEBUG|TRACE|FATAL) ?[:|\-] "
    r"|[VDIWEF]/[\w.$:\-]{1,60}\s*\(\s*\d+\):"  # Android logcat
    r"|\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "  # syslog
    r")"
)
# Belongs to a trace when it touches one, and says nothing alone.
_NEAR = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|Exception in thread |Caused by: "
    r"|\.\.\. \d+ more|[()]\s*$|\*{3} (?:Terminating app|First throw|Call stack)"
    r"|(?:Uncaught )?[\w.$]{1,120}(?:Error|Exception)\b(?::|$))"
)


@dataclass(frozen=True)
class Run:
    """Lines that belong together; ``fence`` is the line around them."""

    code: bool
    lines: list[str]
    fence: str = ""

    @property
    def inner(self) -> str:
        """The lines without the empty ones around them."""
        return trimmed(self.lines)

    @property
    def text(self) -> str:
        """The lines as they stood, with their fences."""
        return "\n".join([self.fence, *self.lines, self.fence] if self.fence else self.lines)


def trimmed(lines: list[str]) -> str:
    """The lines as text, without empty ones at both ends; indents stay."""
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while first < last and not lines[last - 1].strip():
        last -= 1
    return "\n".join(lines[first:last]).rstrip()


def split(text: str) -> Iterator[Run]:
    """The runs of ``text`` in order: prose, and code by fence or by shape."""
    lines = text.split("\n")
    closers: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if "```" in line and not (ticks := line.strip()).strip("`"):
            closers.setdefault(ticks, []).append(number)
    prose: list[str] = []
    at = 0
    while at < len(lines):
        opener = _FENCE.match(lines[at])
        ends = closers.get(opener[1], []) if opener else []
        following = bisect_right(ends, at)
        if following < len(ends):
            yield from _by_shape(prose)
            prose = []
            code = lines[at + 1 : ends[following]]
            if opener and " " in opener[2].strip():
                code.insert(0, opener[2])  # not a language: somebody began the code there
            yield Run(True, code, fence=lines[ends[following]])
            at = ends[following] + 1
        else:
            prose.append(lines[at])
            at += 1
    yield from _by_shape(prose)


def _by_shape(lines: list[str]) -> Iterator[Run]:
    """Cut traces and logs out of lines that no fence marks."""
    shapes = [_shape(line) for line in lines]
    if "F" not in shapes and "L" not in shapes:
        if lines:
            yield Run(False, lines)
        return
    prose_from = at = 0
    while at < len(lines):
        if not shapes[at]:
            at += 1
            continue
        end = _end_of_run(lines, shapes, at)
        found = "".join(shapes[at:end])
        if found.count("F") >= _MIN_FRAMES or found.count("L") + found.count("F") >= _MIN_LOG_LINES:
            if prose_from < at:
                yield Run(False, lines[prose_from:at])
            yield Run(True, lines[at:end])
            prose_from = end
        at = end
    if prose_from < len(lines):
        yield Run(False, lines[prose_from:])


def _end_of_run(lines: list[str], shapes: list[str], at: int) -> int:
    """One past the last line that belongs to the run that begins at ``at``."""
    end = at + 1
    while end < len(lines):
        if shapes[end]:
            end += 1
        elif lines[end][:4].isspace() and lines[end].strip() and shapes[end - 1] == "F":
            end += 1  # the source line that Python prints below a frame
        elif not lines[end].strip() and end + 1 < len(lines) and shapes[end + 1]:
            end += 1  # one empty line does not end a log
        else:
            break
    return end


def _shape(line: str) -> str:
    """F frame, L line of a log, N near a trace, '' anything else."""
    if not line or line.isspace():
        return ""
    look = line[:_MAX_LOOK]
    if _FRAME.match(look):
        return "F"
    if _LOG.match(look):
        return "L"
    return "N" if _NEAR.match(look) else ""
