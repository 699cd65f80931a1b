"""Which encoding a file is in, without holding the file.

Promises UTF-8 whenever the bytes are UTF-8, and a sentence for the operator
whenever the answer is a guess.
Must never happen: a picture, an archive or an Office file read as if it were
text; a whole file turned into mojibake because of one broken byte.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from charset_normalizer import from_bytes

from tickets.importers.raw import FileError

SAMPLE = 1 << 16
_CHUNK = 1 << 20

_MAGIC = {
    b"PK\x03\x04": "a zip archive or an Office file (.xlsx); save the sheet as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Office file (.xls); save the sheet as CSV UTF-8",
    b"\x1f\x8b": "gzip-compressed; unpack it first",
    b"BZh": "bzip2-compressed; unpack it first",
    b"\xfd7zXZ": "xz-compressed; unpack it first",
    b"(\xb5/\xfd": "zstd-compressed; unpack it first",
    b"%PDF": "a PDF",
    b"SQLite format 3": "an SQLite database",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x7fELF": "a program",
    b"PAR1": "a Parquet file; save it as CSV or JSON Lines",
}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the other's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Control characters that no text has; tab, line ends, form feed and escape may be there.
_CONTROL = bytes(set(range(32)) - set(b"\t\n\x0b\x0c\r\x1b"))


def find_encoding(path: Path) -> tuple[str, str]:
    """(codec, what to tell the operator; empty when nothing was guessed).

    Reads the whole file once, a megabyte at a time. Raises FileError when the
    file is empty, binary, or in no encoding that can be told.
    """
    with path.open("rb") as file:
        head = file.read(SAMPLE)
    if len(head) < SAMPLE and not head.strip(b" \t\r\n\0" + codecs.BOM_UTF8):
        raise FileError(f"{path.name}: the file is empty")
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            raise FileError(f"{path.name}: this is {what}")
    for mark, codec in _BOMS:
        if head.startswith(mark):
            return codec, ""
    wide = _utf16_without_mark(head)
    if wide:
        return wide, f"no byte-order mark; read as {wide} because every other byte is zero"
    controls = len(head) - len(head.translate(None, _CONTROL))
    if controls >= 16 and controls > len(head) * 0.05:
        raise FileError(f"{path.name}: this is a binary file, not text")
    broken = _not_utf8(path)
    return _guess(path, broken) if broken else ("utf-8", "")


def _utf16_without_mark(head: bytes) -> str:
    pairs = len(head) // 2
    high, low = head[1::2].count(0), head[0::2].count(0)
    if pairs and high > pairs * 0.4 and low < pairs * 0.05:
        return "utf-16-le"
    if pairs and low > pairs * 0.4 and high < pairs * 0.05:
        return "utf-16-be"
    return ""


def _not_utf8(path: Path) -> bytes:
    """The surroundings of the first byte that is not UTF-8; nothing when all are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            at = file.tell() - len(error.object) + error.start
            file.seek(max(0, at - SAMPLE // 2))
            return file.read(SAMPLE)
    return b""


def _guess(path: Path, sample: bytes) -> tuple[str, str]:
    text = sample.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(not character.isascii() for character in text) - bad
    if good > 4 * bad:
        # One torn character does not make the file Windows-1252.
        return "utf-8", "some bytes are not UTF-8; each is replaced by U+FFFD"
    best = from_bytes(sample).best()
    if best is None:
        raise FileError(f"{path.name}: the encoding could not be told; save the file as UTF-8")
    # Several Windows code pages often read the same bytes alike; the western one is by far the
    # most common among them.
    codec = "cp1252" if "cp1252" in best.could_be_from_charset else best.encoding
    return codec, f"the file is not UTF-8; guessed {codec}: look at its accented letters"
