"""The scan on a CPU against the definition: states and every gradient, in each type of numbers."""

import platform
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relatum.errors import RelatumError
from relatum.kernels import threads
from relatum.kernels.compile import VARIANTS, compile_source, find_compiler
from relatum.kernels.md_gru import cpu
from relatum.kernels.md_gru.cpu import SOURCE, CpuScanner
from relatum.kernels.md_gru.fused import Form, _padded_tables, fused, register
from relatum.kernels.md_gru.reference import md_gru_reference
from relatum.kernels.md_gru.scan import scan
from relatum.kernels.md_gru.spec import PREDECESSORS, CellSpec, Direction, Predecessor, Weights
from relatum.kernels.md_gru.wavefront import Wavefront

pytestmark = pytest.mark.skipif(not cpu.explain()[0], reason=cpu.explain()[1])

DIRECTIONS: tuple[Direction, ...] = ("nw", "ne", "sw", "se")
SUBSETS = tuple(chain.from_iterable(combinations(PREDECESSORS, size) for size in range(4)))
SPECS = [
    CellSpec(slots, read)
    for slots in SUBSETS
    for read in SUBSETS
    if set(read) <= set(slots) and {"up", "left"} & {*read}
]
# The products that other CPUs have instructions for, in plain loops; nothing else is different.
EMULATED = {
    "tiles": ("-O1", "-DRELATUM_EMULATE_TILES"),
    "pairs": ("-O1", "-DRELATUM_EMULATE_PAIRS"),
}
register("cpu", CpuScanner())
for name, flags in EMULATED.items():
    register(name, CpuScanner(replace(SOURCE, flags=flags)))


@dataclass(frozen=True)
class Case:
    """Inputs that want gradients, in some type; what lies outside the sentences is noise."""

    spec: CellSpec
    directions: tuple[Direction, ...]
    inputs: Tensor
    below: Tensor | None
    mask: Tensor
    weights: Weights

    def to(self, dtype: torch.dtype) -> "Case":
        def moved(tensor: Tensor) -> Tensor:
            return tensor.detach().to(dtype).requires_grad_()

        below = None if self.below is None else moved(self.below)
        return replace(self, inputs=moved(self.inputs), below=below, weights=Weights(*map(moved, self.weights)))

    def compute(self, backend: str) -> Tensor:
        given = self.inputs, self.below, self.mask, self.weights, self.directions, self.spec
        if backend == "reference":
            return md_gru_reference(*given)
        if backend == "wavefront":
            return scan(*given, Wavefront())
        return fused(*given, backend)

    def whole_layer(self, backend: CpuScanner) -> Tensor:
        """The states as they are computed without gradients, all in one call."""
        n_batch, n_words, _, width = self.inputs.shape
        below = None if self.below is None or "below" not in self.spec.read else self.below.detach().flatten(0, 2)
        states = backend.layer(
            self.inputs.detach().reshape(-1, width),
            below,
            Weights(*(weight.detach() for weight in self.weights)),
            _padded_tables(self.mask),
            Form(self.spec, self.directions),
        )
        return states.view(n_batch, n_words, n_words, *states.shape[1:])

    def results(self, backend: str) -> list[Tensor]:
        """The states, and the gradients of a weighted sum of them with respect to everything."""
        states = self.compute(backend)
        noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        leaves = [self.inputs, *self.weights, *([] if self.below is None else [self.below])]
        grads = torch.autograd.grad((states * noise.to(states.dtype)).sum(), leaves, materialize_grads=True)
        return [states.detach(), *grads]


def make_case(
    lengths: list[int],
    width: int = 3,
    spec: CellSpec | None = None,
    directions: tuple[Direction, ...] = ("nw", "se"),
    with_below: bool = True,
    input_width: int = 5,
) -> Case:
    spec = spec or CellSpec()
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int, scale: float = 1.0) -> Tensor:
        values = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return values.requires_grad_()

    batch, n, d, parts = len(lengths), max(lengths), len(directions), spec.n_parts * width
    weights = Weights(
        random(d, input_width, parts, scale=input_width**-0.5),
        random(d, parts),
        random(d, len(spec.slots) * width, parts, scale=width**-0.5),
        random(d, parts),
    )
    mask = torch.arange(n) < torch.tensor(lengths).unsqueeze(1)
    below = random(batch, n, n, d, width) if with_below else None
    return Case(spec, directions, random(batch, n, n, input_width), below, mask, weights)


def assert_same(case: Case) -> None:
    expected = case.results("reference")
    for found, wanted in zip(case.results("cpu"), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(case.whole_layer(CpuScanner()), expected[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "+".join(spec.slots) + "-" + "+".join(spec.read))
def test_scan_equals_reference_for_every_set_of_predecessors(spec: CellSpec) -> None:
    assert_same(make_case([4, 2], spec=spec))


@pytest.mark.parametrize(
    "directions", [c for size in range(1, 5) for c in combinations(DIRECTIONS, size)], ids="+".join
)
def test_scan_equals_reference_for_every_set_of_directions(directions: tuple[Direction, ...]) -> None:
    assert_same(make_case([3, 5], directions=directions))


@pytest.mark.parametrize("lengths", [[1], [2], [7], [1, 6], [5, 1, 3, 5], [0, 4]], ids=str)
def test_scan_equals_reference_for_ragged_batches(lengths: list[int]) -> None:
    assert_same(make_case(lengths, directions=("nw", "se", "ne")))


def test_scan_of_sentences_without_words_is_zero() -> None:
    case = make_case([3, 3], with_below=False)
    empty = replace(case, mask=torch.zeros_like(case.mask))
    assert all(found.abs().max() == 0 for found in empty.results("cpu"))
    assert empty.whole_layer(CpuScanner()).abs().max() == 0


@pytest.mark.parametrize("width", [1, 7, 16, 50, 130])
def test_scan_equals_reference_for_any_width(width: int) -> None:
    assert_same(make_case([5, 2], width, input_width=9))


def test_scan_equals_reference_without_a_layer_below() -> None:
    assert_same(make_case([4, 3], with_below=False))
    neighbours: tuple[Predecessor, ...] = ("up", "left")
    assert_same(make_case([4, 3], spec=CellSpec(neighbours, neighbours), with_below=False))


def errors(case: Case, backend: str, expected: list[Tensor]) -> list[float]:
    """The error of the states and of each gradient, root mean square: the largest one is a matter of luck."""
    return [
        (found.double() - wanted).square().mean().sqrt().item()
        for found, wanted in zip(case.results(backend), expected, strict=True)
    ]


@cache
def in_plain_torch(lengths: tuple[int, ...], width: int, dtype: torch.dtype) -> tuple[Case, list[Tensor], list[float]]:
    """A case in some type, its exact results, and the errors of plain torch: in half precision the slowest of all."""
    case = make_case([*lengths], width, input_width=50).to(dtype)
    exact = case.to(torch.float64).results("wavefront")
    return case, exact, errors(case, "wavefront", exact)


@pytest.mark.parametrize(
    ("dtype", "backend"),
    [
        (torch.float32, "cpu"),
        (torch.bfloat16, "cpu"),
        (torch.float16, "cpu"),
        (torch.bfloat16, "tiles"),
        (torch.bfloat16, "pairs"),
    ],
    ids=str,
)
@pytest.mark.parametrize(("lengths", "width"), [((17, 1, 0, 7, 3), 37), ((24,), 100), ((3, 9), 64)], ids=str)
def test_error_is_at_most_twice_that_of_plain_torch(
    dtype: torch.dtype, backend: str, lengths: tuple[int, ...], width: int
) -> None:
    case, exact, plain = in_plain_torch(lengths, width, dtype)
    for found, allowed in zip(errors(case, backend, exact), plain, strict=True):
        assert found <= 2 * allowed
    states = case.whole_layer(CpuScanner(replace(SOURCE, flags=EMULATED.get(backend, ()))))
    assert (states.double() - exact[0]).square().mean().sqrt().item() <= 2 * plain[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("directions", [("nw",), ("nw", "se", "sw")], ids="+".join)
def test_results_do_not_depend_on_the_number_of_threads(dtype: torch.dtype, directions: tuple[Direction, ...]) -> None:
    """Neither where threads share one sentence nor where they have many."""
    before = torch.get_num_threads()
    for lengths in ([17], [9, 13, 2, 13, 5, 1]):
        case = make_case(lengths, 70, directions=directions).to(dtype)
        given = _projected(case)
        try:
            torch.set_num_threads(1)
            expected = _scanned(given)
            for n_threads in (2, 3, 8):
                torch.set_num_threads(n_threads)
                assert all(torch.equal(*pair) for pair in zip(_scanned(given), expected, strict=True))
        finally:
            torch.set_num_threads(before)


def _projected(case: Case) -> tuple[Case, Tensor]:
    n_cells, width = case.inputs[..., 0].numel(), case.spec.width(case.weights)
    n_columns = (1 + case.spec.n_parts) * width
    generator = torch.Generator().manual_seed(2)
    projected = torch.randn(n_cells, len(case.directions), n_columns, generator=generator)
    return case, projected.to(case.inputs.dtype)


def _scanned(given: tuple[Case, Tensor]) -> list[Tensor]:
    """What depends on the scans alone: torch's own products are not the same with every number of threads."""
    case, projected = given
    assert case.below is not None
    below, width = case.below.detach().flatten(0, 2), case.spec.width(case.weights)
    recurrent, tables = case.weights.state.detach()[:, width:], _padded_tables(case.mask)
    rest = recurrent, tables, case.mask.shape[1], Form(case.spec, case.directions)
    scanner = CpuScanner()
    states, gates = scanner.forward(projected.clone(), below, *rest, keep=True)
    real = (case.mask.unsqueeze(1) & case.mask.unsqueeze(2)).flatten()
    grads = scanner.backward(torch.ones_like(states), gates, states, below, *rest)
    return [states, gates[real], *(grad for grad in grads if grad is not None), case.whole_layer(scanner)]


@pytest.mark.parametrize("backend", ["cpu", *EMULATED])
def test_noise_in_padding_that_is_not_a_number_stays_there(backend: str) -> None:
    case = make_case([2, 20, 4], 20).to(torch.bfloat16 if backend in EMULATED else torch.float32)
    scanner = CpuScanner(replace(SOURCE, flags=EMULATED.get(backend, ())))
    expected, whole = case.compute(backend), case.whole_layer(scanner)
    outside = ~(case.mask.unsqueeze(1) & case.mask.unsqueeze(2))
    assert case.below is not None
    inputs, below = case.inputs.detach().clone(), case.below.detach().clone()
    inputs[outside], below[outside] = torch.nan, torch.nan
    poisoned = replace(case, inputs=inputs, below=below)
    assert torch.equal(poisoned.compute(backend), expected)
    assert torch.equal(poisoned.whole_layer(scanner), whole)
    assert whole[outside].abs().max() == 0
    assert expected[outside].abs().max() == 0


def test_padding_gets_no_gradients_and_gives_none() -> None:
    """Not even where what lies outside the tables is not a number."""
    case, projected = _projected(make_case([2, 5]).to(torch.float32))
    assert case.below is not None
    outside = ~(case.mask.unsqueeze(1) & case.mask.unsqueeze(2)).flatten()
    below, width = case.below.detach().flatten(0, 2).clone(), case.spec.width(case.weights)
    tables = _padded_tables(case.mask)
    rest = case.weights.state.detach()[:, width:], tables, case.mask.shape[1], Form(case.spec, case.directions)
    states, gates = CpuScanner().forward(projected, below, *rest, keep=True)
    grad = torch.ones_like(states)
    expected = CpuScanner().backward(grad, gates, states, below, *rest)
    for tensor in (grad, gates, below):
        tensor[outside] = torch.nan
    for found, wanted in zip(CpuScanner().backward(grad, gates, states, below, *rest), expected, strict=True):
        assert found is not None
        assert wanted is not None
        assert torch.equal(found, wanted)
        assert found[outside].abs().max() == 0


def test_not_a_number_in_a_cell_reaches_the_cells_after_it() -> None:
    case = make_case([4]).to(torch.float32)
    inputs = case.inputs.detach().clone()
    inputs[0, 1, 2] = torch.nan
    bad = replace(case, inputs=inputs).compute("cpu").isnan().any(-1)[0]
    rows, columns = torch.arange(4).unsqueeze(1), torch.arange(4)
    assert torch.equal(bad[..., 0], (rows >= 1) & (columns >= 2))
    assert torch.equal(bad[..., 1], (rows <= 1) & (columns <= 2))


def test_far_values_saturate_as_in_plain_torch() -> None:
    case = make_case([6], 8).to(torch.float32)
    case = replace(case, inputs=(case.inputs.detach() * 1e4).requires_grad_())
    torch.testing.assert_close(case.compute("cpu"), case.compute("wavefront"))
    torch.testing.assert_close(case.whole_layer(CpuScanner()), case.compute("wavefront"))


def test_non_contiguous_tensors_give_the_same_states() -> None:
    case = make_case([5, 4], 9)
    assert case.below is not None
    expected = case.results("cpu")
    turned = case.inputs.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    strided = case.below.detach().permute(4, 3, 0, 1, 2).contiguous().permute(2, 3, 4, 1, 0).requires_grad_()
    weights = Weights(*(w.detach().mT.contiguous().mT.requires_grad_() for w in case.weights))
    other = replace(case, inputs=turned, below=strided, weights=weights)
    for found, wanted in zip(other.results("cpu"), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(other.whole_layer(CpuScanner()), expected[0], rtol=1e-12, atol=1e-13)


def test_nothing_that_is_given_is_changed() -> None:
    case = make_case([5, 2])
    assert case.below is not None
    given = [case.inputs, case.below, *case.weights]
    before = [one.detach().clone() for one in given]
    case.results("cpu")
    case.whole_layer(CpuScanner())
    with torch.inference_mode():
        case.compute("cpu")
    assert all(torch.equal(one, old) for one, old in zip(given, before, strict=True))


def test_graph_can_be_used_twice() -> None:
    case = make_case([4])
    total = case.compute("cpu").sum()
    first = torch.autograd.grad(total, case.weights.state, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(total, case.weights.state)[0], first)


def test_threads_are_those_of_torch() -> None:
    assert (threads.find_openmp() is not None) == torch.backends.openmp.is_available()


def test_type_of_numbers_that_is_not_computed_is_refused() -> None:
    case = make_case([2], with_below=False)
    with pytest.raises(RelatumError, match=r"does not compute in torch\.complex64"):
        case.to(torch.complex64).compute("cpu")


@pytest.mark.parametrize("name", [name for name, kind in VARIANTS.items() if kind.machine == platform.machine()])
def test_variants_for_other_cpus_are_valid(name: str, tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    compile_source(replace(SOURCE, flags=("-fsyntax-only",)), compiler, VARIANTS[name].flags, tmp_path / "nothing")


@pytest.mark.parametrize("with_below", [True, False])
def test_operator_is_what_torch_expects(with_below: bool) -> None:
    case = make_case([3, 2], with_below=with_below)
    below = None if case.below is None else case.below.detach().flatten(0, 2).requires_grad_()
    inputs = case.inputs.detach().reshape(-1, case.inputs.shape[-1]).requires_grad_()
    text = Form(case.spec, case.directions).to_text()
    args = (inputs, below, *case.weights, _padded_tables(case.mask), case.mask.shape[1], text, "cpu", True)
    torch.library.opcheck(torch.ops.relatum.md_gru.default, args)
