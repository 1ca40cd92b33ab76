"""Files of experiments, and the script that makes their runs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from scripts.experiments import ROOT, main, read_plan, read_plans, select

from relatum.config import load_config
from relatum.errors import RelatumError

FILES = sorted((ROOT / "experiments").glob("*.toml"))
PLACES = {"data": "DATA", "out": "OUT"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_experiments_have_settings_that_load(path: Path) -> None:
    prepare, runs = read_plan(path, PLACES)
    for needed in prepare:
        assert any(str(needed.target) in argument for argument in needed.arguments)
        assert needed.arguments[0] == "-m" or (ROOT / needed.arguments[0]).exists()
    assert runs
    for arguments in {run.arguments for run in runs}:
        options = list(pairwise(arguments))
        (config,) = [value for option, value in options if option == "--config"]
        load_config(Path(config), [value for option, value in options if option == "--set"])


def test_experiments_are_a_run_for_every_seed_on_every_fold(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text(
        '[[run]]\nname = "a"\ndata = "{data}/x"\nconfig = "configs/best/ade.toml"\nfolds = "{data}/folds.json"\n'
        "n_folds = 2\nseeds = [0, 3]\n",
        encoding="utf-8",
    )
    _, runs = read_plan(path, PLACES)
    assert [run.name for run in runs] == ["a-fold-1-seed-0", "a-fold-1-seed-3", "a-fold-2-seed-0", "a-fold-2-seed-3"]
    assert runs[1].arguments[-4:] == ("--fold", "DATA/folds.json:1", "--seed", "3")


def test_experiments_with_an_unknown_key_or_one_name_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    run = '[[run]]\nname = "a"\ndata = "x"\nconfig = "configs/best/ade.toml"\n'
    path.write_text(run + "seed = 1\n", encoding="utf-8")
    with pytest.raises(RelatumError, match="run 1 has the unknown key 'seed'"):
        read_plan(path, PLACES)
    path.write_text(run + run, encoding="utf-8")
    with pytest.raises(RelatumError, match="two runs are called 'a-seed-0'"):
        read_plans([path], PLACES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "found no \\[\\[run\\]\\]"),
        ("[[run", "not a file of experiments"),
        ('[[run]]\nname = "a"\n', "run 1 has no 'config'"),
        ('[[run]]\nname = "a"\ndata = "x"\nconfig = "c"\nfolds = "f"\n', "run 1 has no 'n_folds'"),
    ],
)
def test_experiments_that_cannot_be_read_say_why(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RelatumError, match=said):
        read_plan(path, PLACES)
    with pytest.raises(RelatumError, match=r"missing\.toml: not a file"):
        read_plan(tmp_path / "missing.toml", PLACES)


def test_experiments_refuse_arguments_that_make_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RelatumError, match="found no complete run"):
        main(["show", str(tmp_path)])
    with pytest.raises(RelatumError, match="--at-once is 0"):
        main(["make", str(FILES[0]), str(tmp_path), "--at-once", "0"])
    monkeypatch.delenv("RELATUM_DATA", raising=False)
    with pytest.raises(RelatumError, match="RELATUM_DATA is not set"):
        main(["make", str(FILES[0]), str(tmp_path)])


def test_selected_runs_come_in_the_order_asked_for_after_what_they_need() -> None:
    jobs = read_plans(FILES, PLACES)
    chosen = select(jobs, ["science-seed-[12]", "conll04-distilled-seed-0", "wiki"])
    names = [job.name for job in chosen]
    teachers = [f"conll04-spans-seed-{seed}" for seed in range(5)]
    assert names == ["wiki", "science-seed-1", *teachers, "conll04-distilled-seed-0", "wiki-seed-0", "wiki-seed-1"]
    assert [job.name for job in chosen if job.target] == ["wiki"]
    everything = select(jobs, ["scierc-science"])
    assert [job.name for job in everything] == ["mpnet-science", *(f"scierc-science-seed-{seed}" for seed in range(5))]
    with pytest.raises(RelatumError, match=r"--only wikis: no run has this name; expected one of .*wiki-distilled"):
        select(jobs, ["wikis"])


def test_experiments_continue_after_a_failure_and_make_no_run_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELATUM_DATA", str(tmp_path))
    small = tmp_path / "small.toml"
    small.write_text(
        'encoder.kind = "none"\nsequence = { n_attention_heads = 2, feedforward_width = 8 }\ncharacters.width = 4\n'
        "model = { width = 8, n_layers = 1 }\ntraining = { batch_size = 4, warmup_steps = 1, evaluate_every = 2 }\n",
        encoding="utf-8",
    )
    path = tmp_path / "some.toml"
    good = f'[[run]]\nname = "good"\ndata = "{ROOT}/examples/news"\nconfig = "{small}"\nset = ["training.steps=2"]\n'
    path.write_text(good + f'[[run]]\nname = "bad"\ndata = "missing"\nconfig = "{small}"\n', encoding="utf-8")
    call = ["make", str(path), str(tmp_path / "out"), "--device", "cpu", "--at-once", "2"]
    assert main(call) == 1
    said = capsys.readouterr().out
    assert "2 of 2 runs to make" in said
    assert "done: good-seed-0" in said
    assert "failed: bad-seed-0 (status 1)" in said
    assert json.loads((tmp_path / "out" / "results" / "good-seed-0.json").read_text())["steps"] == 2
    assert main(call) == 1
    assert "1 of 2 runs to make" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "out")]) == 0
    assert "good" in capsys.readouterr().out


def test_experiments_wait_for_the_models_and_files_that_they_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELATUM_DATA", str(tmp_path))
    path = tmp_path / "some.toml"
    copy = "import shutil, sys; shutil.copytree(*sys.argv[1:])"
    path.write_text(
        f'[[prepare]]\ntarget = "{{out}}/late"\npython = ["-c", "{copy}", "{{out}}/early", "{{out}}/late"]\n'
        f'[[prepare]]\ntarget = "{{out}}/early"\npython = ["-c", "{copy}", "{ROOT}/experiments", "{{out}}/early"]\n'
        '[[run]]\nname = "never"\ndata = "{out}/late"\nconfig = "c"\nset = ["encoder.name={out}/runs/other/model"]\n',
        encoding="utf-8",
    )
    assert main(["make", str(path), str(tmp_path / "out"), "--device", "cpu", "--at-once", "2"]) == 1
    said = capsys.readouterr().out
    assert said.index("done: early") < said.index("done: late")
    assert f"not started: never-seed-0, which needs {tmp_path}/out/runs/other/model" in said


@pytest.mark.parametrize("made", ["target.mkdir(); (target / 'train.json').touch()", "target.touch()"])
def test_what_a_failed_preparation_leaves_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setenv("RELATUM_DATA", str(tmp_path))
    path = tmp_path / "some.toml"
    script = f"import pathlib, sys; target = pathlib.Path(sys.argv[1]); {made}; sys.exit(1)"
    path.write_text(
        f'[[prepare]]\ntarget = "{{out}}/half"\npython = ["-c", "{script}", "{{out}}/half"]\n'
        '[[run]]\nname = "never"\ndata = "{out}/half"\nconfig = "c"\n',
        encoding="utf-8",
    )
    call = ["make", str(path), str(tmp_path / "out"), "--device", "cpu"]
    for _ in range(2):
        assert main(call) == 1
        said = capsys.readouterr().out
        assert "failed: half (status 1)" in said
        assert f"not started: never-seed-0, which needs {tmp_path}/out/half" in said
