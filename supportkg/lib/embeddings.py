"""Texts become vectors on this machine: ONNX Runtime and tokenizers, no torch, no network.

Promises: one text gives the same unit vector whatever it is embedded together with (to float32
rounding); any Python string is accepted, however long or broken; the network's memory is bounded by
the batch, not by the number or length of texts; nothing is loaded before the first text comes. Must
never happen: NaN in a vector, or vectors of two models in one array.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from tokenizers import Tokenizer

from supportkg.lib import bert, e5, minilm

DEFAULT_MODEL = "all-MiniLM-L6-v2"
# Padded tokens in one run of the network. Measured on two cores: 256 to 1024 are within 8 %, 2048
# and more are a fifth slower (the intermediate values no longer fit the processor's cache).
BATCH_TOKENS = 512
# Raise when bert.graph or e5.graph changes: the cached graphs are named after it.
_GRAPH_VERSION = 1
# Texts tokenised at a time; more would only hold more tokenizer output in memory.
_TOKENIZE_TEXTS = 256
# No ordinary text has more characters to a word piece, so that many hold what a truncation keeps.
_CHARS_PER_TOKEN = 16
_SURROGATE = re.compile("[\ud800-\udfff]")
# Where to end a chunk, best first: after a paragraph, a line or sentence, a word.
_BORDERS = [re.compile(r"\n\s*\n"), re.compile(r"\n|[.!?]\s|[。！？]"), re.compile(r"\s")]


class EmbeddingError(Exception):
    """Embedding is not possible: unknown model, missing or altered package, unusable cache."""


@dataclass(frozen=True)
class EmbeddingModel:
    """A model and what depends on its scale. Cosines of two models are never compared."""

    name: str
    implicit_link_min_cosine: float
    """Two titles at least this close (cosine, 0 to 1) are proposed as SIMILAR_TO."""
    decline_below_cosine: float
    """A question whose best ticket is below this (cosine, 0 to 1) is not answered."""
    dimensions: int = 384
    max_tokens: int = 256
    """Word pieces that are read, [CLS] and [SEP] included; the rest of a text is cut off."""
    query_prefix: str = ""
    text_prefix: str = ""


EMBEDDING_MODELS: dict[str, EmbeddingModel] = {
    model.name: model
    for model in [
        EmbeddingModel(DEFAULT_MODEL, implicit_link_min_cosine=0.80, decline_below_cosine=0.42),
        # Cosines of E5 crowd between 0.7 and 1 (temperature 0.01 in training, says its model card).
        EmbeddingModel(
            "multilingual-e5-small",
            implicit_link_min_cosine=0.93,
            decline_below_cosine=0.80,
            query_prefix="query: ",
            text_prefix="passage: ",
        ),
    ]
}
_SOURCES = {DEFAULT_MODEL: minilm.SOURCE, "multilingual-e5-small": e5.SOURCE}


def get_model(name: str | None = None) -> EmbeddingModel:
    """The named model, or the one of the Django setting EMBEDDING_MODEL.

    Raises EmbeddingError for a name that is not registered.
    """
    if name is None:
        try:
            name = getattr(settings, "EMBEDDING_MODEL", DEFAULT_MODEL)
        except ImproperlyConfigured:
            name = DEFAULT_MODEL
    try:
        return EMBEDDING_MODELS[name]
    except KeyError:
        choices = ", ".join(EMBEDDING_MODELS)
        raise EmbeddingError(
            f"EMBEDDING_MODEL: no model {name!r}, choose from: {choices}"
        ) from None


@dataclass(frozen=True)
class _Loaded:
    model: EmbeddingModel
    tokenizer: Tokenizer
    session: onnxruntime.InferenceSession


_lock = threading.Lock()
# A fork waits until nothing is being loaded, or the child would inherit a lock that nobody opens.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
# By process too: the runtime's threads do not live on in a forked child (a Celery worker), which
# would wait for them for ever, both in using an inherited session and in freeing it.
_loaded: dict[tuple[int, str], _Loaded] = {}


def _load(model: EmbeddingModel) -> _Loaded:
    with _lock:
        key = os.getpid(), model.name
        if key not in _loaded:
            source = _SOURCES[model.name]
            try:
                _loaded[key] = _Loaded(model, source.tokenizer(), _session(model.name, source))
            except (ImportError, ValueError, OSError) as error:
                raise EmbeddingError(
                    f"EMBEDDING_MODEL {model.name}: {error} (see requirements-weights.txt)"
                ) from error
        return _loaded[key]


def _session(name: str, source: bert.Source) -> onnxruntime.InferenceSession:
    """A session on the cached graph, which is built when it is missing or does not load."""
    folder = Path(os.environ.get("SUPPORTKG_CACHE_DIR") or Path.home() / ".cache" / "supportkg")
    digest = hashlib.sha256(f"{_GRAPH_VERSION} {source.digest}".encode()).hexdigest()
    path = folder / f"{name}-{digest[:16]}.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    # Threads that wait for the next batch must not burn the processor of the database beside them.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    open_session = functools.partial(
        onnxruntime.InferenceSession, str(path), options, providers=["CPUExecutionProvider"]
    )
    try:
        return open_session()
    except Exception:  # noqa: BLE001 - onnxruntime's errors have no common base
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, source.graph())
        return open_session()


def _write_atomically(path: Path, content: bytes) -> None:
    """Several processes may do this at once: each writes its own file, the last rename stays."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def embed(
    texts: Sequence[str],
    *,
    model: str | None = None,
    query: bool = False,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Unit vectors of the texts: float32 (len(texts), dimensions), in the order of the texts.

    A text is cut off at the model's max_tokens word pieces. `query` says that the texts are
    questions (some models want another prefix). `on_batch` is called with the number of texts just
    finished. Safe to call from several threads. Raises EmbeddingError.
    """
    chosen = get_model(model)
    vectors = np.empty((len(texts), chosen.dimensions), np.float32)
    if not texts:
        return vectors
    loaded = _load(chosen)
    prefix = chosen.query_prefix if query else chosen.text_prefix
    tokens = _tokenize(loaded, [_clean(prefix + text) for text in texts])
    for rows in _batches([len(ids) for ids in tokens]):
        width = max(len(tokens[row]) for row in rows)
        input_ids = np.zeros((len(rows), width), np.int32)
        mask = np.zeros((len(rows), width), np.int32)
        for place, row in enumerate(rows):
            input_ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1
        vectors[rows] = loaded.session.run(None, {"input_ids": input_ids, "mask": mask})[0]
        if on_batch:
            on_batch(len(rows))
    return vectors


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Rows of like length together, so that little is padding; longest first."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        count = max(1, BATCH_TOKENS // lengths[order[start]])
        yield order[start : start + count]
        start += count


def _clean(text: str) -> str:
    # A lone surrogate cannot be UTF-8, which the tokenizer works on; U+FFFD keeps the length.
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _tokenize(loaded: _Loaded, texts: list[str]) -> list[np.ndarray]:
    """Ids of each text with its special tokens, int32, at most max_tokens long."""
    tokenizer, room = loaded.tokenizer, loaded.model.max_tokens - 2
    first, *_, last = tokenizer.encode("").ids
    result = []
    for start in range(0, len(texts), _TOKENIZE_TEXTS):
        part = texts[start : start + _TOKENIZE_TEXTS]
        heads = [_head(text, room * _CHARS_PER_TOKEN) for text in part]
        encodings = tokenizer.encode_batch_fast(heads, add_special_tokens=False)
        for text, encoding in zip(part, encodings, strict=True):
            ids = encoding.ids
            # A word of over 100 letters is one piece and blanks are none: then more text is needed.
            size = room * _CHARS_PER_TOKEN
            while len(ids) < room and size < len(text):
                size *= 4
                ids = tokenizer.encode(_head(text, size), add_special_tokens=False).ids
            result.append(np.array([first, *ids[:room], last], np.int32))
    return result


def _head(text: str, size: int) -> str:
    """The first `size` characters, or a little less to end between two words."""
    if len(text) <= size:
        return text
    border = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
    return text[: border if border > 0 else size]


def split(
    text: str, *, max_tokens: int = 256, max_chunks: int | None = None, model: str | None = None
) -> list[str]:
    """Cut a text into chunks that the model reads in full, without losing anything but blanks.

    A text that fits is one chunk. Otherwise a chunk ends after a paragraph, else after a line or
    sentence, else after a word, in its second half; what has no such place (a blob, Chinese
    without a full stop) is cut where the room ends. `max_tokens` counts word pieces, [CLS] and
    [SEP] included; it is lowered to the model's own. After `max_chunks` chunks the rest of the text
    is left out. Time grows linearly with the text. A blank text has no chunks.

    Raises EmbeddingError, and ValueError when max_tokens leaves no room for text.
    """
    chosen = get_model(model)
    loaded = _load(chosen)
    prefix = len(loaded.tokenizer.encode(chosen.text_prefix, add_special_tokens=False).ids)
    room = min(max_tokens, chosen.max_tokens) - 2 - prefix
    if room < 1:
        raise ValueError(f"max_tokens={max_tokens} leaves no room for text")
    clean = _clean(text)
    if len(clean) <= room and clean.isascii():
        # No ASCII character is more than one piece: it fits, without counting.
        return [clean.strip()] if clean.strip() else []
    chunks: list[str] = []
    start, length = 0, 3 * room
    while start < len(clean) and (max_chunks is None or len(chunks) < max_chunks):
        end = _chunk_end(loaded.tokenizer, clean, start, room, length)
        if chunk := clean[start:end].strip():
            chunks.append(chunk)
        start, length = end, end - start
    return chunks


def _chunk_end(tokenizer: Tokenizer, text: str, start: int, room: int, guess: int) -> int:
    """Where the chunk at `start` ends. Tokenises 2 x `guess` characters, more if need be."""
    size, most = 2 * guess, room * _CHARS_PER_TOKEN
    while True:
        size = min(size, most)
        window = text[start : start + size]
        encoding = tokenizer.encode(window, add_special_tokens=False)
        if len(encoding) > room or start + size >= len(text) or size == most:
            break
        size *= 2
    if len(encoding) > room:
        # A Korean syllable is several pieces that begin at one place, hence the 1.
        limit = max(1, encoding.offsets[room][0])
    elif start + size >= len(text):
        return len(text)
    else:
        limit = size
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(window, limit // 2, limit)]
        if ends:
            return start + ends[-1]
    return start + limit
