"""Embedding models of a few kilobytes, written into a folder without downloads.

Their vocabulary is a few words and all letters. Words of a group share a vector, as a trained model gives them similar
ones: a search can find a memory by meaning although it shares no word with the query.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH: Final = 32
READS: Final = 48
"""Maximum number of tokens that the models read."""
GROUPS: Final = (
    ("cello", "violoncello", "instrument"),
    ("soup", "broth"),
    ("roof", "gutter"),
    ("query", "search", "represent"),
    ("passage", "document"),
    *((word,) for word in ("ann", "ben", "plays", "cooks", "repairs", "the", "every", "sunday", "in", "attic")),
)
SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIGNS: Final = (*string.ascii_lowercase, *string.digits, *string.punctuation)
PIECES: Final = (*SIGNS, *(f"##{sign}" for sign in (*string.ascii_lowercase, *string.digits)))
VOCABULARY: Final = [*SPECIAL, *PIECES, *(word for group in GROUPS for word in group)]


def vectors() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the vector of each token: equal within a group of words, shorter for pieces so that words dominate."""
    rng = np.random.default_rng(7)
    matrix = rng.normal(size=(len(VOCABULARY), WIDTH)).astype(np.float32)
    matrix[: len(SPECIAL) + len(PIECES)] *= 0.1
    for group in GROUPS:
        places = [VOCABULARY.index(word) for word in group]
        matrix[places] = matrix[places[0]]
    return matrix


def write_tokenizer(folder: Path) -> None:
    words = models.WordPiece({token: n for n, token in enumerate(VOCABULARY)}, unk_token="[UNK]")
    tokenizer: Any = Tokenizer(words)  # its setters accept more than its types allow
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    config = {"tokenizer_class": "BertTokenizer", "model_max_length": READS, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")


def write_onnx(folder: Path) -> None:
    """Write a model that looks up token vectors, in the layout that `fastembed` reads."""
    folder.mkdir(parents=True)
    write_tokenizer(folder)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [None, None])
    hidden = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [None, None, WIDTH])
    lookup = helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])
    matrix = numpy_helper.from_array(vectors(), "vectors")
    graph = helper.make_graph([lookup], "tiny", [ids], [hidden], [matrix])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def write_bert(folder: Path, prompts: dict[str, str] | None = None) -> None:
    """Write a two-layer BERT with random weights except for its tokens', in the layout of sentence-transformers."""
    torch: Any = pytest.importorskip("torch", reason="sentence-transformers isn't installed: make test-models")
    packages: Any = pytest.importorskip("sentence_transformers")
    modules: Any = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=READS,
    )
    model = transformers.BertModel(config)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.copy_(torch.from_numpy(vectors()))
    bare = folder.parent / f"{folder.name}-bare"
    bare.mkdir(parents=True)
    model.save_pretrained(bare)
    write_tokenizer(bare)
    reading = modules.Transformer(str(bare), max_seq_length=READS)
    packages.SentenceTransformer(modules=[reading, modules.Pooling(WIDTH)], prompts=prompts).save(str(folder))


def write(kind: str, folder: Path) -> Path:
    """Write a model for an embedder of this kind; skip the test if its package isn't installed."""
    if kind == "sentence-transformers":
        write_bert(folder)
    else:
        write_onnx(folder)
    return folder
