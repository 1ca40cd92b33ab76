"""Make sentences of Re-DocRED as training data: Wikipedia, with relations of Wikidata by readable names.

    RELATUM_DATA=… python -m scripts.wiki_data OUT

OUT gets train.json, dev.json and test.json. Documents of Re-DocRED's dev part, and four fifths of its test part, are
train and dev; the rest is test. A relation is in a sentence if both entities have a mention in it and the evidence
names the sentence or is empty; it holds between the two mentions that are nearest to each other. Mentions may lie
inside others, and pairs may have several relations, which only span tagging (tagging.kind=spans) can express. Of a
relation and its inverse (part_of and has_part), one is kept and the other is turned round. Relation types with fewer
than 30 pairs in train are left out, and three that say little.

Train and dev get sentences of news and of abstracts that name nothing: nearly every sentence of Wikipedia names
something, so a model that has seen no others finds names in plain text. They also get sentences of written patterns
(scripts/patterns/wiki.txt), since many relations are rare in so few documents.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from scripts.plain_text import neutral_sentences, without_entities
from scripts.written_sentences import written_sentences

Record = dict[str, Any]
Span = tuple[int, int, str]
LEAST = 30
MOST_WORDS = 90
INVERSE = {
    "contains administrative territorial entity": "located in the administrative territorial entity",
    "has part": "part of",
    "participant": "participant of",
    "followed by": "follows",
    "subsidiary": "parent organization",
    "capital": "capital of",
    "father": "child",
    "mother": "child",
    "present in work": "characters",
}
"""Relations that are turned round: head and tail swapped, the name on the left becomes the name on the right."""
SHORT = {
    "dissolved, abolished or demolished": "dissolved",
    "languages spoken, written or signed": "languages spoken",
    "located in or next to body of water": "located next to body of water",
    "located in the administrative territorial entity": "located in",
    "mouth of the watercourse": "flows into",
}
"""Shorter names for those of Wikidata."""
LEFT_OUT = {"applies_to_jurisdiction", "instance_of", "subclass_of"}
"""Relations that say little about names in a text, and that annotators did not use in one way."""
N_NEUTRAL = {"train": 600, "dev": 60}
N_WRITTEN = {"train": 5600, "dev": 360}


def main(out: Path) -> None:
    data = Path(os.environ["RELATUM_DATA"]) / "redocred"
    names = json.loads((data / "relation-names.json").read_text(encoding="utf-8"))
    dev, test = (json.loads((data / f"{part}_revised.json").read_text(encoding="utf-8")) for part in ("dev", "test"))
    n_held_out = len(test) // 5
    documents = {"test": test[:n_held_out], "train": [*dev, *test[n_held_out:]]}
    random.Random(0).shuffle(documents["train"])
    documents["dev"], documents["train"] = documents["train"][:80], documents["train"][80:]
    for document in (*documents["train"], *documents["dev"], *documents["test"]):
        document["labels"] = [_named(label, names[label["r"]]) for label in document["labels"]]
    parts = {part: [r for document in documents[part] for r in _sentences(document)] for part in documents}
    neutral = neutral_sentences(data.parent / "text")
    for part, size in N_NEUTRAL.items():
        parts[part] += [without_entities(words) for words in islice(neutral, size)]
    for part, size in N_WRITTEN.items():
        parts[part] += written_sentences("wiki", part, size)
    found = Counter(relation[4] for record in parts["train"] for relation in record["relations"])
    kept = {label for label, count in found.items() if count >= LEAST} - LEFT_OUT
    out.mkdir(parents=True)
    for part, records in parts.items():
        for record in records:
            record["relations"] = [relation for relation in record["relations"] if relation[4] in kept]
        (out / f"{part}.json").write_text(json.dumps(records, ensure_ascii=False) + "\n", encoding="utf-8")
        n_relations = sum(len(record["relations"]) for record in records)
        print(f"{part}: {len(records):,} sentences, {n_relations:,} relations")
    print(f"{len(kept)} types of relations")


def _named(label: Mapping[str, Any], name: str) -> Record:
    """Return a relation by its name, turned round if its inverse is the one that is kept."""
    named = {"r": name, "h": label["h"], "t": label["t"], "evidence": label["evidence"]}
    if name in INVERSE:
        named.update(r=INVERSE[name], h=label["t"], t=label["h"])
    named["r"] = SHORT.get(named["r"], named["r"]).replace(" ", "_")
    return named


def _sentences(document: Mapping[str, Any]) -> Iterator[Record]:
    for number, tokens in enumerate(document["sents"]):
        if len(tokens) <= MOST_WORDS:
            mentions = [_mentions(vertex, number) for vertex in document["vertexSet"]]
            spans = _one_per_place(span for group in mentions for span in group)
            groups = [[span for span in group if span in spans] for group in mentions]
            relations = _relations(document["labels"], groups, number)
            yield {"tokens": tokens, "entities": sorted(map(list, spans)), "relations": relations}


def _mentions(vertex: list[Mapping[str, Any]], sentence: int) -> list[Span]:
    here = [mention for mention in vertex if mention["sent_id"] == sentence]
    return [(mention["pos"][0], mention["pos"][1], mention["type"]) for mention in here]


def _one_per_place(spans: Iterable[Span]) -> set[Span]:
    """Keep one of spans with the same words: the file names the entities of a relation by their words."""
    return set({span[:2]: span for span in sorted(spans, reverse=True)}.values())


def _relations(labels: list[Mapping[str, Any]], groups: list[list[Span]], sentence: int) -> list[list[Any]]:
    found: dict[tuple[Span, Span, str], None] = {}
    for label in labels:
        heads, tails = groups[label["h"]], groups[label["t"]]
        if not heads or not tails or (label["evidence"] and sentence not in label["evidence"]):
            continue
        pair = min(((head, tail) for head in heads for tail in tails), key=lambda pair: abs(pair[0][0] - pair[1][0]))
        if pair[0] != pair[1]:
            found[*pair, label["r"]] = None
    return [[*head[:2], *tail[:2], label] for head, tail, label in found]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
