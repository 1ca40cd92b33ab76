"""Small random encoders in the layout of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "b",
    "c",
    "##a",
    "##b",
    "##c",
    "##bc",
    "[",
    "]",
    "s",
    "##e",
    "##p",
    "[MASK]",
]
_SMALL = {"vocab_size": 300, "pad_token_id": 0}
_USUAL = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": _USUAL,
    "roberta": {**_USUAL, "pad_token_id": 1},
    "mpnet": {**_USUAL, "pad_token_id": 1},
    "electra": {**_USUAL, "embedding_size": 8},
    "albert": {**_USUAL, "embedding_size": 8, "num_hidden_groups": 1},
    "longformer": {**_USUAL, "pad_token_id": 1, "attention_window": [4, 4, 4]},
    "modernbert": {
        **_USUAL,
        "local_attention": 4,
        "bos_token_id": 2,
        "cls_token_id": 2,
        "eos_token_id": 3,
        "sep_token_id": 3,
    },
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 20, "max_position_embeddings": 24},
}


def wordpiece() -> Tokenizer:
    """Like BERT's, truncation and padding left on as published files have them."""
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=8)
    return tokenizer


def byte_level() -> Tokenizer:
    """Like RoBERTa's: `Ġ` marks a space."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[letter] = len(vocabulary)
    vocabulary["Ġa"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the folder of a small random model of a kind, of other sizes where they are given, once."""
    made: dict[str, Path] = {}

    def make(kind: str, **sizes: int) -> Path:
        name = "-".join((kind, *(f"{key}-{value}" for key, value in sizes.items())))
        if name not in made:
            folder = tmp_path_factory.mktemp(kind)
            torch.manual_seed(5)
            config = transformers.AutoConfig.for_model(kind, **{**_SMALL, **CONFIGS[kind], **sizes})
            model: Any = transformers.AutoModel.from_config(config)
            for parameter in model.parameters():
                parameter.data += 0.3 * torch.randn_like(parameter)
            model.save_pretrained(folder)
            described = json.loads((folder / "config.json").read_text())
            assert described["model_type"] == kind
            (byte_level() if kind == "roberta" else wordpiece()).save(str(folder / "tokenizer.json"))
            made[name] = folder
        return made[name]

    return make
