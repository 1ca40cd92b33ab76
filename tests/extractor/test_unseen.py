"""Characters that a model has never seen: emoji, invisible characters, other scripts."""

from __future__ import annotations

import logging
import string
import unicodedata
from pathlib import Path

import pytest

from relatum.cli.app import main
from relatum.data.splitting import make_splitter
from relatum.extractor.extractor import Extractor
from relatum.extractor.unseen import UnseenCharacters
from relatum.types import Annotation, Entity, Prediction, Sentence, Span

from ..small_models import make_small_model

LATIN = string.ascii_letters + string.digits + ".,;:'"
ARABIC = "ولد محمود درويش في قرية البروة."
JAPANESE = "山田太郎は東京で生まれました。"
SCRIPTS = {
    "Arabic": ARABIC,
    "Hebrew": "דוד בן גוריון נולד בפלונסק.",
    "Japanese": JAPANESE,
    "Chinese": "山田太郎東京。",
    "Cyrillic": "Эрик Даль родился в Осло.",
    "Greek": "Ο Έρικ Νταλ γεννήθηκε στο Όσλο.",
    "Hangul": "김철수는 서울에서 태어났다.",
    "Thai": "เอริคเกิดที่ออสโล",
    "Devanagari": "एरिक का जन्म ओस्लो में हुआ।",
}


def split(unseen: UnseenCharacters, text: str) -> list[list[str]]:
    words, sentences = unseen.drop_invisible(text, *make_splitter().split(text))
    return [[word.of(text) for word in words[start:end]] for start, end in sentences]


def test_unseen_emoji_are_read_as_separators() -> None:
    unseen = UnseenCharacters(LATIN)
    words = [
        "Erik",
        "Dahl",
        "🇳🇴",
        "👍🏽",
        "❤\ufe0f",
        "👨\u200d👩\u200d👧",
        "✈",
        "\U0001fae8",
        "1\ufe0f\u20e3",
        "™",
        "—",
        "é",
    ]
    assert unseen.find_emoji(words) == [2, 3, 4, 5, 6, 7, 8]
    assert unseen.replace_emoji(words) == ["Erik", "Dahl", *";;;;;;;", *words[9:]]
    plain = ["Erik", "Dahl"]
    assert unseen.replace_emoji(plain) is plain
    assert UnseenCharacters(LATIN.replace(";", "")).replace_emoji(["a", "😀"]) == ["a", ","]
    assert UnseenCharacters("abc").replace_emoji(["a", "😀"]) == ["a", "😀"]


def test_emoji_of_the_training_texts_are_read_as_they_are() -> None:
    words = ["Erik", "😀", "👍🏽", "🇳🇴"]
    assert UnseenCharacters(LATIN + "😀👍").find_emoji(words) == [3]


def test_invisible_words_are_dropped_with_sentences_that_have_no_others() -> None:
    unseen = UnseenCharacters(LATIN)
    assert split(unseen, "Erik \u200bDahl\ufeff left. \x00 \u200e\n\n\u200b\n\nShe ca\u00adme.") == [
        ["Erik", "Dahl", "left", "."],
        ["She", "ca\u00adme", "."],
    ]
    assert split(UnseenCharacters([*LATIN, "\u200b"]), "Erik \u200bDahl") == [["Erik", "\u200b", "Dahl"]]
    assert split(unseen, "\u200b") == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_text_in_another_script_is_warned_of_once(script: str, caplog: pytest.LogCaptureFixture) -> None:
    unseen = UnseenCharacters(LATIN)
    split(unseen, "Erik Dahl was born in Norway. Ærø, Łódź, ÞÓRÐUR, ｆｕｌｌ and ﬁne: TNF-α and β.")
    assert not caplog.records
    split(unseen, f"Erik Dahl was born. {SCRIPTS[script]}")
    for text in SCRIPTS.values():
        split(unseen, text)
    ((name, level, message),) = caplog.record_tuples
    assert (name, level) == ("relatum.extractor.unseen", logging.WARNING)
    assert message.startswith(f"a text has {script} letters, but the model was trained on Latin letters alone: ")
    assert "use a model that was trained on such texts" in message


def test_model_of_another_script_is_not_warned_of_it_nor_of_letters_it_has_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    japanese = UnseenCharacters({*JAPANESE, *map(chr, range(0x4E00, 0x5000)), *map(chr, range(0x3041, 0x3090)), *LATIN})
    for text in (JAPANESE, SCRIPTS["Chinese"], "Erik Dahl was born in Norway."):
        split(japanese, text)
    biomedical = UnseenCharacters([*LATIN, *"αβγ"])
    split(biomedical, "αβγ")
    split(UnseenCharacters(".,"), ARABIC)  # a model that has seen no letters at all says nothing
    assert not caplog.records
    split(biomedical, SCRIPTS["Greek"])
    split(japanese, ARABIC)
    first, second = (record.message for record in caplog.records)
    assert "Greek letters, but the model was trained on Latin letters alone" in first
    assert "Arabic letters, but the model was trained on Chinese and " in second


def test_every_character_of_unicode_has_a_kind() -> None:
    unseen = UnseenCharacters(LATIN)
    kinds = {unseen._kind(chr(point)) for point in range(0, 0x110000, 7)}
    assert kinds == {"seen", "letter", "invisible", "emoji", "other"}
    assert all(unseen._kind(sign) == "other" for sign in "—“”’€%&/!°™®" if unicodedata.category(sign) != "Cf")


@pytest.fixture(scope="module")
def news() -> Extractor:
    return Extractor.from_pretrained("news", device="cpu")


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Erik Dahl 🇳🇴 was born in Hammerfest, Norway.", ["Erik Dahl", "Hammerfest", "Norway"]),
        ("Erik Dahl🇳🇴 lives in Oslo 👍🏽.", ["Erik Dahl", "Oslo"]),
        ("We visited Oslo ✈️ Paris ✈️ Rome.", ["Oslo", "Paris", "Rome"]),
        ("Team: Erik Dahl 🇳🇴 Mia Berg 🇸🇪 John Smith 🇺🇸.", ["Erik Dahl", "Mia Berg", "John Smith"]),
        ("Erik Dahl was born in Hammerfest,\n\nNorway.", ["Erik Dahl", "Hammerfest", "Norway"]),
        ("Norway.", ["Norway"]),
        ("He moved to Washington, D.C.", ["Washington", "D.C."]),
        ("Erik Dahl 1️⃣ lives in Oslo.", ["Erik Dahl", "Oslo"]),
        ("Erik\u200b Dahl lives in Oslo.", ["Erik\u200b Dahl", "Oslo"]),
    ],
)
def test_shipped_model_finds_names_without_what_stands_around_them(
    news: Extractor, text: str, entities: list[str]
) -> None:
    assert [entity.text for entity in news(text).entities] == entities


def test_probe_shows_words_as_they_stand_and_finds_what_extraction_finds(news: Extractor) -> None:
    text = "Erik Dahl 🇳🇴 was born in Norway."
    (probe,) = news.probe(text)
    assert [word.of(text) for word in probe.words] == ["Erik", "Dahl", "🇳🇴", "was", "born", "in", "Norway", "."]
    assert probe.layers[-1].found == news(text)


def test_entities_lose_emoji_and_the_stop_of_the_sentence_at_their_edges() -> None:
    text = "😀 Mia 😀 Berg 😀. "
    words, _ = make_splitter().split(text)
    sentence = Sentence(tuple(word.of(text) for word in words), words)

    def read(start: int, end: int, *overrides: str) -> str | None:
        found = Annotation((Entity(Span(start, end), "Peop"),))
        extractor = Extractor(make_small_model(*overrides))
        (entity,) = extractor.join_sentences(text, [Prediction(sentence, found)]).entities
        return entity.text

    assert read(0, 6) == "Mia 😀 Berg"
    assert read(0, 6, "extraction.trim_stops=false") == "Mia 😀 Berg 😀."
    assert read(1, 2) == "Mia"
    assert read(2, 3) == "😀", "something must be left"
    assert read(2, 3, "characters.kind=none", "encoder.kind=huggingface") == "😀"
    assert read(0, 4, "characters.kind=none", "encoder.kind=huggingface") == "😀 Mia 😀 Berg", (
        "nobody knows what it saw"
    )


@pytest.mark.parametrize(
    ("text", "with_stop"),
    [
        ("He left the U.S.", True),
        ("“He left the U.S.”", True),
        ("She has a Ph.D.", True),
        ("He left the U.S.!", True),
        ("He works for Acme Inc.", False),
        ("He works for amazon.com.", False),
        ("He left.", False),
    ],
)
def test_final_stop_belongs_to_letters_with_dots(text: str, with_stop: bool) -> None:
    words, _ = make_splitter().split(text)
    sentence = Sentence(tuple(word.of(text) for word in words), words)
    last = max(number for number, word in enumerate(sentence.words) if word[0].isalpha())
    found = Annotation((Entity(Span(last, last + 1), "Loc"),))
    for extractor in (Extractor(make_small_model()), Extractor(make_small_model("extraction.trim_stops=false"))):
        (entity,) = extractor.join_sentences(text, [Prediction(sentence, found)]).entities
        stop = "." if with_stop and extractor.model.config.extraction.trim_stops else ""
        assert entity.text == sentence.words[last] + stop


def test_command_line_warns_once_and_writes_the_same_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Extractor(make_small_model()).save(tmp_path / "model")
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"text": "{ARABIC}"}}\n' * 3, encoding="utf-8")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as outside of tests: warnings go to standard error
    assert main(["extract", "--model", str(tmp_path / "model"), "--input", str(path), "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    assert err.count("a text has Arabic letters") == 1
    assert len(out.splitlines()) == 3
    assert "letters, but" not in out
