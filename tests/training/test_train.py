"""`relatum.train` and the functions beside it, as in a notebook."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import relatum
from relatum.config import Config, load_config
from relatum.errors import ConfigError, RelatumError
from relatum.training import loop
from relatum.training.arguments import ArgumentError, TrainArguments, config_overrides
from relatum.training.loop import TrainingStopped

from .conftest import TINY, Silent

SETTINGS = {
    "encoder.kind": "none",
    "model.width": 8,
    "model.n_layers": 1,
    "sequence.n_attention_heads": 2,
    "sequence.feedforward_width": 8,
    "characters.width": 4,
    "training.steps": 4,
    "training.evaluate_every": 2,
}


def test_train_returns_a_run_whose_model_reads_text(
    small_corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = relatum.train(str(small_corpus), out=str(tmp_path / "run"), overrides=SETTINGS, seed=3, device="cpu")
    assert capfd.readouterr() == ("", ""), "nothing is printed without a monitor"
    assert (run.folder, run.model) == (tmp_path / "run", tmp_path / "run" / "model")
    assert run.dev is not None
    assert run.test is not None
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["dev"] == run.dev.to_dict()
    assert run.ceilings["test"].entities.micro.recall == 1.0
    assert (run.result.seed, run.result.steps) == (3, 4)
    assert run.load(device="cpu")("Ada Lind left Oslo.").text == "Ada Lind left Oslo."


def test_train_chooses_sizes_and_a_folder_and_tells_a_function(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    run = relatum.train(small_corpus, overrides=SETTINGS, device="cpu", monitor=lines.append)
    assert run.folder == Path("runs/news-1")
    assert run.result.config.training.warmup_steps == 1, "a tenth of the updates, and not the default"
    assert any(line.startswith("relatum: chosen for this data and machine") for line in lines)
    assert "relatum: the folder of the run is runs/news-1" in lines
    assert any(line.startswith("step 4 of 4") for line in lines)


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ((), True),
        (("training.start=news",), False),
        (("training.sizes=given",), False),
        (("encoder.kind=none",), False),
        (("encoder.tuning=full",), False),
        (('encoder.beside=["mpnet-base"]',), False),
    ],
)
def test_train_suggests_to_start_from_a_model_if_there_are_few_sentences(
    small_corpus: Path, tmp_path: Path, given: tuple[str, ...], suggested: bool
) -> None:
    heard: list[str] = []
    TrainArguments(small_corpus, tmp_path / "run", None, given, device="cpu").prepare(None, heard.append)
    said = [
        line for line in heard if "training sentences are few: if they are English, --set training.start=wiki" in line
    ]
    assert len(said) == suggested


def test_train_takes_a_config_as_it_is(small_corpus: Path, tmp_path: Path) -> None:
    config = load_config(None, [*TINY, "training.steps=2", "training.evaluate_every=2"])
    heard = Silent()
    run = relatum.train(small_corpus, config, tmp_path / "run", device="cpu", monitor=heard)
    assert run.result.config == config
    assert not any("chosen for this data" in said for said in heard.said)
    words = shlex.split(run.result.command)
    settings = [value for option, value in pairwise(words) if option == "--set"]
    assert load_config(None, settings) == config, "the command makes the same run"


def test_train_takes_a_file_of_settings_and_overrides_it(small_corpus: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("training.steps = 2\ntraining.evaluate_every = 2\ntraining.seed = 5\n")
    settings = {key: value for key, value in SETTINGS.items() if not key.startswith("training.")}
    run = relatum.train(small_corpus, file, tmp_path / "run", overrides=settings, device="cpu", with_test=False)
    assert (run.result.steps, run.result.seed, run.result.config.model.width) == (2, 5, 8)
    assert run.test is None


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["training.sizes=auto"],
        ['encoder.beside=["a b", "c"]', "encoder.name=x"],
        ["training.learning_rate=1e-05", "training.patience=3", "text.words=whitespace"],
    ],
)
def test_config_is_made_again_from_its_overrides(settings: list[str]) -> None:
    config = load_config(None, settings)
    assert load_config(None, config_overrides(config)) == config
    assert config_overrides(Config()) == ['training.sizes="given"']


def test_setting_that_is_none_is_unset(small_corpus: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('words.path = "nowhere.txt"\n')
    with pytest.raises(RelatumError, match=r"nowhere\.txt"):
        relatum.train(small_corpus, file, tmp_path / "run", overrides=SETTINGS, device="cpu")
    run = relatum.train(
        small_corpus, file, tmp_path / "run", overrides={**SETTINGS, "words.path": None}, device="cpu", with_test=False
    )
    assert run.result.config.words.path is None


def test_wrong_settings_and_folders_are_refused_and_leave_nothing_behind(small_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.width"):
        relatum.train(small_corpus, out=tmp_path / "run", overrides={"model.width": 0})
    with pytest.raises(RelatumError, match="is not an empty folder"):
        relatum.train(small_corpus, out=small_corpus)
    assert not (tmp_path / "run").exists()


def test_run_that_was_stopped_is_resumed(small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = relatum.train(small_corpus, out=tmp_path / "whole", overrides=SETTINGS, device="cpu")
    stopper = Silent()
    stopper.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 3 else None
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_PATIENCE", -1.0)
        with pytest.raises(TrainingStopped, match="stopped after step 3"):
            relatum.train(small_corpus, out=tmp_path / "run", overrides=SETTINGS, device="cpu", monitor=stopper)
    heard = Silent()
    run = relatum.resume(tmp_path / "run", monitor=heard)
    assert "going on after step 3" in heard.said
    assert (run.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    with pytest.raises(RelatumError, match="this run is complete"):
        relatum.resume(tmp_path / "run")


def test_several_runs_have_a_summary_and_failures_that_are_tried_again(
    deeds: Callable[[str], None], small_corpus: Path, tmp_path: Path
) -> None:
    deeds("1:fail")
    lines: list[str] = []
    runs = relatum.train_runs(
        small_corpus, out=tmp_path / "runs", n_runs=3, jobs=1, overrides=SETTINGS, device="cpu", monitor=lines.append
    )
    assert "seed-2: complete" in lines
    assert not runs.is_complete
    assert [run.name for run in runs.missing] == ["seed-1"]
    assert [failure.message for failure in runs.failures] == ["the moon is full over seed-1"]
    assert [run.folder.name for run in runs.runs] == ["seed-0", "seed-2"]
    with pytest.raises(ArgumentError, match="several runs were started here; go on with them by resume_runs"):
        relatum.resume(tmp_path / "runs")
    deeds("")
    runs = relatum.resume_runs(str(tmp_path / "runs"))
    assert runs.is_complete
    spread = runs.summary()["dev", "entities", "micro", "f1"]
    assert spread.mean == pytest.approx(0.2)
    assert spread.n == 3
    assert runs.to_dict() == json.loads((tmp_path / "runs" / "results.json").read_text())


def test_folds_are_made_or_read_from_lists(deeds: Callable[[str], None], small_corpus: Path, tmp_path: Path) -> None:
    deeds("")
    made = relatum.train_runs(small_corpus, out=tmp_path / "made", folds=2, overrides=SETTINGS, device="cpu")
    assert [run.result.data.fold for run in made.runs] == [f"{tmp_path}/made/folds.json:{k}" for k in (1, 2)]
    lists = tmp_path / "made" / "folds.json"
    read = relatum.train_runs(small_corpus, out=tmp_path / "read", folds=str(lists), overrides=SETTINGS, device="cpu")
    assert [run.fingerprint for run in read.results] == [run.fingerprint for run in made.results]
    assert list(made.seed_means()) == [0]


def test_arguments_that_do_not_go_together_are_refused(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match="n_runs is 0; expected 1 or more"):
        relatum.train_runs(small_corpus, out=tmp_path / "runs", n_runs=0)
    with pytest.raises(ArgumentError, match="give one of the two"):
        relatum.train_runs(small_corpus, out=tmp_path / "runs", folds=2, fold="folds.json:1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ArgumentError, match="several processes must know the folder of their run"):
        relatum.train(small_corpus)
    with pytest.raises(ArgumentError, match="a launcher started several processes for one run"):
        relatum.train_runs(small_corpus, out=tmp_path / "runs", n_runs=2)
    assert not (tmp_path / "runs").exists()
