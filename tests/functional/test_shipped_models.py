"""The models that come with relatum: what they find in text that nobody trained on, and how soon they can begin."""

import json
import subprocess
import sys

import pytest
import torch

from relatum.extractor.extractor import Extractor, shipped_models
from relatum.kernels.backend import use_backend
from relatum.kernels.encoder.cpu import is_available


@pytest.fixture(scope="module")
def news() -> Extractor:
    return Extractor.from_pretrained("news", device="cpu")


def triples(extractor: Extractor, text: str) -> set[tuple[str, str, str]]:
    found = extractor(text)
    return {(r.head.span.of(text), r.label, r.tail.span.of(text)) for r in found.relations}


def test_models_that_come_with_relatum_are_news_and_drugs() -> None:
    assert shipped_models() == ["drugs", "news"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Ingrid Solheim works for the Bergen Shipping Company.",
            ("Ingrid Solheim", "Work_For", "Bergen Shipping Company"),
        ),
        ("Lindqvist Steel Corp. is based in Omaha, Nebraska.", ("Lindqvist Steel Corp.", "OrgBased_In", "Omaha")),
        ("The town of Figueres, Spain, was quiet on Sunday.", ("Figueres", "Located_In", "Spain")),
        (
            "Gavrilo Princip assassinated Archduke Franz Ferdinand.",
            ("Gavrilo Princip", "Kill", "Archduke Franz Ferdinand"),
        ),
        ("Tomas Havel, who lives in Prague, was not at home.", ("Tomas Havel", "Live_In", "Prague")),
    ],
)
def test_news_finds_each_of_its_relations(news: Extractor, text: str, expected: tuple[str, str, str]) -> None:
    assert expected in triples(news, text)


def test_features_come_late_only_where_the_network_can_wait_for_them(news: Extractor) -> None:
    sentences = [["Tomas", "Havel", "lives", "in", "Prague"], ["He", "slept"]]
    with torch.inference_mode():
        wanted, late = news.model.inputs(sentences), news.model.inputs(sentences, late=True)
        assert wanted.encode is None
        assert news.model.inputs(sentences, late=True, n_words=7).encode is None
        with use_backend("wavefront"):
            assert news.model.inputs(sentences, late=True).encode is None
        if not is_available():
            pytest.skip("there is no compiled code here")
        assert late.encode is not None
        late.encode()
    for one, two in ((late.vectors, wanted.vectors), (late.attention_maps, wanted.attention_maps)):
        assert one is not None
        assert two is not None
        assert torch.equal(one, two)


def test_drugs_finds_effects_and_what_caused_them() -> None:
    drugs = Extractor.from_pretrained("drugs", device="cpu")
    text = "A 61-year-old man developed acute hepatitis after two weeks of treatment with isoniazid."
    assert triples(drugs, text) == {("acute hepatitis", "Adverse-Effect", "isoniazid")}


def test_extract_begins_without_importing_what_it_does_not_need() -> None:
    """Each of these takes a good part of a second, and the answer should be there in less than three."""
    code = (
        "import json, sys\n"
        "from relatum.cli.app import main\n"
        "status = main(['extract', 'Ann Lee works for the Reserve Bank.'])\n"
        "slow = 'transformers torch._dynamo torch._inductor sympy rich triton relatum.data.formats'.split()\n"
        "print(json.dumps([status, [name for name in slow if name in sys.modules]]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == [0, []]
    assert {entity["label"] for entity in json.loads(done.stdout)["entities"]} == {"Peop", "Org"}
