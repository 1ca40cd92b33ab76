"""How long a whole update of the paper's preset takes; no time is printed unless loss and gradients are right.

An update is all that training does: making the batch, forward, backward, clipping, Adam. On a GPU it is recorded, as in
training, and replayed; its parts are measured without, since a recording has none. Features come from memory, as in
training; an encoder that makes them up stands in for MiniLM, with vectors and attention maps of the same sizes.
Sentences are made up, with lengths like CoNLL04's, unless `--data` names a corpus. Rows go to a JSON file with `--out`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

from benchmarks.stand_in import StandIn
from relatum.config import Config, load_config
from relatum.encoders.words import WordVectors
from relatum.kernels.backend import explain, use_backend
from relatum.models.build import build_model
from relatum.models.losses import joint_loss
from relatum.models.model import Model
from relatum.models.vocabulary import find_characters
from relatum.runtime.cuda_graphs import Recorder, make_recorder
from relatum.schema import RelationType, Schema
from relatum.training import provenance
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import load_training_data
from relatum.training.features import read_ahead, with_memory
from relatum.training.graphed_step import GraphedStep
from relatum.training.optimisation import Optimiser
from relatum.training.sampler import Sampler
from relatum.training.setup import set_up_device
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

ENTITIES, RELATIONS = ("Loc", "Org", "Other", "Peop"), ("Kill", "Live_In", "Located_In", "OrgBased_In", "Work_For")
MINILM = (384, 72)
"""The width and the attention maps of the encoder that comes along."""
N_SENTENCES = 922
"""As many as CoNLL04 has for training."""
N_STEPS = 20_000
"""As many as the paper's recipe has."""
BOUNDS = {"bf16": 5e-2, "tf32": 1e-2, "fp32": 1e-4}
"""The most that all gradients together, and the loss, may differ from those of the plain wavefront in float32,
relative to their norm; on a GPU products in "fp32" are computed as TF32."""


RECORDED_BOUND = 1e-3
"""The most that weights after recorded updates may differ from those after the same updates made otherwise."""


@dataclass(frozen=True)
class Row:
    """One measurement; the parts are of steps that are not recorded, and waited for one by one."""

    device: str
    backend: str
    precision: str
    batch: int
    mean_words: float
    layers: int
    step_ms: float
    steps_per_second: float
    minutes: float
    """20,000 steps, and what is recorded and compiled before."""
    n_graphs: int
    recording_s: float
    first_s: float
    """The time of the steps before those that are timed, in which all is compiled, recorded and kept."""
    peak_mib: int | None
    """The most memory in use at once by steps that are not recorded; that of replays is not counted, and no less."""
    reserved_mib: int | None
    """The most memory that was taken from the device, by recordings and everything else."""
    batch_ms: float
    forward_ms: float
    backward_ms: float
    optimiser_ms: float
    gradient_error: float
    recorded_error: float | None
    """How far the weights are apart after recorded updates and after others, relative to how far they have moved."""
    commit: str | None


def make_examples(n_sentences: int) -> list[Example]:
    """Sentences of 29 words on average and at most 118, each with two entities and a relation."""
    random = Random(0)
    letters = "etaoinshrdlucmfwygpbvkETAOINS"
    known = ["".join(random.choices(letters, k=min(18, max(1, round(random.gauss(5, 2.5)))))) for _ in range(8000)]
    examples = []
    for number in range(n_sentences):
        length = min(118, max(5, round(random.lognormvariate(3.27, 0.45))))
        head = Entity(Span(0, 2), random.choice(ENTITIES))
        tail = Entity(Span(3, 4), random.choice(ENTITIES))
        gold = Annotation((head, tail), (Relation(head, tail, random.choice(RELATIONS)),))
        examples.append(Example(Sentence(tuple(random.choices(known, k=length))), gold, str(number)))
    return examples


def make_model(config: Config, schema: Schema, examples: Sequence[Example], device: torch.device) -> Model:
    """The paper's preset, with made-up word vectors for most words."""
    torch.manual_seed(0)
    words = sorted({word.lower() for example in examples for word in example.sentence.words})
    known = tuple(word for number, word in enumerate(words) if number % 10)
    characters = find_characters(example.sentence.words for example in examples)
    vectors = WordVectors(known, torch.randn(len(known), 100))
    model = build_model(config, schema, StandIn(*MINILM), vectors, characters).to(device)
    return with_memory(model, examples)


class Work:
    """Updates of one model by one backend in one precision."""

    def __init__(self, model: Model, examples: Sequence[Example], backend: str, precision: str) -> None:
        self.model, self.backend = model, backend
        self._config = model.config.training
        self._batches = Batches(model, examples)
        self._optimiser = Optimiser(model.network.parameters(), self._config)
        self._sampler = Sampler([len(example.sentence) for example in examples], self._config)
        self._step = 0
        self.updates = self._make_updates(make_recorder(model.device))
        model.network.table_dtype = torch.bfloat16 if precision == "bf16" else None
        model.network.train()

    def _make_updates(self, recorder: Recorder | None) -> GraphedStep:
        return GraphedStep(self.model, self._optimiser, self._config, print, recorder)

    def epoch(self) -> Iterator[list[int]]:
        """Batches without end; after one epoch every sentence was in one."""
        while True:
            yield self._sampler.next()

    def update(self, indices: Sequence[int]) -> None:
        """One step of training."""
        self._step += 1
        with use_backend(self.backend):
            self.updates.update(*self._batches.make(indices), self._step)

    def update_in_parts(self, indices: Sequence[int], times: dict[str, list[float]]) -> None:
        """One step that is not recorded; each part is waited for and timed."""
        self._step += 1
        with use_backend(self.backend):
            with _timed("batch", times, wait=False):
                inputs, labels = self._batches.make(indices)
            with _timed("forward", times):
                loss = joint_loss(self.model.network(inputs), labels, self._config).total
            with _timed("backward", times):
                self._optimiser.differentiate(loss)
            with _timed("optimiser", times):
                self._optimiser.set_rate(self._step)
                self._optimiser.apply()

    def gradients(self, indices: Sequence[int]) -> list[Tensor]:
        """The loss and the gradients of all parameters, without dropout."""
        with self._without_dropout(), use_backend(self.backend):
            inputs, labels = self._batches.make(indices)
            loss = joint_loss(self.model.network(inputs), labels, self._config).total
            found = torch.autograd.grad(loss, self._optimiser.parameters)
        return [loss.detach(), *found]

    def recorded_error(self, indices: Sequence[int]) -> float | None:
        """How far weights after recorded updates are from those after others; None where nothing can be recorded.

        There are four updates, of which the second is recorded, and all but the first replayed. Relative to the way
        that the weights have gone; afterwards they are as before.
        """
        recorder = make_recorder(self.model.device)
        if recorder is None:
            return None
        parameters = self._optimiser.parameters
        start = [parameter.detach().clone() for parameter in parameters]
        ends = []
        with self._without_dropout(), use_backend(self.backend):
            batch = self._batches.make(indices)
            for one in (None, recorder):
                self._optimiser = Optimiser(parameters, self._config)
                updates = self._make_updates(one)
                for _ in range(4):
                    updates.update(*batch, self._config.warmup_steps)
                ends.append([parameter.detach().clone() for parameter in parameters])
                _put_back(parameters, start)
        self._optimiser = Optimiser(parameters, self._config)
        self.updates = self._make_updates(make_recorder(self.model.device))
        return _norm(*ends) / _norm(ends[0], start) if updates.n_graphs else None

    @contextmanager
    def _without_dropout(self) -> Iterator[None]:
        dropouts = [module for module in self.model.network.modules() if isinstance(module, nn.Dropout)]
        shares = [module.p for module in dropouts]
        for module in dropouts:
            module.p = 0.0
        yield
        for module, share in zip(dropouts, shares, strict=True):
            module.p = share


def _put_back(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


def _norm(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """The norm of the difference of many tensors."""
    squares = [float((one - other).double().square().sum()) for one, other in zip(ones, others, strict=True)]
    return sqrt(sum(squares))


@contextmanager
def _timed(part: str, times: dict[str, list[float]], wait: bool = True) -> Iterator[None]:
    _wait()
    start = time.perf_counter()
    yield
    if wait:
        _wait()
    times.setdefault(part, []).append(1000 * (time.perf_counter() - start))


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def difference(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The larger of the relative differences of the loss and of all gradients together."""
    of_loss = abs(float(found[0] - wanted[0]) / float(wanted[0]))
    squares = [
        (float((one - other).double().square().sum()), float(other.double().square().sum()))
        for one, other in zip(found[1:], wanted[1:], strict=True)
    ]
    return max(of_loss, sqrt(sum(error for error, _ in squares) / sum(size for _, size in squares)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    usable = [one.name for one in explain(device.type) if one.available and one.name != "reference"]
    fitting = [name for name in usable if name != ("cpu" if cuda else "triton")]
    parser.add_argument("--backends", nargs="+", default=fitting, help="as relatum doctor names them")
    parser.add_argument(
        "--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"] if cuda else ["fp32"]
    )
    parser.add_argument("--steps", type=int, default=200 if cuda else 1, help="how many updates are timed")
    parser.add_argument("--sentences", type=int, default=N_SENTENCES if cuda else 8)
    parser.add_argument("--data", type=Path, help="a corpus to take the training sentences from")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    options = parser.parse_args()
    config = load_config(None, options.settings)
    if options.data is None:
        schema, examples = Schema(ENTITIES, tuple(map(RelationType, RELATIONS))), make_examples(options.sentences)
    else:
        data = load_training_data(options.data, config)
        schema, examples = data.schema, data.train
    examples, _ = cut_long(examples, None, config)
    model = make_model(config, schema, examples, device)
    read_ahead(model, examples, lambda: False, lambda _: None)
    lengths = sorted(range(len(examples)), key=lambda index: len(examples[index].sentence))
    checked = lengths[:: max(1, len(lengths) // 8)][:8]  # short and long ones together
    torch.set_float32_matmul_precision("highest")
    wanted = Work(model, examples, "wavefront", "fp32").gradients(checked)
    set_up_device(device)
    start = {name: value.clone() for name, value in model.network.state_dict().items()}
    mean = round(statistics.mean(len(example.sentence) for example in examples), 1)
    name, n_layers = provenance.device_name(device), config.model.n_layers
    n_batch = min(config.training.batch_size, len(examples))
    print(f"{name}; batches of {n_batch}, {mean} words on average, {n_layers} layers")
    print("difference: of loss and gradients from the plain wavefront's in float32; no time where it is too large")
    parts = ("batch", "forward", "backward", "optimiser")
    print(
        f"parts: of steps that are not recorded, waited for one by one; minutes: of {N_STEPS:,} steps, from the start"
    )
    print(f"{'backend':12}{'precision':>10}{'step ms':>10}{'steps/s':>9}{'minutes':>9}{'graphs':>8}{'in s':>7}", end="")
    print(f"{'peak MiB':>10}{'reserved':>10}", end="")
    print("".join(f"{part:>11}" for part in parts) + f"{'difference':>12}", flush=True)
    rows = []
    for backend in options.backends:
        for precision in options.precisions:
            model.network.load_state_dict(start)
            work = Work(model, examples, backend, precision)
            error = difference(work.gradients(checked), wanted)
            bound = BOUNDS["tf32" if cuda and precision == "fp32" else precision]
            if not error <= bound:
                sys.exit(f"{backend} in {precision}: loss or gradients differ by {error:.2g} (bound {bound:g})")
            recorded = work.recorded_error(checked)
            if recorded is not None and not recorded <= RECORDED_BOUND:
                sys.exit(
                    f"{backend} in {precision}: recorded updates differ by {recorded:.2g} (bound {RECORDED_BOUND:g})"
                )
            row = replace(
                measure(work, options.steps, len(examples)),
                device=name,
                precision=precision,
                batch=n_batch,
                mean_words=mean,
                layers=n_layers,
                gradient_error=error,
                recorded_error=recorded,
                commit=provenance.commit(),
            )
            rows.append(row)
            print(
                f"{backend:12}{precision:>10}{row.step_ms:10.2f}{row.steps_per_second:9.1f}{row.minutes:9.2f}", end=""
            )
            print(f"{row.n_graphs:8}{row.recording_s:7.1f}", end="")
            print("".join(f"{'' if one is None else one:>10}" for one in (row.peak_mib, row.reserved_mib)), end="")
            times = (row.batch_ms, row.forward_ms, row.backward_ms, row.optimiser_ms)
            print("".join(f"{value:11.2f}" for value in times) + f"{error:12.1e}", flush=True)
    if options.out:
        record = {"what": __doc__.splitlines()[0], "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(work: Work, steps: int, n_examples: int) -> Row:
    """The mean time of an update among many, then the medians of its parts; the rest of the row is the caller's.

    On a GPU the same batches come twice before they are timed, so that whatever is compiled, recorded or kept for them
    is there. In training, shapes of batches that are rare are still recorded later.
    """
    cuda = torch.cuda.is_available()
    source = work.epoch()
    batches = [next(source) for _ in range(steps)]
    n_epoch = 1 + n_examples // work.model.config.training.batch_size
    before = 2 * batches if cuda else batches[:n_epoch]
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    for batch in before:
        work.update(batch)
    _wait()
    first = time.perf_counter() - start
    start = time.perf_counter()
    for batch in batches:
        work.update(batch)
    _wait()
    step = 1000 * (time.perf_counter() - start) / steps
    reserved = torch.cuda.max_memory_reserved() >> 20 if cuda else None
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times: dict[str, list[float]] = {}
    for batch in batches[: max(n_epoch, 50)]:  # in an epoch there is the largest, for the peak
        work.update_in_parts(batch, times)
    peak = torch.cuda.max_memory_allocated() >> 20 if cuda else None
    parts = {f"{part}_ms": round(statistics.median(values), 3) for part, values in times.items()}
    minutes = (first + step / 1000 * max(0, N_STEPS - len(before))) / 60
    return Row(
        "",
        work.backend,
        "",
        0,
        0,
        0,
        round(step, 3),
        round(1000 / step, 1),
        round(minutes, 2),
        work.updates.n_graphs,
        round(work.updates.seconds_recording, 2),
        round(first, 2),
        peak,
        reserved,
        **parts,
        gradient_error=0.0,
        recorded_error=None,
        commit=None,
    )


if __name__ == "__main__":
    sys.exit(main())
