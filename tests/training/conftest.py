"""A small corpus and a network small enough to be trained in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relatum.config import Config, load_config
from relatum.monitor import Evaluation, Monitor
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunRecord

TINY = (
    "encoder.kind=none",
    "model.width=16",
    "model.n_layers=2",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=32",
    "characters.width=8",
    "training.batch_size=8",
    "training.warmup_steps=5",
    "training.steps=12",
    "training.evaluate_every=4",
)


class Silent(Monitor):
    """A monitor that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.evaluations: list[tuple[Evaluation, bool]] = []
        self.steps: list[int] = []
        self.on_advance: Callable[[int], None] = lambda _: None

    def start(self, step: int, steps: int) -> None:
        del steps
        self.steps.append(step)

    def advance(self, step: int, loss: float) -> None:
        del loss
        self.steps.append(step)
        self.on_advance(step)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        self.evaluations.append((evaluation, best))

    def say(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> Path:
    """The first documents of each part of the news examples."""
    folder = tmp_path_factory.mktemp("data") / "news"
    folder.mkdir()
    for name, size in (("train", 16), ("dev", 6), ("test", 6)):
        lines = (examples_folder / "news" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) >= size
        assert all(json.loads(line) for line in lines)
        (folder / f"{name}.jsonl").write_text("\n".join(lines[:size]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT that cuts words into letters and reads at most 62 of them."""
    return make_bert(tmp_path_factory.mktemp("bert"))


def make_bert(folder: Path, **sizes: int) -> Path:
    """Such a BERT in a folder; of other sizes where they are given."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [chr(code) for code in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(5)
    usual = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "max_position_embeddings": 64,
    }
    config: Any = transformers.AutoConfig.for_model("bert", vocab_size=len(pieces), **{**usual, **sizes})
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture
def silent() -> Silent:
    return Silent()


@pytest.fixture
def tiny() -> Callable[..., Config]:
    """The settings of a tiny network, with overrides."""
    return lambda *overrides: load_config(None, [*TINY, *overrides])


@pytest.fixture
def start(small_corpus: Path) -> Callable[[Config], tuple[TrainingData, RunRecord]]:
    """The small corpus and the record of a run on it."""

    def made(config: Config) -> tuple[TrainingData, RunRecord]:
        data = load_training_data(small_corpus, config)
        return data, RunRecord(config, str(small_corpus), None, None, "cpu", "relatum train …", data.fingerprint())

    return made
