from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from relatum.config import Config
from relatum.training.corpus import load_training_data
from relatum.training.reports.card import make_card


@pytest.mark.parametrize(("tuning", "words"), [("frozen", "(frozen)"), ("lora", "LoRA"), ("full", "all its weights")])
def test_card_says_what_was_learned_of_the_encoder(
    small_corpus: Path, tiny: Callable[..., Config], tuning: str, words: str
) -> None:
    config = tiny("encoder.kind=huggingface", "encoder.name=some-bert", f"encoder.tuning={tuning}")
    card = make_card(load_training_data(small_corpus, config), "news", config, "relatum train …", 4, {})
    line = next(line for line in card.splitlines() if line.startswith("- Encoder: `some-bert`"))
    assert words in line
    assert ("frozen" in line) == (tuning == "frozen")
