"""Models on the hub: the real client against a stand-in on 127.0.0.1."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants

from relatum import Extractor, RelatumError, calibrate
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.finding import locate_model
from relatum.extractor.hub_card import CardMetadata, card_scores, make_hub_card

from ..hub_stand_in import READER, TOKEN, Hub, Repo, metadata_of, use_hub
from ..small_models import make_small_model, make_small_span_model

# The client of the hub uploads large files in a way that its own library for HTTP wants to get rid of.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven."
FILES = ["README.md", "config.json", "manifest.json", "model.safetensors", "schema.json"]
CARD = """# A model

```python
extractor = Extractor.from_pretrained("PATH/TO/THIS/FOLDER")
```

## Scores

| part | task | P | R | F1 | macro F1 |
|---|---|---:|---:|---:|---:|
| test | entities | 85.83 | 87.58 | 86.70 | 83.61 |

## Licence
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with use_hub(tmp_path / "cache") as hub:
        yield hub


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(make_small_model(), CARD)


@pytest.fixture
def pushed(hub: Hub, extractor: Extractor) -> str:
    """The commit of the model `mara/names`; the requests that it took are forgotten."""
    revision = extractor.push_to_hub("mara/names", token=TOKEN).revision
    hub.requests.clear()
    return revision


def load(name: str = "mara/names", **options: object) -> Extractor:
    return Extractor.from_pretrained(name, device="cpu", **options)  # type: ignore[arg-type]


def test_model_is_pushed_and_loaded_again(hub: Hub, extractor: Extractor) -> None:
    pushed = extractor.push_to_hub("mara/names", token=TOKEN, commit_message="My first model")
    repo = hub.repos["mara/names"]
    assert (pushed.name, pushed.url, pushed.needs) == ("mara/names", f"{hub.url}/mara/names", ())
    assert (pushed.revision, repo.messages) == (repo.refs["main"], ["My first model"])
    assert sorted(repo.files) == FILES
    assert len(hub.stored) == 1
    loaded = load()
    assert loaded(TEXT) == extractor(TEXT)
    assert (loaded.name, loaded.revision) == ("mara/names", pushed.revision)
    assert 'from_pretrained("mara/names")' in loaded.card
    again = loaded.push_to_hub("mara/names", token=TOKEN)
    assert again.revision == repo.refs["main"] != pushed.revision


@pytest.mark.usefixtures("pushed")
def test_only_files_of_the_manifest_are_downloaded(hub: Hub, extractor: Extractor) -> None:
    hub.repos["mara/names"].commit({"weights.bin": b"pickle", "model.py": b"exit()", "encoder/extra.json": b"{}"})
    assert load()(TEXT) == extractor(TEXT)
    names = {line.rpartition("/")[2] for line in hub.requests if "/resolve/" in line}
    assert names == set(FILES)


def test_second_load_needs_no_network(hub: Hub, pushed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load()(TEXT)
    hub.requests.clear()
    for options in ({"local_files_only": True}, {"revision": pushed}):
        assert load(**options)(TEXT) == expected
        assert load(**options).revision == pushed
    assert hub.requests == []
    hub.status = 500
    assert load()(TEXT) == expected
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load().revision == pushed


@pytest.mark.usefixtures("hub", "pushed")
def test_environment_variables_of_the_hub_hold(tmp_path: Path) -> None:
    load()
    code = "from relatum.extractor.finding import locate_model; print(locate_model('mara/names').folder)"
    settings = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(locate_model("mara/names").folder), done.stderr


def test_branch_tag_or_commit_can_be_named(hub: Hub, pushed: str) -> None:
    other = Extractor(make_small_span_model(), "")
    newer = other.push_to_hub("mara/names", token=TOKEN, branch="next").revision
    hub.repos["mara/names"].refs["v1"] = pushed
    for revision, commit in ((None, pushed), ("main", pushed), ("v1", pushed), (pushed, pushed), ("next", newer)):
        assert load(revision=revision).revision == commit
    assert load(revision="next")(TEXT) == other(TEXT)
    with pytest.raises(RelatumError, match="has no branch, tag or commit 'v2'"):
        load(revision="v2")


@pytest.mark.usefixtures("hub")
def test_new_commit_is_found(pushed: str) -> None:
    assert load().revision == pushed
    newer = Extractor(make_small_model(seed=3)).push_to_hub("mara/names", token=TOKEN).revision
    assert load().revision == newer != pushed


def test_private_and_gated_models_need_a_token(hub: Hub, extractor: Extractor) -> None:
    extractor.push_to_hub("mara/secret", token=TOKEN, private=True)
    with pytest.raises(
        RelatumError, match=r"mara/secret: no such model on the hub .* or it is private; .* hf auth login"
    ):
        load("mara/secret", token=False)
    assert load("mara/secret", token=READER)(TEXT) == extractor(TEXT)
    hub.repos["mara/secret"].gated = True
    with pytest.raises(RelatumError, match=f"is gated; ask for access at {hub.url}/mara/secret"):
        load("mara/secret", token=READER)


def test_missing_model_says_what_was_tried(hub: Hub) -> None:
    with pytest.raises(RelatumError) as caught:
        load("mara/nmes")
    message = str(caught.value)
    assert message.startswith(f"mara/nmes: no such model on the hub ({hub.url})")
    assert message.endswith(f"there is no folder {Path.cwd() / 'mara/nmes'} either")
    with pytest.raises(RelatumError, match=r"did you mean 'news'.*a model on the hub \(owner/model\)"):
        load("newss")
    assert not any("newss" in line for line in hub.requests)


def test_names_of_relatum_and_folders_come_first(
    hub: Hub, extractor: Extractor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    extractor.save("mara/names")
    assert load().revision is None
    assert load("news").revision is None
    assert hub.requests == []
    for name in ("mara/names", "news"):
        with pytest.raises(RelatumError, match=f"{name}: the revision 'main' is for models on the hub"):
            load(name, revision="main")
    with pytest.raises(RelatumError, match="for one model"):
        Extractor.from_pretrained(["news", "mara/names"], revision="main")


def test_repository_without_a_manifest_is_refused(hub: Hub) -> None:
    hub.repos["mara/other"] = Repo()
    hub.repos["mara/other"].commit({"config.json": b"{}", "pytorch_model.bin": b""})
    with pytest.raises(RelatumError, match=r"there is no manifest\.json .* is not a model of relatum"):
        load("mara/other")
    assert not any("pytorch_model" in line for line in hub.requests)


@pytest.mark.usefixtures("pushed")
def test_incomplete_and_tampered_models_are_refused(hub: Hub) -> None:
    repo = hub.repos["mara/names"]
    schema = repo.files["schema.json"]
    repo.commit({"schema.json": schema.replace(b"Peop", b"Evil")})
    with pytest.raises(RelatumError, match=r"schema\.json: the file has the sha256 .* damaged or replaced"):
        load()
    del repo.files["schema.json"]
    repo.commit({})
    with pytest.raises(RelatumError, match=r"there is no schema\.json .* it is incomplete; push it again"):
        load()


@pytest.mark.usefixtures("pushed")
def test_manifest_cannot_name_code_or_files_elsewhere(hub: Hub) -> None:
    repo = hub.repos["mara/names"]
    manifest = json.loads(repo.files["manifest.json"])

    def load_with(name: str) -> None:
        changed = {"files": manifest["files"] | {name: "0" * 64}}
        repo.commit({"manifest.json": json.dumps(changed).encode(), name: b""})
        load()

    with pytest.raises(RelatumError, match=r"has the file weights\.bin; relatum downloads only \.json"):
        load_with("weights.bin")
    with pytest.raises(RelatumError, match="no usable list of files"):
        load_with("../outside.json")
    repo.commit({"manifest.json": b"[" * (2**24 + 1)})
    with pytest.raises(RelatumError, match=r"manifest\.json has 16,777,217 bytes, expected at most"):
        load()
    assert not any("weights" in line or "outside" in line for line in hub.requests)


@pytest.mark.parametrize(("token", "message"), [(False, "Invalid username"), (READER, "no right to write")])
def test_push_without_the_right_to_write_says_so(
    hub: Hub, extractor: Extractor, token: str | bool, message: str
) -> None:
    with pytest.raises(
        RelatumError, match=f"mara/names: the hub .* refuses this: .*{message}.*; log in with a token that may"
    ) as caught:
        extractor.push_to_hub("mara/names", token=token)
    assert READER not in str(caught.value)
    assert hub.repos == {}


def test_broken_slow_and_absent_hubs_are_told(hub: Hub, extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.status = 503
    with pytest.raises(RelatumError, match=r"is not in the cache .* was not reached: .*503"):
        load()
    with pytest.raises(RelatumError, match=r"mara/names: the hub .* cannot be used: .*503"):
        extractor.push_to_hub("mara/names", token=TOKEN)
    hub.status, hub.delay = 0, 1.0
    with pytest.raises(RelatumError, match=r"was not reached: .*timed out"):
        load()
    hub.delay = 0
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    with pytest.raises(RelatumError, match=r"was not reached: .*refused"):
        load()
    with pytest.raises(RelatumError, match="is not the name of a model on the hub; expected owner/model"):
        extractor.push_to_hub("names")


@pytest.mark.usefixtures("hub")
def test_ensemble_is_not_pushed() -> None:
    model = make_small_model()
    with pytest.raises(RelatumError, match="push its members one by one"):
        Ensemble([model, model]).push_to_hub("mara/names")


@pytest.mark.usefixtures("hub", "pushed")
def test_model_of_the_hub_is_calibrated_as_a_copy(examples_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="is in the cache of the hub and is not changed"):
        calibrate("mara/names", examples_folder / "news", device="cpu")
    out = calibrate("mara/names", examples_folder / "news", out=tmp_path / "own", device="cpu").folder
    assert Extractor.from_pretrained(out).model.calibration is not None
    assert load().model.calibration is None


@pytest.mark.usefixtures("hub")
def test_downloaded_extractor_can_be_pickled_and_saved(pushed: str, tmp_path: Path) -> None:
    loaded = load()
    copy = pickle.loads(pickle.dumps(loaded))
    assert (copy.revision, copy(TEXT)) == (pushed, loaded(TEXT))
    loaded.save(tmp_path / "saved")
    assert Extractor.from_pretrained(tmp_path / "saved")(TEXT) == loaded(TEXT)


# Encoders.


def test_encoder_can_be_pushed_with_the_model(hub: Hub) -> None:
    drugs = Extractor.from_pretrained("drugs", device="cpu")
    assert drugs.push_to_hub("mara/drugs", token=TOKEN, encoder="inside").needs == ()
    files = hub.repos["mara/drugs"].files
    assert "encoder/model.safetensors" in files
    assert "adapter/adapter_model.safetensors" in files
    text = "The patient developed nausea after taking ibuprofen."
    assert load("mara/drugs")(text) == drugs(text)


def test_encoder_that_others_lack_is_named_or_refused(hub: Hub, tmp_path: Path) -> None:
    news = Extractor.from_pretrained("news", device="cpu")
    settings = news.model.config

    def named(encoder: str) -> Extractor:
        section = settings.encoder.model_copy(update={"name": encoder})
        config = settings.model_copy(update={"encoder": section})
        return Extractor(replace(news.model, config=config), news.card)

    with pytest.raises(
        RelatumError, match=r"encoder in the folder .* encoder='inside', or relatum push --encoder-inside"
    ):
        named(str(tmp_path)).push_to_hub("mara/news", token=TOKEN)
    pushed = named("minilm-l6").push_to_hub("mara/news", token=TOKEN)
    assert pushed.needs == ("minilm-l6",)
    card = hub.repos["mara/news"].files["README.md"].decode()
    assert "`relatum encoder fetch minilm-l6` gets it beforehand" in card


# The card.


def test_card_has_metadata_and_scores_in_front() -> None:
    metadata = CardMetadata("apache-2.0", "en", ["mara/corpus"], ["shipping"])
    card = make_hub_card(CARD, "mara/names", metadata, ())
    data = metadata_of(card)
    assert (data.license, data.language, data.datasets) == ("apache-2.0", "en", ["mara/corpus"])
    assert (data.library_name, data.pipeline_tag) == ("relatum", "token-classification")
    assert {"relatum", "relation-extraction", "shipping"} <= set(data.tags)
    assert {one.metric_name: one.metric_value for one in data.eval_results} == {
        "entities, P": 85.83,
        "entities, R": 87.58,
        "entities, F1": 86.70,
        "entities, macro F1": 83.61,
    }
    assert {(one.dataset_split, one.dataset_name) for one in data.eval_results} == {("test", "mara/corpus")}
    assert ModelCard(card).text.lstrip().startswith("# A model")


def test_card_without_scores_has_no_results() -> None:
    for card in ("", "# A model\n", CARD.replace("| P |", "| Q |"), CARD.replace("## Scores", "## Dreams")):
        made = metadata_of(make_hub_card(card, "mara/names", CardMetadata(), ()))
        assert made.eval_results is None
        assert made.license is None
    with pytest.raises(RelatumError, match="expected numbers"):
        card_scores(CARD.replace("85.83", "high"))


def test_card_keeps_the_metadata_that_it_has() -> None:
    first = make_hub_card(CARD, "mara/names", CardMetadata("mit", ["en", "no"], ["a"], ["x"]), ["minilm-l6"])
    second = make_hub_card(first, "mara/names", CardMetadata(tags=["y"]), ["minilm-l6"])
    assert metadata_of(second).license == "mit"
    assert metadata_of(second).tags[-2:] == ["x", "y"]
    assert second.count("## Encoder") == second.count("| test |") == 1
    assert make_hub_card(second, "mara/names", CardMetadata(), ["minilm-l6"]) == second
    with pytest.raises(RelatumError, match="the YAML in front of the card cannot be read"):
        make_hub_card("---\na: [\n---\n", "mara/names", CardMetadata(), ())
