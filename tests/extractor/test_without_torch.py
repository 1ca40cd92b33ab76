"""Extraction by compiled code alone: the answers of torch, where there is no torch."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from relatum.encoders.base import EncoderInput
from relatum.encoders.words import WordVectors
from relatum.errors import ConfigError, MissingExtraError, RelatumError
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.kernels.network.cpu import is_available
from relatum.models.model import Model
from relatum.runtime.native.model import NativeModel, expected_shapes
from relatum.runtime.native.reader import NativeReader
from relatum.runtime.native.runtime import NativeRuntime
from relatum.runtime.torch import TorchRuntime

from ..small_models import make_small_model, seal

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SHIPPED = ("news", "drugs")
TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."

needs_compiled_code = pytest.mark.skipif(not is_available(), reason="there is no compiled code here")

BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(script: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_texts() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("**/*.txt"))]
    for path in sorted(EXAMPLES.glob("**/*.jsonl")):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        texts += [record.get("text") or " ".join(record["tokens"]) for record in records]
    return texts


def read_conll04(part: str) -> list[str]:
    folder = os.environ.get("RELATUM_DATA")
    path = Path(folder or "") / "conll04" / f"{part}.json"
    if folder is None or not path.exists():
        pytest.skip("RELATUM_DATA has no conll04")
    return [" ".join(record["tokens"]) for record in json.loads(path.read_text(encoding="utf-8"))]


def exact(extractions: Sequence[Extraction]) -> list[object]:
    return [
        (
            [(one.span, one.label, one.score) for one in found.entities],
            [(one.head, one.tail, one.label, one.score) for one in found.relations],
        )
        for found in extractions
    ]


def assert_close(found: Sequence[Extraction], wanted: Sequence[Extraction]) -> None:
    for one, two in zip(found, wanted, strict=True):
        assert (one.entities, one.relations) == (two.entities, two.relations)
        for own, other in zip(one.entities, two.entities, strict=True):
            assert own.score == pytest.approx(other.score, abs=1e-4)
        for mine, others in zip(one.relations, two.relations, strict=True):
            assert mine.score == pytest.approx(others.score, abs=1e-4)


def load(folder: Path, **settings: str) -> Extractor:
    return Extractor.from_pretrained(folder, "cpu", runtime="native", **settings)  # type: ignore[arg-type]


def save(folder: Path, *overrides: str, seed: int = 160) -> Path:
    model = make_small_model("encoder.kind=huggingface", *overrides, spread=0.3, seed=seed)
    Extractor(model).save(folder / "model")
    return folder / "model"


@needs_compiled_code
def test_neither_torch_nor_transformers_is_imported_to_extract() -> None:
    said = run(
        "import sys\nfrom relatum import Extractor\n"
        "for name in ('news', 'drugs'):\n"
        "    extractor = Extractor.from_pretrained(name)\n"
        "    extractor('Erik Dahl was born in Oslo.')\n"
        "    list(extractor.pipe(['Oslo is in Norway.'] * 3)), repr(extractor)\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))",
        CUDA_VISIBLE_DEVICES="",
    )
    assert said == "[]\n"


@needs_compiled_code
def test_everything_of_extraction_works_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    script = BLOCK + (
        "import json, pickle\nfrom relatum import Extractor\nfrom relatum.errors import MissingExtraError\n"
        f"text = {TEXT!r}\n"
        "extractor = Extractor.from_pretrained('news', precision='bf16')\n"
        "extractor(text)\n"
        "extractor = Extractor.from_pretrained('news', words='rules')\n"
        "found = extractor(text).to_dict()\n"
        "assert pickle.loads(pickle.dumps(extractor))(text).to_dict() == found\n"
        "refused = []\n"
        "for act in (lambda: extractor.model, lambda: extractor.save('x'), lambda: extractor.probe(text),\n"
        "            lambda: Extractor.from_pretrained('news', device='cuda'),\n"
        "            lambda: Extractor.from_pretrained('news', runtime='torch'),\n"
        "            lambda: Extractor.from_pretrained(['news', './copy'])):\n"
        "    try:\n"
        "        act()\n"
        "    except MissingExtraError as error:\n"
        "        refused.append(str(error))\n"
        "print(json.dumps([found, refused]))\n"
    )
    found, refused = json.loads(run(script))
    assert found == Extractor.from_pretrained("news", "cpu")(TEXT).to_dict()
    assert len(refused) == 6
    assert all("pip install 'relatum[torch]'" in message for message in refused)
    del tmp_path


@needs_compiled_code
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_child_reads_without_torch_too() -> None:
    script = BLOCK + (
        "import os, signal\nfrom relatum import Extractor\n"
        "from relatum.kernels.threads import count_threads, set_threads\n"
        f"texts = [{TEXT!r}] * 4\n"
        "extractor = Extractor.from_pretrained('news')\n"
        "assert count_threads() == 2\n"
        "found = [one.to_dict() for one in extractor.pipe(texts)]\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.alarm(60)\n"
        "    assert count_threads() == 1\n"
        "    set_threads(2)\n"
        "    os._exit([one.to_dict() for one in extractor.pipe(texts)] != found)\n"
        "print(os.waitpid(child, 0)[1], [one.to_dict() for one in extractor.pipe(texts)] == found)\n"
    )
    assert run(script, OMP_NUM_THREADS="2") == "0 True\n"


@needs_compiled_code
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_child_that_was_forked_while_weights_were_packed_packs_them_itself() -> None:
    script = (
        "import os, signal\nfrom relatum import Extractor\n"
        "extractor = Extractor.from_pretrained('news')\n"
        "with extractor._held._lock:  # as another thread would hold it while it packs\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        signal.alarm(30)\n"
        f"        os._exit(not extractor({TEXT!r}).entities)\n"
        "    print(os.waitpid(child, 0)[1])\n"
    )
    assert run(script) == "0\n"


def test_error_says_what_to_install_where_neither_runtime_can_read() -> None:
    script = BLOCK + (
        "from relatum import Extractor\n"
        "from relatum.errors import MissingExtraError\n"
        "try:\n"
        "    Extractor.from_pretrained('news')\n"
        "except MissingExtraError as error:\n"
        "    print(error)\n"
    )
    said = run(script, CXX="no-such-compiler")
    if not said:
        pytest.skip("compiled code came with the package")
    assert "there is no C++ compiler to make it with" in said
    assert "pip install 'relatum[torch]'" in said


@needs_compiled_code
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("part", ["examples", "dev"])
def test_shipped_models_give_the_same_bytes_with_and_without_torch(name: str, part: str) -> None:
    texts = read_texts()[:60] if part == "examples" else read_conll04(part)
    extractor = Extractor.from_pretrained(name, "cpu")
    assert isinstance(extractor.runtime, NativeReader)
    found = exact([*map(extractor, texts[:10]), *extractor.pipe(texts)])
    with_torch = Extractor(extractor.model)
    assert isinstance(with_torch.runtime, NativeRuntime)
    assert exact([*map(with_torch, texts[:10]), *with_torch.pipe(texts)]) == found


@needs_compiled_code
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("part", ["examples", "test"])
def test_shipped_models_find_what_plain_torch_finds(name: str, part: str) -> None:
    texts = read_texts()[:40] if part == "examples" else read_conll04(part)[:60]
    plain = Extractor.from_pretrained(name, "cpu", runtime="torch")
    assert isinstance(plain.runtime, TorchRuntime)
    assert_close(list(Extractor.from_pretrained(name, "cpu").pipe(texts)), list(plain.pipe(texts)))


@needs_compiled_code
@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.share_layers=true",),
        ("model.interaction=table-to-sequence",),
        ("characters.kind=none",),
        ("model.entity_source=diagonal",),
        ("encoder.pooling=first", "encoder.attention_pooling=mean"),
        ("encoder.context=3",),
        ('table.predecessors=["up", "left"]', "table.removed=dropped"),
    ],
    ids=str,
)
def test_models_of_every_form_are_read_as_torch_reads_them(overrides: tuple[str, ...], tmp_path: Path) -> None:
    folder = save(tmp_path, *overrides)
    extractor = load(folder)
    assert isinstance(extractor.runtime, NativeReader)
    assert_close([extractor(TEXT)], [Extractor.from_pretrained(folder, "cpu", runtime="torch")(TEXT)])
    assert exact([Extractor(extractor.model)(TEXT)]) == exact([load(folder)(TEXT)])


@needs_compiled_code
def test_shapes_of_all_weights_are_known(tmp_path: Path) -> None:
    for number, overrides in enumerate([(), ("characters.kind=none",), ("model.share_layers=true",)]):
        model = NativeModel.of(load(save(tmp_path / str(number), *overrides))._held.stored)  # type: ignore[union-attr]
        assert expected_shapes(model) == {name: one.shape for name, one in model.stored.weights.items()}


@needs_compiled_code
def test_weights_that_do_not_fit_the_settings_are_refused_before_compiled_code_reads_them(tmp_path: Path) -> None:
    folder = save(tmp_path)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("guide.weight"))
    for wrong in ({name: weights[name][:, :-1].contiguous()}, {"another": torch.zeros(1)}):
        save_file({**weights, **wrong}, folder / "model.safetensors")
        seal(folder)
        with pytest.raises(RelatumError, match=rf"the weights do not fit config\.json: {next(iter(wrong))} has"):
            load(folder)


@needs_compiled_code
def test_threads_that_ask_for_the_model_at_once_get_the_same(tmp_path: Path) -> None:
    extractor = load(save(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: extractor.model, range(4)))
        runtimes = list(pool.map(lambda _: extractor.runtime, range(4)))
    assert {id(one) for one in models} == {id(extractor.model)}
    assert {id(one) for one in runtimes} == {id(extractor.runtime)}


@needs_compiled_code
def test_model_that_was_loaded_reads_on_when_its_file_is_written_over(tmp_path: Path) -> None:
    folder = save(tmp_path)
    said = run(
        "import pathlib\nfrom relatum import Extractor\n"
        f"extractor = Extractor.from_pretrained({str(folder)!r}, 'cpu')\n"
        f"pathlib.Path({str(folder / 'model.safetensors')!r}).write_bytes(b'')\n"
        f"print(len(extractor({TEXT!r}).entities))\n"
    )
    assert int(said) >= 0


@needs_compiled_code
@pytest.mark.parametrize("unknown", ["learned", "zero"])
def test_word_vectors_are_read_as_torch_reads_them(unknown: str, tmp_path: Path) -> None:
    vectors = WordVectors(("erik", "dahl", "oslo"), 3 * torch.randn(3, 5, generator=torch.Generator().manual_seed(0)))
    settings = "encoder.kind=huggingface", f"words.unknown={unknown}"
    Extractor(make_small_model(*settings, spread=0.3, words=vectors)).save(tmp_path / "model")
    batch = EncoderInput([("Erik", "Dahl", "lives"), ("Oslo", "is", "cold")])
    own = load(tmp_path / "model").runtime.read(batch).entity_logits
    others = Extractor.from_pretrained(tmp_path / "model", "cpu", runtime="torch").runtime.read(batch).entity_logits
    np.testing.assert_allclose(own, np.asarray(others), atol=1e-4)


@needs_compiled_code
@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (("table.attention_maps=false",), "the table reads no attention maps"),
        (("table.pairing=one-step",), "words are paired in one step"),
        (("table.kind=cnn",), "a layer has no MD-RNN, or no sequence encoder"),
        (("encoder.mixing=learned",), "the network mixes its layers"),
    ],
)
def test_model_that_compiled_code_does_not_have_is_read_by_torch(
    overrides: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, *overrides)
    assert isinstance(Extractor.from_pretrained(folder, "cpu")._held, Model)
    with pytest.raises(RelatumError, match=f"the runtime 'native' cannot read this model here: .*{reason}"):
        load(folder)


@needs_compiled_code
def test_bf16_is_the_same_with_and_without_torch(tmp_path: Path) -> None:
    folder = save(tmp_path)
    extractor = load(folder, precision="bf16")
    found = exact([extractor(TEXT)])
    assert any(weight.dtype == torch.bfloat16 for weight in extractor.model.network.parameters())
    assert exact([extractor(TEXT)]) == found
    assert exact([load(folder)(TEXT)]) != found


@needs_compiled_code
def test_int8_rounds_the_encoder_with_torch_and_without() -> None:
    without, with_torch = (Extractor.from_pretrained("news", "cpu", "int8") for _ in range(2))
    found = exact([without(TEXT)])
    assert isinstance(without.runtime, NativeReader)
    assert found != exact([Extractor.from_pretrained("news", "cpu")(TEXT)])
    assert with_torch.model.device.type == "cpu"
    assert exact([with_torch(TEXT)]) == found
    assert not isinstance(with_torch.runtime, NativeReader)
    with pytest.raises(ConfigError, match="precision 'int8': the runtime 'torch' has no 8-bit products"):
        Extractor.from_pretrained("news", "cpu", "int8", runtime="torch")


@needs_compiled_code
def test_ensemble_reads_in_int8(tmp_path: Path) -> None:
    folders = [save(tmp_path / str(seed), seed=seed) for seed in (1, 2)]
    full, rounded = (Extractor.from_pretrained(folders, "cpu", precision) for precision in ("fp32", "int8"))
    assert isinstance(rounded, Ensemble)
    assert rounded.members[0].encoder is rounded.members[1].encoder
    assert exact([rounded(TEXT)]) != exact([full(TEXT)])
    alone = [Extractor.from_pretrained(folder, "cpu", "int8") for folder in folders]
    members = Ensemble([extractor.model for extractor in alone])
    assert exact([rounded(TEXT)]) == exact([members(TEXT)])
    with pytest.raises(ConfigError, match="precision 'int8': the runtime 'torch' has no 8-bit products"):
        Extractor.from_pretrained(folders, "cpu", "int8", runtime="torch")


@needs_compiled_code
def test_copies_read_without_torch_too(tmp_path: Path) -> None:
    extractor = load(save(tmp_path))
    found = exact([extractor(TEXT)])
    for copied in (pickle.loads(pickle.dumps(extractor)), deepcopy(extractor)):
        assert isinstance(copied.runtime, NativeReader)
        assert exact([copied(TEXT)]) == found


@needs_compiled_code
def test_weights_that_are_changed_through_the_model_are_read() -> None:
    extractor = Extractor.from_pretrained("news", "cpu")
    before = exact([extractor(TEXT)])
    assert exact([extractor(TEXT)]) == before
    scorer = extractor.model.network.relation_scorer
    assert scorer is not None
    with torch.no_grad():
        scorer.weight.mul_(0.5)
    assert exact([extractor(TEXT)]) != before


def test_runtime_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="runtime 'onnx': there is none of that name; use one of 'auto', 'native'"):
        Extractor.from_pretrained("news", "cpu", runtime="onnx")
    with pytest.raises(RelatumError, match="an ensemble reads with torch"):
        Extractor.from_pretrained(["news", "drugs"], "cpu", runtime="native")
    assert issubclass(MissingExtraError, RelatumError)
