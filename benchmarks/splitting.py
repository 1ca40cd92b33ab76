"""How near the splitting rules come to three corpora, and how fast they are.

    python benchmarks/splitting.py [FOLDER]

FOLDER holds `conll04`, `ade` and `scierc` (default: $RELATUM_DATA). The corpora have only words, so a natural text is
made of them first (`detokenise`). The rules were tuned on the part called "tuned on"; "unseen" was only scored.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

from relatum.data.documents import split_parts, word_annotation
from relatum.data.formats import scierc, table_sequence
from relatum.data.problems import Problems
from relatum.data.splitting import make_splitter, split_sentences, split_words
from relatum.types import Document, Span

T = TypeVar("T")
RUN = 5
"""How many sentences make a paragraph where the corpus has single sentences."""

_NO_SPACE_BEFORE = frozenset(". , ; : ? ! ) ] } % ...".split())
_NO_SPACE_AFTER = frozenset("( [ { $ # `` ` “ ‘".split())
_CLITICS = frozenset("'s 't 're 've 'll 'd 'm 'S n't".split())
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text with the gold ranges of its words, sentences and entities, all in characters."""

    text: str
    words: tuple[Span, ...]
    sentences: tuple[Span, ...]
    entities: tuple[Span, ...]


def detokenise(words: Sequence[str], splits_hyphens: bool) -> list[str]:
    """What stood before each word, "" or " ", guessed.

    Punctuation, closing brackets, clitics and the parts of `150 , 000` attach to the left, opening brackets and
    currency to the right; quotes open and close in turn; `` ` ` `` and `' '` are quotes cut in two. Where a corpus
    splits hyphens and slashes, they attach on both sides.
    """
    gaps = []
    opened = {'"': False, "''": False, "'": False}
    attach_next, halves = True, False
    for i, word in enumerate(words):
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        attach, attach_next = attach_next, word in _NO_SPACE_AFTER
        if word in _NO_SPACE_BEFORE or word in _CLITICS:
            attach = True
            if word == "," and before[-1:].isdigit() and len(after.rstrip(".")) == 3 and after[:3].isdigit():
                attach_next = True
        elif halves:
            attach, attach_next, halves = True, word == "`", False
        elif word in ("`", "'") and after == word:
            attach, attach_next, halves = attach or word == "'", True, True
        elif word == "'" and before.endswith("s") and not opened[word]:
            attach = True
        elif word in opened:
            attach = attach or opened[word]
            attach_next = not opened[word]
            opened[word] = not opened[word]
        elif word.startswith("'") and before in ("O", "o", "D", "d"):
            attach = True
        elif splits_hyphens and (word == "/" or (word == "-" and not (before.isupper() and after.istitle()))):
            attach = attach_next = True
        gaps.append("" if attach else " ")
    return gaps


def paragraph(documents: Sequence[Document], splits_hyphens: bool) -> Paragraph:
    text = ""
    words: list[Span] = []
    sentences: list[Span] = []
    entities: list[Span] = []
    for document in documents:
        offsets, ranges = split_parts(document)
        first = len(words)
        for sentence in ranges:
            raw = [span.of(document.text) for span in offsets[sentence.start : sentence.end]]
            surface = [_BRACKETS.get(word, word) for word in raw]
            begin = len(text) + bool(text)
            for gap, word, before in zip(detokenise(surface, splits_hyphens), surface, ["", *surface], strict=False):
                if word == "." and before.endswith("."):
                    # The corpus writes the dot of a last abbreviation twice.
                    words.append(words[-1])
                    continue
                text += (gap if before else " " if text else "") + word
                words.append(Span(len(text) - len(word), len(text)))
            sentences.append(Span(begin, len(text)))
        spans = [entity.span for entity in word_annotation(document).entities]
        entities += [Span(words[first + span.start].start, words[first + span.end - 1].end) for span in spans]
    return Paragraph(text, tuple(dict.fromkeys(words)), tuple(sentences), tuple(entities))


def runs(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while run := list(islice(source, size)):
        yield run


def load(folder: Path) -> dict[tuple[str, str], list[Paragraph]]:
    problems = Problems()

    def sentences(documents: Iterable[Document], splits_hyphens: bool) -> list[Paragraph]:
        return [paragraph(run, splits_hyphens) for run in runs(documents, RUN)]

    conll = {
        part: list(table_sequence.read(folder / f"conll04/{part}.json", problems)) for part in ("train", "dev", "test")
    }
    ade = list(table_sequence.read(folder / "ade/all.jsonl", problems))
    sci = {part: list(scierc.read(folder / f"scierc/{part}.jsonl", problems)) for part in ("train", "dev", "test")}
    problems.raise_if_any()
    return {
        ("CoNLL04", "tuned on"): sentences(conll["train"], False),
        ("ADE", "tuned on"): sentences(ade[::2], True),
        ("SciERC", "tuned on"): [paragraph([document], False) for document in sci["train"]],
        ("CoNLL04", "unseen"): sentences(conll["dev"] + conll["test"], False),
        ("ADE", "unseen"): sentences(ade[1::2], True),
        ("SciERC", "unseen"): [paragraph([document], False) for document in sci["dev"] + sci["test"]],
    }


@dataclass(slots=True)
class Count:
    """Precision and recall over sets of positions."""

    right: int = 0
    found: int = 0
    gold: int = 0

    def add(self, found: set[int], gold: set[int]) -> None:
        self.right += len(found & gold)
        self.found += len(found)
        self.gold += len(gold)

    def row(self) -> str:
        precision, recall = self.right / self.found, self.right / self.gold
        return f"{precision:7.2%} {recall:7.2%} {2 * precision * recall / (precision + recall):7.2%}"


def borders(spans: Iterable[Span]) -> set[int]:
    """Where one range ends and another follows."""
    return {before.end for before, _ in pairwise(spans)}


def check(text: str) -> None:
    """Refuse to go on unless the words are exactly the text without its white space, and lie within sentences."""
    words, sentences = make_splitter().split(text)
    kept = [i for span in words for i in range(span.start, span.end)]
    ranges = [i for span in sentences for i in range(span.start, span.end)]
    if kept != [i for i, character in enumerate(text) if not character.isspace()] or ranges != list(range(len(words))):
        raise SystemExit(f"the words of {text[:60]!r}… do not cover it: no figures")


def measure(paragraphs: Sequence[Paragraph]) -> str:
    words, sentences = Count(), Count()
    aligned = stopped = 0
    for gold in paragraphs:
        found = split_words(gold.text)
        words.add(borders(found), borders(gold.words))
        sentences.add(borders(split_sentences(gold.text)), borders(gold.sentences))
        starts, ends = {span.start for span in found}, {span.end for span in found}
        aligned += sum(entity.start in starts and entity.end in ends for entity in gold.entities)
        stopped += sum(
            gold.text[end - 4 : end].rstrip("\"')").endswith((".", "!", "?")) for end in borders(gold.sentences)
        )
    share = aligned / sum(len(gold.entities) for gold in paragraphs)
    return f"{words.row()}  {share:7.2%}  {sentences.row()}  {stopped / sentences.gold:7.2%}"


def throughput(texts: Sequence[str], run: Callable[[str], object], rounds: int = 7) -> float:
    """Megabytes a second of processor time, the best of some rounds."""
    size = sum(len(text.encode()) for text in texts)
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for text in texts:
            run(text)
        best = min(best, time.process_time() - start)
    return size / best / 1e6


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RELATUM_DATA")
    if not folder:
        print("skipped: it needs the corpora; name their folder, or set RELATUM_DATA")
        return
    parts = load(Path(folder))
    texts = ["\n".join(p.text for p in run) for paragraphs in parts.values() for run in runs(paragraphs, 5)]
    for text in texts:
        check(text)
    print("                    word borders             entities sentence ends            gold ends")
    print("                    P       R       F1       aligned  P       R       F1       with a stop")
    for (corpus, part), paragraphs in parts.items():
        print(f"{corpus:8} {part:9} {measure(paragraphs)}")
    print(f"\n{sum(map(len, texts)) / 1e6:.1f} MB in {len(texts)} texts, one core:")
    for name, run in (("words", split_words), ("sentences", split_sentences), ("both", make_splitter().split)):
        print(f"{name:10} {throughput(texts, run):6.1f} MB/s")


if __name__ == "__main__":
    main()
