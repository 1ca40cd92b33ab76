"""Functions that split text: the user's own are used where the user names them, and never because a folder does."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from relatum import Extractor
from relatum.cli.app import app
from relatum.config import OwnFunctionError, load_config
from relatum.errors import ConfigError
from relatum.models.checkpoint import save_model
from relatum.types import Span

from ..small_models import make_small_model

TEXT = "Anna-Lena lives in Oslo."
MODULE = """
from pathlib import Path
from relatum.types import Span

log = Path(__file__).with_suffix(".log")


def note(what):
    with log.open("a") as file:
        file.write(what)


note("imported\\n")


def split(text):
    note("called\\n")
    spans, at = [], 0
    for word in text.replace("-", " ").split():
        at = text.index(word, at)
        spans.append(Span(at, at + len(word)))
        at += len(word)
    return spans
"""
TRAINING = (
    *("encoder.kind=none", "model.width=8", "model.n_layers=1", "sequence.n_attention_heads=2"),
    *("sequence.feedforward_width=8", "training.steps=2", "training.evaluate_every=1", "training.batch_size=2"),
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that can be imported; the answer is the file in which it notes that it was."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "planted.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    return folder / "planted.log"


@pytest.fixture
def model(planted: Path, tmp_path: Path) -> Path:
    """A model whose settings name the planted function."""
    del planted
    save_model(make_small_model("text.words=planted:split"), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "arguments",
    [
        ("extract", "--model", "MODEL", TEXT),
        ("extract", "--model", "news", "--with", "MODEL", TEXT),
        ("probe", "--model", "MODEL", TEXT),
        ("probe", "--model", "MODEL", "--data", "DATA"),
        ("attention", "--model", "MODEL", "DATA"),
        ("evaluate", "MODEL", "DATA"),
        ("calibrate", "MODEL", "DATA", "--out", "COPY"),
        ("serve", "--model", "MODEL", "--port", "0"),
    ],
    ids=" ".join,
)
def test_no_command_runs_a_function_that_a_model_names(
    arguments: tuple[str, ...], model: Path, planted: Path, examples_folder: Path, tmp_path: Path
) -> None:
    places = {"MODEL": model, "DATA": examples_folder / "news", "COPY": tmp_path / "copy"}
    with pytest.raises(OwnFunctionError, match=r"config\.json: text\.words: .*'planted:split'.* --set text\.words="):
        run(*(places.get(one, one) for one in arguments))
    assert not planted.exists()
    assert "planted" not in sys.modules


def test_model_reads_with_the_function_that_the_user_gives(model: Path, planted: Path) -> None:
    named = Extractor.from_pretrained(model, "cpu", words="planted:split")
    assert planted.read_text() == "imported\n"
    words = [sentence.words for sentence in named.split(TEXT)]
    assert words == [("Anna", "Lena", "lives", "in", "Oslo.")]

    def own(text: str) -> list[Span]:
        return [Span(0, len(text.split()[0]))]

    assert Extractor.from_pretrained(model, "cpu", words=own).split("Oslo is here")[0].words == ("Oslo",)
    both = Extractor.from_pretrained([model, _other(model)], "cpu", words=own, sentences="none")
    assert both.split("Oslo is. Here")[0].words == ("Oslo",)
    found = run("extract", "--model", model, "--set", "text.words=planted:split", "--format", "json", TEXT)
    assert found.exit_code == 0
    assert json.loads(found.stdout)["text"] == TEXT


def _other(model: Path) -> Path:
    return Path(shutil.copytree(model, model.with_name("other")))


def test_rules_that_come_with_relatum_can_be_given_to_any_model(tmp_path: Path) -> None:
    save_model(make_small_model(), tmp_path / "model")
    extractor = Extractor.from_pretrained(tmp_path / "model", "cpu", words="whitespace")
    assert extractor.split(TEXT)[0].words == tuple(TEXT.split())
    with pytest.raises(ConfigError, match="words = 'nothing': unknown"):
        Extractor.from_pretrained(tmp_path / "model", "cpu", words="nothing")
    with pytest.raises(ConfigError, match=r"words = .*found int; name a function"):
        Extractor.from_pretrained(tmp_path / "model", "cpu", words=3)  # type: ignore[arg-type]


def test_model_that_was_given_a_function_is_saved_with_its_name(model: Path, tmp_path: Path) -> None:
    Extractor.from_pretrained(model, "cpu", words="planted:split").save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["config"]["text"]["words"] == "planted:split"
    with pytest.raises(ConfigError, match=r"text\.words.*\n.*words='my_module:my_function', to save it"):
        Extractor.from_pretrained(model, "cpu", words=lambda text: [Span(0, len(text))]).save(tmp_path / "lambda")


def test_other_settings_of_a_model_cannot_be_given(model: Path) -> None:
    found = run("extract", "--model", model, "--set", "model.width=8", TEXT)
    assert found.exit_code == 2
    assert "expected text.words or text.sentences" in found.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Texts that are not split into words."""
    folder = tmp_path / "data"
    folder.mkdir()
    entity = {"id": "1", "start": 0, "end": 9, "label": "Peop"}
    for part in ("train", "dev"):
        record = {"text": TEXT, "entities": [entity], "relations": []}
        (folder / f"{part}.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def settings(*more: str) -> list[str]:
    return [word for one in (*TRAINING, *more) for word in ("--set", one)]


OWN = "text.words=planted:split"


def test_training_uses_the_function_and_says_how_to_use_the_model(data: Path, planted: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("train", data, "--out", out, *settings(OWN), "--device", "cpu")
    assert done.exit_code == 0
    assert "called" in planted.read_text()
    assert f'relatum extract --model {out / "model"} --set {OWN} "…"' in done.stdout
    assert 'from_pretrained("PATH/TO/THIS/FOLDER", words="planted:split")' in (out / "model" / "README.md").read_text()
    assert 'text.words = "planted:split"' in unescape((out / "report.html").read_text())


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_run_that_goes_on_must_be_told_the_function_again(
    several: bool, data: Path, planted: Path, tmp_path: Path, deeds: Callable[[str], None]
) -> None:
    out = tmp_path / "run"
    deeds("0:fail")
    _begin(data, out, several)
    _forget(planted)
    with pytest.raises(OwnFunctionError, match=r"runs?\.json: text\.words: found the function 'planted:split'"):
        run("train", "--resume", out)
    assert not planted.exists()
    wrong = run("train", "--resume", out, "--set", OWN, "--set", "text.sentences=lines")
    assert wrong.exit_code == 2
    assert "started with rules" in wrong.stderr
    wrong = run("train", "--resume", out, "--set", "training.steps=3")
    assert wrong.exit_code == 2
    assert "a run goes on as it was started" in wrong.stderr
    deeds("")
    done = run("train", "--resume", out, "--set", OWN)
    assert done.exit_code == 0
    assert (out / ("results.json" if several else "result.json")).exists()


def _begin(data: Path, out: Path, several: bool) -> None:
    """A run that has begun and made no update yet, or several."""
    if several:
        failed = run("train", data, "--out", out, *settings(OWN), "--device", "cpu", "--runs", "1")
        assert failed.exit_code == 1
        assert f"relatum train --resume {out} --set {OWN}" in failed.stderr
        return
    from relatum.training.corpus import load_training_data
    from relatum.training.folder import RunFolder, RunRecord

    config = load_config(None, (*TRAINING, OWN))
    loaded = load_training_data(data, config)
    RunFolder(out).create(RunRecord(config, str(data), None, None, "cpu", "", loaded.fingerprint()))


def _forget(planted: Path) -> None:
    planted.unlink()
    sys.modules.pop("planted")


def test_worker_of_a_run_refuses_what_it_was_not_told(data: Path, planted: Path, tmp_path: Path) -> None:
    from relatum.training.folder import RunFolder

    _begin(data, tmp_path / "run", several=False)
    _forget(planted)
    with pytest.raises(OwnFunctionError, match=r"run\.json"):
        RunFolder(tmp_path / "run").read()
    assert RunFolder(tmp_path / "run").read(["planted:split"]).config.text.words == "planted:split"
    assert not planted.exists()


def test_calibration_keeps_the_name_of_the_function(model: Path, examples_folder: Path, planted: Path) -> None:
    del planted
    done = run("calibrate", model, examples_folder / "news", "--set", OWN)
    assert done.exit_code == 0
    record: dict[str, Any] = json.loads((model / "config.json").read_text())
    assert record["config"]["text"]["words"] == "planted:split"


def test_run_learns_from_models_whose_function_is_named_again(data: Path, planted: Path, tmp_path: Path) -> None:
    model = tmp_path / "first" / "model"
    assert run("train", data, "--out", model.parent, *settings(OWN), "--device", "cpu").exit_code == 0
    for option in ("--teacher", "--start"):
        done = run("train", data, "--out", tmp_path / option, *settings(OWN), option, model, "--device", "cpu")
        assert done.exit_code == 0, done.output
        _forget(planted)
        with pytest.raises(OwnFunctionError, match=r"config\.json: text\.words: found the function 'planted:split'"):
            run("train", data, "--out", tmp_path / "other", *settings(), option, model, "--device", "cpu")
        assert not planted.exists()
        (tmp_path / "modules" / "planted.py").write_text(MODULE)
