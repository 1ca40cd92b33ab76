"""`relatum train` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from relatum.cli.monitor import TerminalMonitor
from relatum.cli.train import train
from relatum.errors import RelatumError
from relatum.training import loop

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(train)

TINY = [
    "encoder.kind=none",
    "model.width=8",
    "model.n_layers=1",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=8",
    "characters.width=4",
    "training.batch_size=4",
    "training.steps=4",
    "training.evaluate_every=2",
]
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def data(tmp_path: Path, examples_folder: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "dev", "test"):
        lines = (examples_folder / "news" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        (folder / f"{name}.jsonl").write_text("\n".join(lines[:8]) + "\n", encoding="utf-8")
    return folder


def run(*arguments: str | Path) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_train_shows_scores_and_how_to_use_the_model(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run(data, "--out", out, *SETTINGS, "--seed", "3", "--device", "cpu")
    assert result.exit_code == 0
    record = json.loads((out / "result.json").read_text())
    for part in ("dev", "test"):
        assert f"{part}, {record['data']['parts'][part]['sentences']} sentences" in result.stdout
    assert "Relations, strict (RE+)" in result.stdout
    assert f"model: {out / 'model'}" in result.stdout
    assert f'relatum extract --model {out / "model"} "…"' in result.stdout
    assert "step 4 of 4" in result.stderr
    assert record["seed"] == 3
    assert record["command"].startswith(f"relatum train {data} --out {out} --set encoder.kind=none")
    assert record["command"].endswith("--set training.seed=3 --device cpu")
    assert (out / "model" / "model.safetensors").exists()


def test_train_refuses_a_folder_that_is_not_empty(data: Path) -> None:
    with pytest.raises(RelatumError, match="data is not an empty folder"):
        run(data, "--out", data, *SETTINGS)


def test_train_takes_a_fold_of_lists(data: Path, tmp_path: Path) -> None:
    lists = tmp_path / "folds.json"
    lists.write_text(json.dumps([{"train": [0, 1, 2], "dev": [3], "test": [4]}, {"train": [5, 6, 7], "dev": [0]}]))
    result = run(data / "train.jsonl", "--out", tmp_path / "run", *SETTINGS, "--fold", f"{lists}:2", "--device", "cpu")
    assert "documents in no part of a fold" in result.stderr
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record["data"]["fold"] == f"{lists}:2"
    assert record["test"] is None
    assert "test," not in result.stdout


def test_test_is_not_even_read_where_it_is_to_be_left_alone(data: Path, tmp_path: Path) -> None:
    with (data / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write("{ nothing of ours\n")
    result = run(data, "--out", tmp_path / "run", *SETTINGS, "--device", "cpu", "--no-test")
    assert result.exit_code == 0
    assert "dev, " in result.stdout
    assert "test, " not in result.stdout
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record["test"] is None
    assert " --no-test" in record["command"]
    with pytest.raises(RelatumError, match=r"test\.jsonl"):
        run(data, "--out", tmp_path / "other", *SETTINGS, "--device", "cpu")


def test_stopped_run_says_how_to_go_on_and_does(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: TerminalMonitor, step: int, loss: float) -> None:
        del loss
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_PATIENCE", -1.0)
        patch.setattr(TerminalMonitor, "advance", interrupt)
        result = run(data, "--out", out, *SETTINGS, "--device", "cpu")
    assert result.exit_code == 130
    assert "stopped after step 1; the state is saved." in result.stderr
    assert f"relatum train --resume {out}" in result.stderr
    resumed = run("--resume", out)
    assert resumed.exit_code == 0
    assert "going on after step 1" in resumed.stderr
    assert json.loads((out / "result.json").read_text())["best"]["step"] in (2, 4)
    with pytest.raises(RelatumError, match="this run is complete"):
        run("--resume", out)


def test_run_whose_data_has_changed_does_not_go_on(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(data, "--out", out, *SETTINGS, "--device", "cpu")
    (out / "result.json").unlink()
    lines = (data / "train.jsonl").read_text(encoding="utf-8").splitlines()
    (data / "train.jsonl").write_text("\n".join(lines[1:]) + "\n", encoding="utf-8")
    with pytest.raises(RelatumError, match="the data has changed"):
        run("--resume", out)


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        ([], "give DATA, or --resume RUN"),
        (["--resume", "run", "--seed", "1"], "takes nothing but --device"),
        (["data", "--resume", "run"], "takes nothing but --device"),
        (["--resume", "run", "--no-test"], "takes nothing but --device"),
        (["--resume", "run", "--set", "training.steps=9"], "takes nothing but --device"),
    ],
)
def test_senseless_calls_are_refused(arguments: list[str], cure: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert cure in " ".join(result.stderr.replace("│", " ").split())


def test_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no run was started here"):
        run("--resume", tmp_path)


def test_command_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, relatum.cli.train, relatum.cli.evaluate; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'relatum.training', 'relatum.data')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_word_vectors_of_a_config_are_named_with_the_cure(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Path(__file__).parents[2] / "configs" / "paper" / "conll04.toml"
    monkeypatch.chdir(tmp_path)
    arguments = [str(data), "--out", str(tmp_path / "run"), "--config", str(config), *SETTINGS, "--device", "cpu"]
    with pytest.raises(RelatumError) as caught:
        run(*arguments)
    assert str(caught.value) == (
        f"words.path: no such file {tmp_path / 'glove.6B.100d.txt'}; get GloVe (glove.6B.zip) or pass "
        "--set words.path=FILE, or --set words.path=unset to do without"
    )
    assert not (tmp_path / "run").exists()
    assert run(*arguments, "--set", "words.path=unset").exit_code == 0


def test_train_makes_a_folder_of_its_own_and_chooses_sizes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        result = run("data", *SETTINGS, "--device", "cpu")
        assert f"the folder of the run is runs/data-{number}" in result.stderr
        assert "training.warmup_steps = 1: a tenth of the updates" in result.stderr
        assert "training.steps =" not in result.stderr
        record = json.loads((tmp_path / "runs" / f"data-{number}" / "result.json").read_text())
        training = record["config"]["training"]
        assert (training["steps"], training["warmup_steps"], training["patience"]) == (4, 1, 8)
    assert data.is_dir()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--set", "model.width=0"], "model.width"),
        (["--set", "words.path=nowhere.txt"], "nowhere.txt"),
        ([], "train.jsonl"),
        (["--runs", "2"], "train.jsonl"),
    ],
)
def test_train_names_and_makes_no_folder_where_data_or_settings_are_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], refusal: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if refusal == "train.jsonl":
        (data / "train.jsonl").write_text('{"text": 7}\n')
    result = CliRunner().invoke(app, ["data", *SETTINGS, "--device", "cpu", *options])
    assert isinstance(result.exception, RelatumError)
    assert refusal in str(result.exception)
    assert "runs" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_train_chooses_no_sizes_beside_a_file_of_settings(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("training.seed = 1\n")
    out = tmp_path / "run"
    result = run(data, "--out", out, "--config", config, *SETTINGS)
    assert "chosen for this data" not in result.stderr
    assert json.loads((out / "run.json").read_text())["config"]["training"]["warmup_steps"] == 1000


def test_teachers_and_their_text_are_options(data: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Mara Ilves of Tarn Shipping met Tom in Oslo .\n", encoding="utf-8")
    teachers = [tmp_path / name for name in ("first", "second")]
    for seed, out in enumerate(teachers):
        run(data, "--out", out, *SETTINGS, "--seed", str(seed), "--device", "cpu")
    named = [word for out in teachers for word in ("--teacher", out / "model")]
    run(data, "--out", tmp_path / "taught", *SETTINGS, *named, "--unlabelled", text, "--device", "cpu")
    record = json.loads((tmp_path / "taught" / "result.json").read_text())
    assert record["config"]["training"]["teachers"] == [str(out / "model") for out in teachers]
    assert record["config"]["training"]["unlabelled"] == str(text)
    assert "1 sentences of unlabelled text are learned from, too" in record["messages"]
    with pytest.raises(RelatumError, match=r"set training\.teachers to a list of trained models"):
        run(data, "--out", tmp_path / "alone", *SETTINGS, "--unlabelled", text)
