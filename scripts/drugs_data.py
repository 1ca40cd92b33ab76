"""Make the training data of the shipped model `drugs`: ADE, and sentences that state no adverse effect.

    RELATUM_DATA=… python -m scripts.drugs_data OUT

Every sentence of ADE states an adverse effect, but most sentences of any report do not: a model that has seen ADE
alone finds effects everywhere. OUT gets train.json, dev.json and test.json. Train is the train part of ADE's first
fold with three times as many sentences of the corpus's negative part, and some of news and of abstracts. Dev has four
sentences of the negative part for each of ADE's, about as many as the corpus has. Both get sentences of written
patterns (scripts/patterns/drugs.txt) for wording that ADE rarely has: antidotes, indications, negated effects, notes
and posts of patients. Test is that of the fold, for comparison. negative-test.json holds negative sentences that are
in no other part.
"""

from __future__ import annotations

import json
import os
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from scripts.plain_text import keep_usual_lengths, read_lines, split_sentences, without_entities
from scripts.written_sentences import written_sentences

Record = dict[str, Any]
TRAIN_RATIO, DEV_RATIO = 3, 4
MOST_WORDS = 90
N_WRITTEN = {"train": 1500, "dev": 150}


def main(out: Path) -> None:
    data = Path(os.environ["RELATUM_DATA"])
    positive = [json.loads(line) for line in (data / "ade" / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    fold = json.loads((data / "ade" / "folds.json").read_text(encoding="utf-8"))[0]
    parts = {part: [positive[number] for number in fold[part]] for part in ("train", "dev", "test")}

    seen = {tuple(record["tokens"]) for record in positive}
    negative: list[Record] = []
    for line in read_lines(data / "ade-full" / "negative.txt.gz"):
        tokens = [word for sentence in split_sentences(line) for word in sentence]
        if tokens and len(tokens) <= MOST_WORDS and tuple(tokens) not in seen:
            seen.add(tuple(tokens))
            negative.append(without_entities(tokens))
    random.Random(0).shuffle(negative)
    n_held_out = len(negative) * 15 // 100
    held_out, dev, train = negative[:n_held_out], negative[n_held_out : 2 * n_held_out], negative[2 * n_held_out :]

    news = keep_usual_lengths(
        sentence
        for line in read_lines(data / "text" / "reuters.txt.gz")
        for sentence in split_sentences(line[:3000])[:2]
    )
    science = keep_usual_lengths(
        sentence
        for line in read_lines(data / "text" / "acl-abstracts.txt.gz")
        for sentence in split_sentences(line)[1:2]
    )
    conll = [record["tokens"] for record in json.loads((data / "conll04" / "train.json").read_text(encoding="utf-8"))]
    for pool in (others := [list(islice(news, 6000)), list(islice(science, 4000)), conll]):
        random.Random(1).shuffle(pool)
    neutral = [tokens for pool, size in zip(others, (500, 400, 400), strict=True) for tokens in pool[:size]]
    neutral_dev = [tokens for pool, at in zip(others, (500, 400, 400), strict=True) for tokens in pool[at : at + 50]]

    parts["train"] += train[: TRAIN_RATIO * len(parts["train"])] + list(map(without_entities, neutral))
    parts["dev"] += dev[: DEV_RATIO * len(parts["dev"])] + list(map(without_entities, neutral_dev))
    for part, size in N_WRITTEN.items():
        parts[part] += written_sentences("drugs", part, size)
    parts["negative-test"] = held_out
    out.mkdir(parents=True)
    for part, records in parts.items():
        (out / f"{part}.json").write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
        print(
            f"{part}: {len(records):,} sentences, {sum(bool(record['entities']) for record in records):,} with entities"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2 or "RELATUM_DATA" not in os.environ:
        sys.exit("usage: RELATUM_DATA=… python -m scripts.drugs_data OUT")
    main(Path(sys.argv[1]))
