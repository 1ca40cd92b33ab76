"""How fast MiniLM's features are computed on a CPU: our compiled code, ONNX Runtime, OpenVINO and plain torch.

All compute the same features of the same pieces: the mean of the last four layers for each word, and the attention
between words in every layer and head, as the shipped models read them. The graph for ONNX Runtime and OpenVINO has the
pooling inside. A contestant in float32 must agree with plain torch within 1e-4, or its time is not printed. In int8,
values are rounded as they come (dynamically), and the difference is printed. Contestants take turns, one call each
after a short pause, because other programs may be at work on the machine: ratios are of medians and of minima within
one run. A library that is not installed is left out with a reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.bert import Bert, BertLayer
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.resolve import find_encoder
from relatum.kernels.compile import cpu_flags
from relatum.kernels.encoder.cpu import PackedEncoder, PoolingOptions, Products
from relatum.runtime.native.frozen_linear import can_split
from relatum.runtime.native.weights import pack_bert
from relatum.training.provenance import commit, device_name

ENCODER = "all-minilm-l6-v2"
BOUND = 1e-4
"""The most that a feature in float32 may differ from plain torch's."""
TEXTS = Path(__file__).parent.parent / "examples" / "graph"
FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
OURS = "compiled float32"
N_KEPT = 4
_PAUSE = 0.02
"""The seconds between two contestants, in which the idle threads of the one before go to sleep."""

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]
Read = Callable[[], Arrays]


@dataclass(frozen=True)
class Row:
    """One measurement; ratios are of a contestant's time to the time of our compiled float32."""

    contestant: str
    batch: str
    median_ms: float
    least_ms: float
    ratio_of_medians: float
    ratio_of_minima: float
    largest_difference: float


@dataclass(frozen=True)
class Batch:
    """Sentences as every contestant takes them, cut into pieces beforehand."""

    name: str
    input: EncoderInput
    pieces: Sequence[Sequence[int]]
    starts: Sequence[Sequence[int]]
    """The positions at which words begin, for our own code."""
    padded: NDArray[np.int64]
    mask: NDArray[np.float32]
    members: NDArray[np.float32]
    """(sentences, words, pieces): 1 where a piece is of a word."""

    @classmethod
    def of(cls, name: str, sentences: Sequence[Sequence[str]], encoder: HuggingFaceEncoder) -> Batch:
        batch = EncoderInput(sentences)
        cut = list(encoder.cut(batch))
        pieces = [sentence.pieces for sentence in cut]
        starts = [list(accumulate(map(len, one.words), initial=len(one.prefix))) for one in cut]
        shape = len(pieces), max(map(len, pieces))
        padded, mask = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        members = np.zeros((len(pieces), max(map(len, sentences)), shape[1]), np.float32)
        for number, (row, begins) in enumerate(zip(pieces, starts, strict=True)):
            padded[number, : len(row)], mask[number, : len(row)] = row, 1
            for word, (start, end) in enumerate(pairwise(begins)):
                members[number, word, start:end] = 1
        return cls(name, batch, pieces, starts, padded, mask, members)

    @property
    def feed(self) -> dict[str, NDArray[Any]]:
        return {"pieces": self.padded, "mask": self.mask, "members": self.members}


class PooledBert(nn.Module):
    """A BERT with its pooling, written in the operators that every library knows."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self.pieces = nn.Parameter(bert.pieces.weight.float(), requires_grad=False)
        self.positions = nn.Parameter(bert.positions.weight + bert.segments.weight[0], requires_grad=False)

    def forward(self, pieces: Tensor, mask: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        bert = self.bert
        hidden = bert.norm(nn.functional.embedding(pieces, self.pieces) + self.positions[: pieces.shape[1]])
        bias = (1 - mask)[:, None, None, :] * -1e30
        states, maps = [], []
        for layer in bert.layers:
            assert isinstance(layer, BertLayer)
            attention = layer.attention
            query, key, value = (self._split(part) for part in attention.projection(hidden).chunk(3, -1))
            scores = (query @ key.transpose(-1, -2)) * (query.shape[-1] ** -0.5) + bias
            weights = scores.softmax(-1)
            read = (weights @ value).transpose(1, 2).flatten(2)
            hidden = layer.attention_norm(hidden + attention.output(read))
            hidden = layer.norm(hidden + layer.outer(nn.functional.gelu(layer.inner(hidden))))
            states.append(hidden)
            maps.append(members[:, None] @ weights @ members.transpose(1, 2)[:, None])
        mean = torch.stack(states[-N_KEPT:]).mean(0)
        share = members / members.sum(-1, keepdim=True).clamp(min=1)
        return share @ mean, torch.cat(maps, 1).permute(0, 2, 3, 1)

    def _split(self, values: Tensor) -> Tensor:
        heads: Tensor = values.unflatten(-1, (self.bert.n_attention_heads, -1))
        return heads.transpose(1, 2)


def write_onnx(bert: Bert, batch: Batch, path: Path) -> None:
    names = {"pieces": ("batch", "pieces"), "mask": ("batch", "pieces"), "members": ("batch", "words", "pieces")}
    axes = {name: dict(enumerate(those)) for name, those in names.items()}
    axes |= {"vectors": {0: "batch", 1: "words"}, "maps": {0: "batch", 1: "words", 2: "words"}}
    given = tuple(torch.from_numpy(values) for values in batch.feed.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's new way needs one more package
        torch.onnx.export(
            PooledBert(bert).eval(),
            given,
            str(path),
            input_names=list(names),
            output_names=["vectors", "maps"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )


def of_onnx(path: Path, n_threads: int) -> Callable[[Batch], Read]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda batch: lambda: tuple(session.run(["vectors", "maps"], batch.feed))


def of_openvino(path: Path, n_threads: int) -> Callable[[Batch], Read]:
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": n_threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()

    def make(batch: Batch) -> Read:
        def read() -> Arrays:
            found = request.infer(batch.feed, share_inputs=True, share_outputs=True)
            return found["vectors"], found["maps"]

        return read

    return make


def of_compiled(bert: Bert, products: Products) -> Callable[[Batch], Read]:
    packed = PackedEncoder(pack_bert(bert), products)
    pooling = PoolingOptions(n_kept=N_KEPT, first_piece=False, mean_attention=False, want_maps=True)

    def make(batch: Batch) -> Read:
        def read() -> Arrays:
            vectors, maps = packed.read(batch.pieces, batch.starts, pooling)
            assert maps is not None
            return vectors, maps

        return read

    return make


def of_torch(encoder: HuggingFaceEncoder) -> Callable[[Batch], Read]:
    def make(batch: Batch) -> Read:
        @torch.inference_mode()
        def read() -> Arrays:
            features = encoder.encode(batch.input)
            assert features.attention_maps is not None
            return features.vectors.numpy(), features.attention_maps.numpy()

        return read

    return make


def find_contestants(
    encoder: HuggingFaceEncoder, example: Batch, folder: Path
) -> tuple[dict[str, Callable[[Batch], Read]], dict[str, str]]:
    """Return the contestants that are here, and why others are not."""
    bert = encoder.backbone
    assert isinstance(bert, Bert)
    n_threads = torch.get_num_threads()
    here = {
        "torch float32": of_torch(encoder),
        OURS: of_compiled(bert, "float32"),
        "compiled int8": of_compiled(bert, "int8"),
    }
    left_out: dict[str, str] = {}
    if can_split():
        here["compiled, split bfloat16"] = of_compiled(bert, "split")
    else:
        left_out["compiled, split bfloat16"] = "this CPU has no matrix unit (AMX)"
    path, quantised = folder / "encoder.onnx", folder / "int8.onnx"
    try:
        write_onnx(bert, example, path)
    except ImportError as error:
        return here, left_out | dict.fromkeys(("ONNX Runtime", "OpenVINO"), f"no graph without onnx ({error})")
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(path, quantised, weight_type=QuantType.QInt8, per_channel=True)
        here["ONNX Runtime float32"] = of_onnx(path, n_threads)
        here["ONNX Runtime int8"] = of_onnx(quantised, n_threads)
    except ImportError as error:
        left_out["ONNX Runtime"] = str(error)
    try:
        here["OpenVINO float32"] = of_openvino(path, n_threads)
    except ImportError as error:
        left_out["OpenVINO"] = str(error)
    return here, left_out


def make_batches(encoder: HuggingFaceEncoder) -> list[Batch]:
    """Return single sentences, and batches of 32 of one length and of all lengths up to 40 words."""
    words = " ".join(path.read_text(encoding="utf-8") for path in sorted(TEXTS.glob("*.txt"))).split()
    words *= -(-32 * 40 // len(words))

    def sentence(n_words: int, number: int = 0) -> list[str]:
        return words[40 * number : 40 * number + n_words]

    singles = [Batch.of(f"1 of {n_words} words", [sentence(n_words)], encoder) for n_words in (10, 20, 40)]
    many = [Batch.of(f"32 of {n} words", [sentence(n, i) for i in range(32)], encoder) for n in (10, 20, 40)]
    mixed = [sentence(9 + i, i) for i in range(32)]
    return [*singles, *many, Batch.of("32 of 9 to 40 words", mixed, encoder)]


def differ(found: Arrays, expected: Arrays) -> float:
    return max(float(np.abs(one - two).max()) for one, two in zip(found, expected, strict=True))


def measure(
    batch: Batch, contestants: Mapping[str, Callable[[Batch], Read]], rounds: int, wrong: list[str]
) -> list[Row]:
    reads = {name: make(batch) for name, make in contestants.items()}
    expected = reads["torch float32"]()
    differences = {name: differ(read(), expected) for name, read in reads.items()}
    for name, difference in differences.items():
        if "float32" in name and difference > BOUND:
            wrong.append(f"{name}, {batch.name}: differs by {difference:.1e}")
            del reads[name]
    samples: dict[str, list[float]] = {name: [] for name in reads}
    for number in range(rounds + 3):
        for name, read in reads.items():
            time.sleep(_PAUSE)
            begun = time.perf_counter()
            read()
            if number >= 3:
                samples[name].append(1000 * (time.perf_counter() - begun))
    ours = samples[OURS]
    rows = []
    for name, took in samples.items():
        median, least = statistics.median(took), min(took)
        ratios = round(median / statistics.median(ours), 2), round(least / min(ours), 2)
        rows.append(
            Row(name, batch.name, round(median, 3), round(least, 3), *ratios, float(f"{differences[name]:.1e}"))
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    encoder = HuggingFaceEncoder.load(find_encoder(ENCODER), EncoderConfig(name=ENCODER, n_layers=N_KEPT))
    batches = make_batches(encoder)
    rows: list[Row] = []
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        contestants, left_out = find_contestants(encoder, batches[-1], Path(folder))
        for name, reason in left_out.items():
            print(f"left out: {name}: {reason}")
        print(f"{'batch':22}{'contestant':26}{'median ms':>10}{'least ms':>10}{'ratio':>7}{'least':>7}{'differs':>9}")
        for batch in batches:
            for row in measure(batch, contestants, options.rounds, wrong):
                rows.append(row)
                print(
                    f"{row.batch:22}{row.contestant:26}{row.median_ms:10.2f}{row.least_ms:10.2f}"
                    f"{row.ratio_of_medians:7.2f}{row.ratio_of_minima:7.2f}{row.largest_difference:9.0e}",
                    flush=True,
                )
    for line in wrong:
        print(f"WRONG: {line}; no time is printed")
    if options.out:
        record = {
            "what": __doc__.splitlines()[0],
            "encoder": ENCODER,
            "device": device_name(torch.device("cpu")),
            "cpu_flags": [flag for flag in FLAGS if flag in cpu_flags()],
            "threads": options.threads,
            "rounds": options.rounds,
            "commit": commit(),
            "wrong": wrong,
            "left_out": left_out,
            "rows": [asdict(row) for row in rows],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
