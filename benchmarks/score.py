"""How long `relatum score` takes on 10,000 sentences; no time is printed unless the scores are right."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "relatum", "score")
ENTITY_TYPES = ("Loc", "Org", "Other", "Peop")
RELATION_TYPES = ("Kill", "Live_In", "Located_In", "OrgBased_In", "Work_For")

Record = dict[str, Any]


def make_sentence(rng: random.Random, number: int) -> Record:
    """A sentence of 24 words with four entities and two relations, near the average of news text."""
    starts = sorted(rng.sample(range(0, 24, 3), 4))
    entities = [
        {"start": start, "end": start + rng.randint(1, 3), "label": rng.choice(ENTITY_TYPES)} for start in starts
    ]
    relations = []
    for _ in range(2):
        head, tail = rng.sample(range(4), 2)
        relations.append({"head": head, "tail": tail, "label": rng.choice(RELATION_TYPES)})
    return {"id": f"s{number}", "words": [f"w{i}" for i in range(24)], "entities": entities, "relations": relations}


def disturb(rng: random.Random, sentence: Record) -> Record:
    """A prediction: every now and then a wrong end, label, direction or repetition."""
    found: Record = json.loads(json.dumps(sentence))
    for entity in found["entities"]:
        if rng.random() < 0.1:
            entity["label"] = rng.choice((*ENTITY_TYPES, "Date"))
        if rng.random() < 0.1:
            entity["end"] = entity["start"] + rng.randint(1, 3)
    for relation in found["relations"]:
        if rng.random() < 0.1:
            relation["head"], relation["tail"] = relation["tail"], relation["head"]
        if rng.random() < 0.1:
            relation["label"] = rng.choice(RELATION_TYPES)
    if rng.random() < 0.1:
        found["relations"].append(found["relations"][0])
    return found


def naive_scores(gold: list[Record], predicted: list[Record]) -> dict[str, Any]:
    """The scores from their definitions alone, straight from the records."""

    def items(record: Record, task: str) -> list[tuple[Any, ...]]:
        mentions = [(entity["start"], entity["end"], entity["label"]) for entity in record["entities"]]
        if task == "entities":
            return sorted({(label, start, end) for start, end, label in mentions})
        width = 3 if task == "relations_strict" else 2
        return sorted(
            {(r["label"], mentions[r["head"]][:width], mentions[r["tail"]][:width]) for r in record["relations"]}
        )

    def score(correct: int, found: int, wanted: int) -> Record:
        precision, recall = correct / found if found else 0.0, correct / wanted if wanted else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return {"precision": precision, "recall": recall, "f1": f1, "support": wanted}

    result = {}
    for task in ("entities", "relations", "relations_strict"):
        pairs = [(items(one, task), items(two, task)) for one, two in zip(gold, predicted, strict=True)]
        of_label: dict[str, list[int]] = {}
        for wanted, found in pairs:
            for item in found:
                of_label.setdefault(item[0], [0, 0, 0])[0] += item in wanted
                of_label[item[0]][1] += 1
            for item in wanted:
                of_label.setdefault(item[0], [0, 0, 0])[2] += 1
        types = {label: score(*counts) for label, counts in of_label.items()}
        micro = score(*(sum(counts[i] for counts in of_label.values()) for i in range(3)))
        in_gold = [value for value in types.values() if value["support"]]
        macro = {key: sum(value[key] for value in in_gold) / len(in_gold) for key in ("precision", "recall", "f1")}
        result[task] = {"micro": micro, "macro": {**macro, "support": micro["support"]}, "types": types}
    return result


def differ(one: Any, two: Any) -> bool:
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() != two.keys() or any(differ(one[key], two[key]) for key in one)
    return not (type(one) is type(two) and abs(one - two) <= 1e-12)


def run(*arguments: str) -> tuple[str, float]:
    """Standard output and wall time of the command in a fresh interpreter."""
    start = time.perf_counter()
    done = subprocess.run([*COMMAND, *arguments], check=True, capture_output=True, text=True)
    return done.stdout, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = random.Random(0)
    gold = [make_sentence(rng, number) for number in range(options.sentences)]
    predicted = [disturb(rng, sentence) for sentence in gold]
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, records in (("gold", gold), ("predicted", predicted)):
            path = Path(folder, f"{name}.jsonl")
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
            paths.append(str(path))
        if differ(json.loads(run(*paths, "--json")[0]), naive_scores(gold, predicted)):
            print("the scores differ from the naive ones; no time is given", file=sys.stderr)
            return 1
        print(f"scores of {options.sentences:,} sentences agree with the naive ones; best of {options.repeats} runs:")
        start_up = min(run("--help")[1] for _ in range(options.repeats))
        print(f"start-up (--help)           {start_up:6.3f} s")
        for name, extra in (
            ("score --json", ["--json"]),
            ("score, as a table", []),
            ("score --bootstrap 1000", ["--bootstrap", "1000"]),
            ("score GOLD A B", [paths[1]]),
        ):
            seconds = min(run(*paths, *extra)[1] for _ in range(options.repeats)) - start_up
            print(f"{name:<28}{seconds:6.3f} s beyond start-up")
        print(f"of which scores alone       {time_evaluation(Path(paths[0]), Path(paths[1]), options.repeats):6.3f} s")
    return 0


def time_evaluation(gold: Path, predicted: Path, repeats: int) -> float:
    """Matching and scoring once the files are read."""
    from relatum.data.corpus import read_documents
    from relatum.data.problems import Problems
    from relatum.evaluation.metrics import evaluate
    from relatum.evaluation.pairing import pair_documents

    one, two = (list(read_documents(path, None, Problems())) for path in (gold, predicted))

    def once() -> float:
        start = time.perf_counter()
        evaluate((own.annotation, found.annotation) for own, found in pair_documents(one, two).documents)
        return time.perf_counter() - start

    return min(once() for _ in range(repeats))


if __name__ == "__main__":
    sys.exit(main())
