"""The models that come with relatum: what they find in text that nobody trained on, and how soon they can begin."""

import json
import subprocess
import sys

import pytest

from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import shipped_models
from relatum.kernels.backend import use_backend
from relatum.kernels.network.cpu import is_available
from relatum.runtime.native.reader import NativeReader
from relatum.runtime.native.runtime import NativeRuntime
from relatum.runtime.torch import TorchRuntime


@pytest.fixture(scope="module")
def news() -> Extractor:
    return Extractor.from_pretrained("news", device="cpu")


def triples(extractor: Extractor, text: str) -> set[tuple[str, str, str]]:
    found = extractor(text)
    return {(r.head.span.of(text), r.label, r.tail.span.of(text)) for r in found.relations}


def test_models_that_come_with_relatum_are_news_drugs_and_wiki() -> None:
    assert shipped_models() == ["drugs", "news", "wiki"]


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


@pytest.mark.parametrize("name", ["news", "drugs", "wiki"])
def test_shipped_models_are_read_by_compiled_code_where_it_can_run(name: str) -> None:
    extractor = Extractor.from_pretrained(name, device="cpu")
    if is_available():
        assert isinstance(extractor.runtime, NativeReader)
    assert isinstance(Extractor(extractor.model).runtime, NativeRuntime if is_available() else TorchRuntime)
    with use_backend("wavefront"):
        assert isinstance(Extractor.from_pretrained(name, device="cpu").runtime, TorchRuntime)


def test_runtime_is_selected_again_when_the_model_is_moved() -> None:
    extractor = Extractor.from_pretrained("news", device="cpu")
    first = extractor.runtime
    assert extractor.runtime is first
    extractor.model.network.to("cpu")
    second = extractor.runtime
    assert second is not first, "torch holds the weights from now on"
    assert extractor.runtime is second
    extractor.model.network.to("meta")
    assert extractor.runtime is not second
    assert isinstance(extractor.runtime, TorchRuntime)


def test_drugs_finds_effects_and_what_caused_them() -> None:
    drugs = Extractor.from_pretrained("drugs", device="cpu")
    text = "A 61-year-old man developed acute hepatitis after two weeks of treatment with isoniazid."
    assert triples(drugs, text) == {("acute hepatitis", "Adverse-Effect", "isoniazid")}


def test_wiki_finds_several_relations_of_a_pair() -> None:
    wiki = Extractor.from_pretrained("wiki", device="cpu")
    text = "Frida Berg (born 3 May 1952 in Oslo) won the Nobel Prize in Physics in 1903. Berlin is in Germany."
    assert triples(wiki, text) == {
        ("Frida Berg", "date_of_birth", "3 May 1952"),
        ("Frida Berg", "place_of_birth", "Oslo"),
        ("Frida Berg", "award_received", "Nobel Prize in Physics"),
        ("Berlin", "located_in", "Germany"),
        ("Berlin", "country", "Germany"),
    }


@pytest.mark.parametrize(
    ("options", "labels"), [([], {"PER", "ORG"}), (["--model", "news"], {"Peop", "Org"})], ids=["default", "news"]
)
def test_extract_begins_without_importing_what_it_does_not_need(options: list[str], labels: set[str]) -> None:
    """Each of these takes a good part of a second, and the answer should be there in less than three."""
    code = (
        "import json, sys\n"
        "from relatum.cli.app import main\n"
        f"status = main(['extract', *{options}, 'Ann Lee works for the Reserve Bank.'])\n"
        "slow = 'transformers torch._dynamo torch._inductor sympy rich triton relatum.data.formats'.split()\n"
        "print(json.dumps([status, [name for name in slow if name in sys.modules]]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == [0, []]
    assert {entity["label"] for entity in json.loads(done.stdout)["entities"]} == labels
