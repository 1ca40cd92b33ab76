"""The time of span tagging beside the paper's: extraction, and an update without its optimiser.

    python -m benchmarks.tagging [--words MODEL --spans MODEL --data DATA] [--json FILE]

The models have the same sizes and were trained with `tagging.kind=words` and `=spans`; if they are not given, they are
trained on the data for some updates. The dev part of the data is read. The models take turns, and the ratio of their
medians is printed. Nothing is printed unless both read a batch of sentences as they read each sentence alone.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import relatum
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.models.losses import joint_loss
from relatum.training.batches import Batches
from relatum.training.corpus import load_part
from relatum.training.provenance import commit, device_name, versions
from relatum.types import Example, Prediction

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "news"
NEWS = ROOT / "configs" / "shipped" / "news.toml"
KINDS = ("words", "spans")
N_SENTENCES = 96
BATCH = 24


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path, metavar="MODEL")
    parser.add_argument("--data", type=Path, default=EXAMPLES, help="default: examples/news")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    extractors = {kind: _load(kind, getattr(options, kind), options.data) for kind in KINDS}
    examples, _ = load_part(options.data, "dev", extractors["spans"].model.config)
    examples = sorted(examples[:N_SENTENCES], key=lambda example: len(example.sentence))
    for kind, extractor in extractors.items():
        _check(kind, extractor, examples)
    ratios = {name: _compare(works, options.rounds) for name, works in _make_works(extractors, examples).items()}
    for name, ratio in ratios.items():
        print(f"{name}: span tagging takes {ratio:.2f} times as long")
    if options.json:
        record = {
            "what": "Time with span tagging, divided by the time with the paper's tagging: medians of turns.",
            "command": shlex.join(["python", "-m", "benchmarks.tagging", *(arguments or sys.argv[1:])]),
            "commit": commit(),
            "versions": versions(),
            "device": device_name(extractors["words"].model.device),
            "sentences": len(examples),
            "rounds": options.rounds,
            "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _load(kind: str, model: Path | None, data: Path) -> Extractor:
    if model is None:
        with TemporaryDirectory() as folder:
            overrides: dict[str, object] = {"tagging.kind": kind, "data.overlaps": None, "training.precision": "fp32"}
            overrides |= {"training.steps": 150, "training.warmup_steps": 20, "training.evaluate_every": 150}
            run = relatum.train(data, NEWS, Path(folder) / "run", overrides=overrides, with_test=False)
            return run.load()
    extractor = Extractor.from_pretrained(model)
    if extractor.model.config.tagging.kind != kind:
        raise RelatumError(f"{model}: its tagging is not {kind}; give a model that was trained with it")
    return extractor


def _check(kind: str, extractor: Extractor, examples: Sequence[Example]) -> None:
    together = extractor.predict([example.sentence for example in examples])
    alone = [prediction for example in examples for prediction in extractor.predict([example.sentence])]
    if _findings(together) != _findings(alone):
        raise RelatumError(f"{kind}: sentences in a batch are read otherwise than alone; no figures are given")


def _findings(predictions: Sequence[Prediction]) -> list[object]:
    return [(set(one.found.entities), set(one.found.relations)) for one in predictions]


Works = dict[str, Callable[[], object]]


def _make_works(extractors: dict[str, Extractor], examples: Sequence[Example]) -> dict[str, Works]:
    """Return what is timed, by name and tagging."""
    sentences = [example.sentence for example in examples]

    def read_each(extractor: Extractor) -> None:
        for sentence in sentences:
            extractor.predict([sentence])

    works: dict[str, Works] = {"extraction in batches": {}, "extraction one at a time": {}, "update": {}}
    for kind, extractor in extractors.items():
        works["extraction in batches"][kind] = lambda extractor=extractor: extractor.predict(sentences)  # type: ignore[misc]
        works["extraction one at a time"][kind] = lambda extractor=extractor: read_each(extractor)  # type: ignore[misc]
        works["update"][kind] = _make_update(extractor, examples[len(examples) // 2 :][:BATCH])
    return works


def _make_update(extractor: Extractor, examples: Sequence[Example]) -> Callable[[], object]:
    model = extractor.model
    learned = [Example(one.sentence, model.tagging.find_expressible(one.gold, len(one.sentence))) for one in examples]
    inputs, labels = Batches(model, learned).make(range(len(learned)))

    def update() -> None:
        model.network.train()
        joint_loss(model.network(inputs), labels, model.config.training).total.backward()
        model.network.zero_grad()
        model.network.eval()

    return update


def _compare(works: Works, n_rounds: int) -> float:
    """Return the ratio of the medians; the first round is not counted."""
    seconds: dict[str, list[float]] = {kind: [] for kind in works}
    for _ in range(n_rounds + 1):
        for kind, work in works.items():
            start = perf_counter()
            work()
            seconds[kind].append(perf_counter() - start)
    return median(seconds["spans"][1:]) / median(seconds["words"][1:])


if __name__ == "__main__":
    main()
