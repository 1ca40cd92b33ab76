"""An extractor that goes to another process."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch

from relatum.data.splitting import make_splitter
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.types import Span

from ..small_models import make_small_model

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."


def scores(extractor: Extractor) -> list[float | None]:
    return [entity.score for entity in extractor(TEXT).entities]


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("encoder", ["none", "huggingface"])
def test_extractor_is_the_same_after_pickling(encoder: str, read_before: bool) -> None:
    extractor = Extractor(make_small_model(f"encoder.kind={encoder}"), batch_size=7, max_cells=500)
    if read_before:
        extractor(TEXT)  # caches and compiled weights are there now
    back = pickle.loads(pickle.dumps(extractor))
    assert back(TEXT) == extractor(TEXT)
    assert scores(back) == scores(extractor)
    assert (back.batch_size, back.max_cells, back.max_words) == (7, 500, 22)
    assert back.model.network is not extractor.model.network
    assert scores(deepcopy(extractor)) == scores(extractor)


def test_shipped_model_is_the_same_after_pickling(tmp_path: Path) -> None:
    extractor = Extractor.from_pretrained("news", device="cpu")
    expected = extractor("Erik Dahl was born in Hammerfest, Norway.")
    back = pickle.loads(pickle.dumps(extractor))
    assert back("Erik Dahl was born in Hammerfest, Norway.").to_dict() == expected.to_dict()
    assert (back.name, back.card) == ("news", extractor.card)
    back.save(tmp_path / "copy")
    assert Extractor.from_pretrained(tmp_path / "copy", "cpu")(expected.text).to_dict() == expected.to_dict()


def test_bf16_survives_pickling(tmp_path: Path) -> None:
    Extractor(make_small_model("encoder.kind=huggingface")).save(tmp_path / "model")
    extractor = Extractor.from_pretrained(tmp_path / "model", "cpu", precision="bf16")
    back = pickle.loads(pickle.dumps(extractor))
    assert scores(back) == scores(extractor)
    assert any(weight.dtype == torch.bfloat16 for weight in back.model.network.parameters())


def test_ensemble_is_the_same_after_pickling_and_shares_its_encoder_still() -> None:
    members = [make_small_model(seed=seed) for seed in (160, 161)]
    ensemble = Ensemble(members, ["first", "second"])
    back = pickle.loads(pickle.dumps(ensemble))
    assert isinstance(back, Ensemble)
    assert scores(back) == scores(ensemble)
    assert back.model.network is back.members[0].network


def test_spawned_worker_reads_with_a_pickled_extractor() -> None:
    extractor = Extractor(make_small_model("encoder.kind=huggingface"))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        answer = workers.submit(extractor, TEXT).result(timeout=120)
    assert answer == extractor(TEXT)
    assert [entity.text for entity in answer.entities] == [entity.text for entity in extractor(TEXT).entities]


def test_extractor_stays_where_it_is_when_it_is_sent_to_a_process() -> None:
    extractor = Extractor(make_small_model("encoder.kind=huggingface"))
    expected = scores(extractor)  # compiled code has the addresses of the weights now
    before = addresses(extractor)
    sent = bytes(ForkingPickler.dumps(extractor))
    assert addresses(extractor) == before
    assert scores(extractor) == expected
    assert scores(pickle.loads(sent)) == expected


def addresses(extractor: Extractor) -> list[int]:
    return [weight.data_ptr() for weight in extractor.model.network.parameters()]


def test_splitter_of_the_users_own_is_left_to_the_outer_pickler() -> None:
    extractor = Extractor(make_small_model(), splitter=make_splitter(words=lambda text: [Span(0, len(text))]))
    assert extractor.__getstate__()["splitter"] is extractor.splitter


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_extractor_on_a_gpu_travels_without_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = Extractor(make_small_model("encoder.kind=huggingface").to("cuda"))
    pickled = pickle.dumps(extractor)
    assert extractor.model.device.type == "cuda"
    assert pickle.loads(pickled).model.device.type == "cuda"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert pickle.loads(pickled).model.device.type == "cpu"
