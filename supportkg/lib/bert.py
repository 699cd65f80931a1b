"""Any BERT sentence encoder as one ONNX graph, and the check of the files its weights come from.

Promises: ids and mask in, unit vectors out; mean over the tokens of the last layer and L2 norm are
inside, as sentence-transformers computes them. Must never happen: a file other than the pinned one
is used.

Encoder: Devlin et al., "BERT", NAACL 2019, section 3. Attention and BiasGelu are ONNX Runtime's
fused operators; its SkipLayerNormalization was measured slower than the plain operators here.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

_FUSED = "com.microsoft"


@dataclass(frozen=True)
class Source:
    """Where a model comes from. The functions raise ImportError, ValueError or OSError."""

    digest: str
    """Of the weights."""
    graph: Callable[[], bytes]
    """Builds the serialised ONNX model. Slow and large: its result is to be cached."""
    tokenizer: Callable[[], Tokenizer]
    """Without truncation and padding."""


def package_file(package: str, name: str, sha256: str) -> Path:
    """Path of a file inside an installed package, its digest verified.

    Raises ImportError when the package is missing, ValueError when the file is not the pinned one.
    """
    # The package itself is not run: one wants torch, another loads a library of its own.
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the package {package} is not installed")
    path = Path(spec.submodule_search_locations[0]) / name
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(f"{path} has SHA-256 {found}, expected {sha256}")
    return path


def graph(weights: Mapping[str, np.ndarray], *, layers: int, heads: int, epsilon: float) -> bytes:
    """The serialised ONNX model for weights named as in a Hugging Face BertModel, float32.

    Word vectors may be 4-bit instead: `…word_embeddings.weight` uint8 (words, width / 2) with two
    signed halves each, the lower first, and `…word_embeddings.scales` float32 (words, width / 32).

    Inputs `input_ids` and `mask`, int32 (batch, tokens), padded on the right. Output `embedding`,
    float32 (batch, width), rows of length 1.
    """
    # Only the process that fills the cache needs onnx (30 MB).
    import onnx  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        output = f"{kind}.{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def weight(name: str) -> str:
        return constant(name, weights[name])

    def linear(value: str, name: str) -> str:
        # PyTorch keeps (out, in); the bias is left to the operator that follows.
        return node("MatMul", value, constant(f"{name}.weight", weights[f"{name}.weight"].T))

    def norm(value: str, name: str) -> str:
        parts = weight(f"{name}.weight"), weight(f"{name}.bias")
        return node("LayerNormalization", value, *parts, epsilon=epsilon)

    def add_norm(value: str, residual: str, name: str) -> str:
        value = node("Add", linear(value, f"{name}.dense"), weight(f"{name}.dense.bias"))
        return norm(node("Add", value, residual), f"{name}.LayerNorm")

    name = "embeddings.word_embeddings"
    if f"{name}.scales" in weights:
        raw = np.ascontiguousarray(weights[f"{name}.weight"]).tobytes()
        shape = [len(weights[f"{name}.weight"]), weights[f"{name}.weight"].shape[1] * 2]
        constants.append(helper.make_tensor(name, TensorProto.INT4, shape, raw, raw=True))
        parts = name, "input_ids", weight(f"{name}.scales")
        hidden = node("GatherBlockQuantized", *parts, domain=_FUSED, block_size=32, quantize_axis=1)
    else:
        hidden = node("Gather", weight(f"{name}.weight"), "input_ids")
    # Every token is of the first segment, so the vector of that is folded into the positions.
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    places = constant("places", weights["embeddings.position_embeddings.weight"] + segment)
    zero, one = constant("zero", np.zeros(1, np.int64)), constant("one", np.ones(1, np.int64))
    places = node("Slice", places, zero, node("Shape", "input_ids", start=1, end=2))
    hidden = norm(node("Add", hidden, places), "embeddings.LayerNorm")
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        qkv = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([weights[f"{part}.weight"].T for part in qkv], axis=1)
        bias = np.concatenate([weights[f"{part}.bias"] for part in qkv])
        joined = constant(f"{name}.qkv.weight", matrix), constant(f"{name}.qkv.bias", bias)
        value = node("Attention", hidden, *joined, "mask", domain=_FUSED, num_heads=heads)
        hidden = add_norm(value, hidden, f"{name}.attention.output")
        inner = f"{name}.intermediate.dense"
        value = node("BiasGelu", linear(hidden, inner), weight(f"{inner}.bias"), domain=_FUSED)
        hidden = add_norm(value, hidden, f"{name}.output")
    # Mean and sum differ by a factor that the norm removes: (b, 1, t) x (b, t, w) = (b, 1, w).
    mask = node("Unsqueeze", node("Cast", "mask", to=TensorProto.FLOAT), one)
    total = node("Squeeze", node("MatMul", mask, hidden), one)
    nodes.append(helper.make_node("LpNormalization", [total], ["embedding"], axis=1, p=2))

    tensor = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "bert",
        [tensor(name, TensorProto.INT32, ["batch", "tokens"]) for name in ("input_ids", "mask")],
        [tensor("embedding", TensorProto.FLOAT, ["batch", segment.size])],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_FUSED, 1)]
    # By default onnx writes its own newest format, which the pinned runtime may refuse.
    model = helper.make_model(body, opset_imports=opsets, ir_version=10)
    # Handed to the helpers above they would be in memory four times over.
    while constants:
        model.graph.initializer.append(constants.pop())
    return model.SerializeToString()
