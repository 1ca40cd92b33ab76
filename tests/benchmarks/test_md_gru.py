"""The benchmark of the MD-GRU refuses what is wrong, counts right, and says what it left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from benchmarks.__main__ import BENCHMARKS
from benchmarks.cases import Case, complaint, errors
from benchmarks.cost import Ceilings, layer_cost
from benchmarks.plot import Line, Panel, draw

from benchmarks import cases, md_gru
from relatum.kernels.backend import select, use_backend
from relatum.kernels.md_gru import CellSpec
from relatum.kernels.md_gru import md_gru as right_md_gru
from relatum.kernels.md_gru.cpu import explain

ROOT = Path(__file__).parent.parent.parent
CPU = torch.device("cpu")
KEYS = {"device", "backend", "dtype", "batch", "n", "layers", "forward_ms", "forward_backward_ms", "peak_mib"}
needs_compiler = pytest.mark.skipif(not explain()[0], reason=explain()[1])


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the JSON file of a small run on the CPU."""
    monkeypatch.setattr(Ceilings, "measure", classmethod(lambda cls, _device, _dtype: cls(1e9, 1e9)))
    small = ["--device", "cpu", "--lengths", "2", "4", "--batches", "3", "--widths", "5", "--repeats", "2"]
    files = ["--out", str(tmp_path / "rows.json"), "--plot", str(tmp_path / "rows.svg")]
    monkeypatch.setattr(sys, "argv", ["md_gru", *small, *files, *options])
    status = md_gru.main()
    record: dict[str, Any] = json.loads((tmp_path / "rows.json").read_text())
    return status, record


@needs_compiler
def test_benchmark_writes_a_row_for_every_backend_and_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status, record = run(monkeypatch, tmp_path, "--layers", "2")
    assert status == 0
    found = [(row["backend"], row["n"]) for row in record["rows"]]
    assert found == [("wavefront", 2), ("cpu", 2), ("wavefront", 4), ("cpu", 4)]
    for row in record["rows"]:
        assert row.keys() >= KEYS | {"width", "ratio", "gflop", "fraction", "commit"}
        assert row["forward_ms"] > 0
        assert row["forward_backward_ms"] > 0
        flop = layer_cost(3 * row["n"] ** 2, 5, 2, 2, 4, backward=True).flop
        assert row["fraction"] == pytest.approx(flop / 1e9 / row["forward_backward_ms"] * 1000, rel=0.02, abs=1e-4)
    for plain, own in (record["rows"][:2], record["rows"][2:]):
        assert plain["ratio"] == 1
        ratio = plain["forward_backward_ms"] / own["forward_backward_ms"]
        assert own["ratio"] == pytest.approx(ratio, rel=0.02, abs=0.01)
    drawn = ElementTree.parse(tmp_path / "rows.svg")
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}polyline")) == 4  # two backends, both ways and forward


@needs_compiler
@pytest.mark.parametrize("only_without_gradients", [True, False])
def test_backend_that_is_wrong_has_no_time(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    only_without_gradients: bool,
) -> None:
    def wrong(*given: Any) -> torch.Tensor:
        states = right_md_gru(*given)
        spoils = torch.is_grad_enabled() != only_without_gradients
        return states * 1.001 if spoils and select("cpu", CellSpec()) == "cpu" else states

    monkeypatch.setattr(cases, "md_gru", wrong)
    status, record = run(monkeypatch, tmp_path)
    assert status == 1
    assert {row["backend"] for row in record["rows"]} == {"wavefront"}
    assert "cpu in float32, width 5: the states" in record["wrong"][0]
    assert "WRONG" in capsys.readouterr().out


def test_what_there_was_no_time_for_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status, record = run(monkeypatch, tmp_path, "--seconds", "0", "--backends", "wavefront")
    assert status == 0
    assert record["rows"] == []
    assert [line.partition(":")[0] for line in record["left_out"]] == [
        f"wavefront, batch 3, n {n}, width 5, float32" for n in (2, 4)
    ]


def test_what_does_not_fit_into_memory_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.measuring.free_memory", lambda _: 40 * 4.0 * 3 * 2**2 * 5 * 2)
    _, record = run(monkeypatch, tmp_path, "--backends", "wavefront")
    assert [row["n"] for row in record["rows"]] == [2]
    assert "n 4, width 5, float32: it wants about" in record["left_out"][0]


def test_backend_that_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    _, record = run(monkeypatch, tmp_path, "--backends", "triton")
    assert {row["backend"] for row in record["rows"]} == {"wavefront"}
    assert "triton in float32: the MD-GRU backend 'triton' cannot run" in record["left_out"][0]


def test_errors_are_those_of_the_worst_values() -> None:
    case = Case.make((3, 1), 4, 1, CPU, torch.float32)
    truth = case.doubled().results("wavefront")
    plain = errors(case, "wavefront", truth, 1)
    assert max(plain.values()) < 1e-6
    assert complaint(plain, plain, torch.float32) is None
    name = "gradient of state_bias weights of layer 1"
    off = errors(case, "wavefront", {**truth, name: truth[name] * 1.01}, 1)
    assert off[name] == pytest.approx(0.01 / 1.01, rel=1e-3)
    assert name in (complaint(off, plain, torch.float32) or "")
    case.inputs.data[0, 0, 0, 0] = float("nan")
    assert errors(case, "wavefront", truth, 1)["states"] == float("inf")


def test_errors_may_be_twice_those_of_plain_torch_and_no_more() -> None:
    plain = {"states": 1e-3}
    assert complaint({"states": 2e-3}, plain, torch.bfloat16) is None
    assert complaint({"states": 2.1e-3}, plain, torch.bfloat16) is not None
    assert complaint({"states": 1e-9}, {"states": 1.0}, torch.float64) is not None


def test_cost_is_that_of_the_products() -> None:
    cost = layer_cost(24 * 32**2, 100, 2, 1, 2, backward=False)
    assert cost.flop == 24 * 32**2 * 2 * 2 * 600 * (200 + 100 + 200)
    assert layer_cost(24 * 32**2, 100, 2, 3, 2, backward=True).flop == 9 * cost.flop
    case = Case.make((4, 4), 5, 1, CPU, torch.float32)
    with use_backend("wavefront"):
        given = [case.inputs, case.below, *case.layers[0]]
        moved = sum(one.nbytes for one in given) + case.infer().nbytes
        states, *grads = case.both()
        again = sum(one.nbytes for one in (*given, states, case.grad, *grads))
    assert layer_cost(32, 5, 2, 1, 4, backward=False).bytes == moved
    assert layer_cost(32, 5, 2, 1, 4, backward=True).bytes == moved + again


def test_drawing_has_larger_values_further_up_and_escapes_names() -> None:
    text = draw([Panel("a < b", (Line("one", ((16, 1.0), (32, 10.0))),))], "words", "ms")
    line = ElementTree.fromstring(text).find(".//{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert x1 < x2
    assert y1 > y2
    assert "a &lt; b" in text
    with pytest.raises(ValueError, match="nothing to draw"):
        draw([], "words", "ms")


def test_benchmark_needs_neither_pydantic_nor_transformers() -> None:
    code = "import sys, benchmarks.md_gru; sys.exit(', '.join({'pydantic', 'transformers'} & {*sys.modules}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_benchmarks_are_run_together() -> None:
    files = (ROOT / "benchmarks").glob("[!_]*.py")
    assert {path.stem for path in files if "__main__" in path.read_text()} == set(BENCHMARKS)
