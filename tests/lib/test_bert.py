"""The encoder graph where the real models do not show it; test_embeddings holds the reference."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from supportkg.lib import bert


def test_package_file_missing_and_altered() -> None:
    with pytest.raises(ImportError, match="no-such-package is not installed"):
        bert.package_file("no-such-package", "file", "")
    with pytest.raises(ValueError, match=r"numpy.__init__\.py has SHA-256 .* expected 00"):
        bert.package_file("numpy", "__init__.py", "00")


def test_graph_with_four_bit_words_equals_the_same_in_float() -> None:
    rng = np.random.default_rng(7)
    width, words = 64, 50
    shapes = {"attention.self.query": (width, width), "attention.self.key": (width, width)}
    shapes |= {"attention.self.value": (width, width), "attention.output.dense": (width, width)}
    shapes |= {"intermediate.dense": (width * 4, width), "output.dense": (width, width * 4)}
    weights: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        weights[f"encoder.layer.0.{name}.weight"] = rng.normal(0, 0.2, shape)
        weights[f"encoder.layer.0.{name}.bias"] = rng.normal(0, 0.2, shape[0])
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        weights[f"{name}.LayerNorm.weight"] = rng.normal(1, 0.2, width)
        weights[f"{name}.LayerNorm.bias"] = rng.normal(0, 0.2, width)
    weights["embeddings.position_embeddings.weight"] = rng.normal(0, 1, (20, width))
    weights["embeddings.token_type_embeddings.weight"] = rng.normal(0, 1, (2, width))
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    signed = rng.integers(-8, 8, (words, width))
    scales = rng.uniform(0.1, 0.5, (words, width // 32)).astype(np.float32)
    name = "embeddings.word_embeddings"
    packed = (signed[:, ::2] & 15 | (signed[:, 1::2] & 15) << 4).astype(np.uint8)
    plain = (signed * scales.repeat(32, axis=1)).astype(np.float32)
    feed = {
        "input_ids": np.array([[3, 1, 4, 1], [5, 9, 0, 0]], np.int32),
        "mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32),
    }
    outputs = []
    four_bit: dict[str, np.ndarray] = {f"{name}.weight": packed, f"{name}.scales": scales}
    for extra in ({f"{name}.weight": plain}, four_bit):
        model = bert.graph(weights | extra, layers=1, heads=2, epsilon=1e-12)
        outputs.append(onnxruntime.InferenceSession(model).run(None, feed)[0])
    assert outputs[0].shape == (2, width)
    assert np.allclose(outputs[0], outputs[1], atol=1e-5)
