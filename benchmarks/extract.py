"""How many sentences a second a model reads, end to end; no speed is printed of one that finds the wrong things.

Every backend must find in float32 the very entities and relations of the plain wavefront, in every sentence, one at a
time and in batches; in bfloat16 and int8 it must score within 0.1 F1 of it. The plain wavefront is plain torch
throughout, in encoder and network, too. Then they take turns, and a row is the median. With batch 1 the extractor is
called with one text after the other, as one tries it out; else all go through `pipe`. A batch has no more sentences
than fit into `--max-cells`, so that a larger `--batches` alone may change little. The data are `--data`, or conll04 in
$RELATUM_DATA, or our own examples. Rows go to a JSON file with `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import torch

from relatum.evaluation.metrics import evaluate
from relatum.extractor.device import choose_device
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.kernels.backend import explain, use_backend
from relatum.kernels.compile import cpu_flags
from relatum.runtime.precision import Precision
from relatum.training.corpus import load_part
from relatum.training.provenance import commit, device_name
from relatum.types import Annotation, Entity, Example, Relation

BASE = "wavefront"
SCORE_BOUND = 1e-4
"""The most that a score may differ between two backends in float32."""
F1_BOUND = 0.1
"""The most that F1 may lose or gain in bfloat16 and int8, in points of a hundred."""
FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
EXAMPLES = Path(__file__).parent.parent / "examples" / "news"


@dataclass(frozen=True)
class Row:
    """One measurement; scores are those of the test data, in points of a hundred."""

    device: str
    cpu_flags: list[str]
    threads: int
    model: str
    data: str
    sentences: int
    backend: str
    precision: Precision
    batch: int
    max_cells: int
    sentences_per_s: float
    ratio_to_wavefront: float
    ner_f1: float
    re_plus_f1: float
    commit: str | None


class WrongError(Exception):
    """A system does not find what it should, so that its speed means nothing."""


@dataclass(frozen=True)
class System:
    """A backend and a precision."""

    backend: str
    precision: Precision
    extractor: Extractor

    @property
    def name(self) -> str:
        return f"{self.backend} in {self.precision}"

    def annotate(self, examples: Sequence[Example]) -> list[Annotation]:
        with use_backend(self.backend):
            return [one.found for one in self.extractor.predict([example.sentence for example in examples])]

    def read(self, texts: Sequence[str], batch: int) -> tuple[list[Extraction], float]:
        """What is in the texts, and the seconds it took to find it."""
        # A new one each time: an extractor remembers the words that it has read.
        size = None if batch == 1 else batch
        reader = Extractor(self.extractor.model, batch_size=size, max_cells=self.extractor.max_cells)
        with use_backend(self.backend):
            reader(".")  # whatever is packed once
            start = time.perf_counter()
            found = [reader(text) for text in texts] if batch == 1 else list(reader.pipe(texts))
            return found, time.perf_counter() - start


def scores_of(annotations: Iterable[Annotation]) -> list[float]:
    found: list[Entity | Relation] = []
    for one in annotations:
        found += [*one.entities, *one.relations]
    return [one.score or 0.0 for one in found]


def refuse_if_other(what: str, found: Sequence[Annotation], wanted: Sequence[Annotation]) -> float:
    """The largest difference between scores, where the same was found; else there is nothing to measure."""
    differing = [place for place, (one, two) in enumerate(zip(found, wanted, strict=True), 1) if one != two]
    if differing:
        raise WrongError(f"{what}: it finds something else than {BASE} in {len(differing)} sentences: {differing}")
    pairs = zip(scores_of(found), scores_of(wanted), strict=True)
    worst = max((abs(one - two) for one, two in pairs), default=0.0)
    if worst > SCORE_BOUND:
        raise WrongError(f"{what}: a score is {worst:.1e} away from that of {BASE}, more than {SCORE_BOUND}")
    return worst


def f1(found: Sequence[Annotation], examples: Sequence[Example]) -> tuple[float, float]:
    """NER and RE+, in points of a hundred."""
    scores = evaluate((example.full_gold, one) for example, one in zip(examples, found, strict=True))
    return 100 * scores.entities.micro.f1, 100 * scores.relations_strict.micro.f1


def refuse_if_worse(own: tuple[float, float], base: tuple[float, float]) -> None:
    for task, one, two in zip(("NER", "RE+"), own, base, strict=True):
        if abs(one - two) > F1_BOUND:
            raise WrongError(f"{task} F1 is {one:.2f}, {BASE} in fp32 has {two:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="an annotated corpus")
    parser.add_argument("--part", default="test")
    parser.add_argument("--model", default="news")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="of the CPU; as torch has it if not given")
    parser.add_argument(
        "--backends", nargs="+", help="of the MD-GRU; if not given, all that can run, but for reference"
    )
    parser.add_argument("--precisions", nargs="+", choices=get_args(Precision), default=["fp32"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--max-cells", type=int, help="of the tables of a batch; as the model has it if not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="only so many of the data")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device)
    folder = os.environ.get("RELATUM_DATA")
    data = options.data or (Path(folder) / "conll04" if folder else EXAMPLES)
    able = [one.name for one in explain(device.type) if one.available and one.name not in ("reference", BASE)]
    if device.type == "cpu" and "triton" in able:
        able.remove("triton")  # it would be interpreted
    extractors: dict[Precision, Extractor] = {
        name: Extractor.from_pretrained(options.model, device, name, max_cells=options.max_cells)
        for name in {"fp32", *options.precisions}
    }
    base = System(BASE, "fp32", extractors["fp32"])
    systems = [base] + [
        System(backend, precision, extractors[precision])
        for precision in options.precisions
        for backend in dict.fromkeys(options.backends or [BASE, *able])
        if backend != BASE or precision == "bf16"  # plain torch only imitates int8
    ]

    examples = load_part(data, options.part, base.extractor.model.config)[0][: options.sentences]
    texts = [" ".join(example.sentence.words) for example in examples]
    print(f"{device_name(device)}; {options.model} on {len(texts)} sentences of {data}")
    wanted, f1s, wrong = base.annotate(examples), {}, []
    base_f1 = f1(wanted, examples)

    def leave_out(system: System, why: WrongError) -> None:
        wrong.append(f"{system.name}: {why}")
        print(f"{wrong[-1]}; its speed means nothing, and is not measured")
        systems.remove(system)

    for system in list(systems):
        found = wanted if system is base else system.annotate(examples)
        f1s[system.name] = f1(found, examples)
        try:
            if system.precision == "fp32":
                worst = refuse_if_other("the words of the corpus", found, wanted)
                print(f"{system.name}: the same entities and relations, scores within {worst:.0e}")
            else:
                refuse_if_worse(f1s[system.name], base_f1)
                changed = sum(one != two for one, two in zip(found, wanted, strict=True))
                print(f"{system.name}: F1 within {F1_BOUND}, something else in {changed} sentences")
        except WrongError as error:
            leave_out(system, error)

    print(f"\n{'backend':12}{'precision':>10}{'batch':>7}{'sentences/s':>13}{'ratio':>8}{'NER F1':>9}{'RE+ F1':>9}")
    rows = []
    for batch in options.batches:
        seconds: dict[str, list[float]] = {system.name: [] for system in systems}
        for number in range(options.rounds + 1):
            expected: list[Annotation] = []
            for system in list(systems):
                extractions, took = system.read(texts, batch)
                answers = [Annotation(one.entities, one.relations) for one in extractions]
                expected = expected or answers
                if system.precision == "fp32":
                    try:
                        refuse_if_other(f"batch {batch}", answers, expected)
                    except WrongError as error:
                        leave_out(system, error)
                        continue
                if number:  # the first is for what is compiled, recorded or cached
                    seconds[system.name].append(took)
        for system in systems:
            speed = len(texts) / statistics.median(seconds[system.name])
            ratio = statistics.median(seconds[base.name]) / statistics.median(seconds[system.name])
            ner, re_plus = f1s[system.name]
            rows.append(
                Row(
                    device_name(device),
                    [flag for flag in FLAGS if flag in cpu_flags()],
                    torch.get_num_threads(),
                    options.model,
                    data.name,
                    len(texts),
                    system.backend,
                    system.precision,
                    batch,
                    system.extractor.max_cells,
                    round(speed, 2),
                    round(ratio, 2),
                    round(ner, 2),
                    round(re_plus, 2),
                    commit(),
                )
            )
            print(
                f"{system.backend:12}{system.precision:>10}{batch:7}{speed:13.1f}{ratio:8.2f}{ner:9.2f}{re_plus:9.2f}",
                flush=True,
            )
    if options.out:
        record = {"what": __doc__.splitlines()[0], "wrong": wrong, "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
