"""`relatum evaluate` with several models, which have small random weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from relatum.cli.evaluate import evaluate
from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.evaluation.metrics import evaluate as score
from relatum.extractor.ensemble import Ensemble
from relatum.models.build import build_model
from relatum.models.checkpoint import load_model, save_model
from relatum.training.corpus import load_part, load_training_data
from relatum.training.runs.plan import RunsFolder, RunsRequest, start_runs

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(evaluate)

CONFIG = load_config(
    None,
    ("encoder.kind=none", "model.width=8", "model.n_layers=1", "sequence.n_attention_heads=2", "characters.width=6"),
)


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def f1s(found: dict[str, Any]) -> list[float]:
    return [found[task]["micro"]["f1"] for task in ("entities", "relations", "relations_strict")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> list[Path]:
    """Three, whose tags are other words' in each."""
    torch.set_num_threads(1)
    schema = load_training_data(examples_folder / "news", CONFIG).schema
    folder = tmp_path_factory.mktemp("models")
    for seed in range(3):
        model = build_model(CONFIG, schema, None, None, "abcdefghijklmnoprstuvwyzABCDEFGHIJKLMNOPRST")
        torch.manual_seed(seed)
        for parameter in model.network.parameters():
            parameter.data = torch.randn_like(parameter)
        save_model(model, folder / str(seed))
    return [folder / str(seed) for seed in range(3)]


@pytest.fixture
def runs(models: list[Path], examples_folder: Path, tmp_path: Path) -> Path:
    """A folder of three runs that are complete."""
    folder = RunsFolder(tmp_path / "runs")
    plan = start_runs(folder.path, examples_folder / "news", CONFIG, RunsRequest(n_runs=3, device="cpu"))
    for run, model in zip(plan.runs, models, strict=True):
        shutil.copytree(model, folder.run(run).model)
    return folder.path


def expected(models: list[Path], data: Path) -> list[float]:
    examples, _ = load_part(data, "dev", CONFIG)
    predictions = Ensemble([load_model(model) for model in models]).predict([one.sentence for one in examples])
    pairs = [(example.gold, found.found) for example, found in zip(examples, predictions, strict=True)]
    return f1s(score(pairs).to_dict())


def test_models_named_by_with_and_those_of_runs_are_scored_as_one(
    models: list[Path], runs: Path, examples_folder: Path
) -> None:
    news = examples_folder / "news"
    first, second, third = models
    one = run(first, news, "--part", "dev", "--with", second, "--with", third, "--json")
    found = f1s(json.loads(one.stdout))
    assert found == expected(models, news)
    assert found[0] > 0
    assert found != expected([first], news)
    all_runs = run(runs, news, "--part", "dev", "--ensemble", "--json")
    assert f1s(json.loads(all_runs.stdout)) == found
    assert all_runs.stderr == ""
    title = run(runs, news, "--ensemble").stdout.splitlines()[0]
    assert title == f"3 models as one ({runs}): 23 sentences of {news}"
    assert run(first, news, "--with", second).stdout.startswith(f"2 models as one ({first} and others): 23 sentences")


def test_runs_without_a_model_are_named(runs: Path, examples_folder: Path) -> None:
    shutil.rmtree(runs / "seed-1" / "model")
    with pytest.raises(RelatumError, match=r"no model yet: seed-1; complete them by relatum train --resume"):
        run(runs, examples_folder / "news", "--ensemble")
    with pytest.raises(RelatumError, match="no runs were started here"):
        run(runs / "seed-0", examples_folder / "news", "--ensemble")


def test_runs_of_several_folds_are_refused(examples_folder: Path, tmp_path: Path) -> None:
    start_runs(tmp_path / "runs", examples_folder / "news", CONFIG, RunsRequest(folds=2, device="cpu"))
    with pytest.raises(RelatumError, match=r"of several folds, .* name the models of one fold"):
        run(tmp_path / "runs", examples_folder / "news", "--ensemble")


def test_runs_that_held_out_other_sentences_are_said_to(runs: Path, examples_folder: Path) -> None:
    folder = RunsFolder(runs)
    plan = folder.read()
    changed = replace(plan, runs=(*plan.runs[:2], replace(plan.runs[2], fingerprint="other")))
    folder.plan.write_text(json.dumps(changed.to_dict()), encoding="utf-8")
    result = run(runs, examples_folder / "news", "--ensemble", "--json")
    assert "each run held out other sentences of its data" in result.stderr


def test_model_of_other_labels_is_refused(models: list[Path], examples_folder: Path) -> None:
    with pytest.raises(RelatumError, match=r"drugs cannot join .*: the list of entity types is Adverse-Effect, Drug"):
        run(models[0], examples_folder / "news", "--with", "drugs")
