"""Make training data for `news`: CoNLL04, and sentences of Wikipedia in which relations are rarer.

    RELATUM_DATA=… python -m scripts.news_data TEACHER OUT

Nearly every sentence of CoNLL04 states a relation, so a model that has seen CoNLL04 alone finds relations between names
that merely stand together. OUT gets train.json, dev.json and test.json. Train and dev are those of CoNLL04 with
sentences of Re-DocRED added. Their persons, organisations and places are Re-DocRED's. TEACHER, a model that was trained
on CoNLL04, adds what else CoNLL04 would annotate and decides what is Other. CoNLL04 does not annotate words such as
"American". The relations are those of Re-DocRED that have a counterpart in CoNLL04. Some plain sentences that name
nothing are added, too, and sentences of written patterns (scripts/patterns/news.txt) with facts that both corpora
rarely state in plain words. Test is CoNLL04's alone, for comparison.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from scripts.plain_text import neutral_sentences, without_entities
from scripts.written_sentences import written_sentences

from relatum import Extractor, Sentence
from relatum.types import Prediction

Record = dict[str, Any]
Span = tuple[int, int]
N_TRAIN, N_DEV = 1800, 200
N_NEUTRAL = {"train": 600, "dev": 60}
N_WRITTEN = {"train": 1500, "dev": 150}
FEWEST_WORDS, MOST_WORDS = 6, 60
LEAST_SCORE = 0.8
TYPES = {"PER": "Peop", "ORG": "Org", "LOC": "Loc"}
FORWARD = {
    ("Peop", "Org"): ("Work_For", {"P108", "P463", "P54", "P102", "P241"}),
    ("Peop", "Loc"): ("Live_In", {"P551", "P19", "P27", "P937"}),
    ("Org", "Loc"): ("OrgBased_In", {"P159", "P740", "P17", "P131", "P276"}),
    ("Loc", "Loc"): ("Located_In", {"P131", "P17", "P30", "P706", "P276", "P361"}),
}
"""Types of head and tail, the relation of CoNLL04, and the relations of Wikidata that mean it."""
PEOPLES = re.compile(
    r"\w*(ish|ese|[dghlnrtv]ians?|[rp]eans?|icans?|ench|wiss|utch|elsh|reeks?|raqis?|raelis?|stanis?)"
    r"|Germans?|Thai|Czechs?|Arabs?|Serbs?|Scots?|Jews?|Afghans?|Cubans?|Catholics?|Islamic|Christians?"
)
"""Words for the people of a country or a faith, which Re-DocRED often calls places or organisations."""
BACKWARD = {
    ("Org", "Peop"): ("Work_For", {"P169", "P488", "P1037", "P286"}),
    ("Loc", "Peop"): ("Live_In", {"P6", "P35"}),
    ("Loc", "Loc"): ("Located_In", {"P150"}),
    ("Loc", "Org"): ("OrgBased_In", {"P355"}),
}
"""The same for relations of Wikidata that name the tail first."""


def main(teacher: str, out: Path) -> None:
    data = Path(os.environ["RELATUM_DATA"])
    parts = {
        part: json.loads((data / "conll04" / f"{part}.json").read_text("utf-8")) for part in ("train", "dev", "test")
    }
    documents = [
        document
        for part in ("dev", "test")
        for document in json.loads((data / "redocred" / f"{part}_revised.json").read_text("utf-8"))
    ]
    places = [
        (document, number)
        for document in documents
        for number, tokens in enumerate(document["sents"])
        if FEWEST_WORDS <= len(tokens) <= MOST_WORDS
    ]
    random.Random(0).shuffle(places)
    places = places[: N_TRAIN + N_DEV]
    extractor = Extractor.from_pretrained(teacher, device="cuda" if torch.cuda.is_available() else "cpu")
    found = extractor.predict([Sentence(tuple(document["sents"][number])) for document, number in places])
    added = [make_record(*place, one) for place, one in zip(places, found, strict=True)]
    parts["train"] += added[:N_TRAIN]
    parts["dev"] += added[N_TRAIN:]
    neutral = neutral_sentences(data / "text")
    for part, size in N_NEUTRAL.items():
        parts[part] += [without_entities(words) for words in islice(neutral, size)]
    for part, size in N_WRITTEN.items():
        parts[part] += written_sentences("news", part, size)
    out.mkdir(parents=True)
    for part, records in parts.items():
        (out / f"{part}.json").write_text(json.dumps(records, ensure_ascii=False) + "\n", encoding="utf-8")
        n_relations = sum(len(record["relations"]) for record in records)
        n_without = sum(not record["relations"] for record in records)
        print(f"{part}: {len(records):,} sentences, {n_relations:,} relations, {n_without:,} sentences without any")


def make_record(document: Mapping[str, Any], number: int, found: Prediction) -> Record:
    """Return a sentence with the entities of both sources, and the relations of Re-DocRED between them."""
    labels = merge_entities(
        {
            tuple(mention["pos"]): mention["type"]
            for vertex in document["vertexSet"]
            for mention in vertex
            if mention["sent_id"] == number and not is_people(mention)
        },
        {
            (entity.span.start, entity.span.end): entity.label
            for entity in found.found.entities
            if (entity.score or 0) >= LEAST_SCORE
        },
    )
    mentions = [
        [
            tuple(mention["pos"])
            for mention in vertex
            if mention["sent_id"] == number and tuple(mention["pos"]) in labels
        ]
        for vertex in document["vertexSet"]
    ]
    relations: dict[tuple[Any, ...], None] = {}
    for label in document["labels"]:
        if label["evidence"] and number not in label["evidence"]:
            continue
        pairs = [(head, tail) for head in mentions[label["h"]] for tail in mentions[label["t"]] if head != tail]
        if not pairs:
            continue
        head, tail = min(pairs, key=lambda pair: abs(pair[0][0] - pair[1][0]))
        types = labels[head], labels[tail]
        if types in FORWARD and label["r"] in FORWARD[types][1]:
            relations[*head, *tail, FORWARD[types][0]] = None
        if types in BACKWARD and label["r"] in BACKWARD[types][1]:
            relations[*tail, *head, BACKWARD[types][0]] = None
    return {
        "tokens": document["sents"][number],
        "entities": [[*span, label] for span, label in sorted(labels.items())],
        "relations": [list(relation) for relation in relations],
    }


def merge_entities(wikipedia: Mapping[Span, str], teacher: Mapping[Span, str]) -> dict[Span, str]:
    """Return the entities of both by their spans; of those that overlap, Wikipedia's and then the longest are kept."""
    merged: dict[Span, str] = {}
    for span in sorted(wikipedia, key=_length, reverse=True):
        if wikipedia[span] in TYPES and not _overlaps(span, merged):
            merged[span] = "Other" if teacher.get(span) == "Other" else TYPES[wikipedia[span]]
    for span in sorted(teacher, key=_length, reverse=True):
        if not _overlaps(span, merged):
            merged[span] = "Other" if span in wikipedia else teacher[span]
    return merged


def is_people(mention: Mapping[str, Any]) -> bool:
    """Return True if a mention that is called a place or an organisation names the people of a country or a faith."""
    return mention["type"] in ("LOC", "ORG") and PEOPLES.fullmatch(mention["name"]) is not None


def _length(span: Span) -> int:
    return span[1] - span[0]


def _overlaps(span: Span, others: Iterable[Span]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
