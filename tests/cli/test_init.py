"""`relatum init`, and what it writes."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum.cli.init import TEMPLATE, init
from relatum.config import Config, load_config, trace_config
from relatum.errors import RelatumError
from relatum.training.advice import advise
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.defaults import Machine, fill_defaults

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(init)


def run(folder: Path) -> Result:
    result = CliRunner().invoke(app, [str(folder)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return load_training_data(TEMPLATE / "data", Config())


def test_init_writes_a_project_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "my-project"
    result = run(folder)
    assert result.exit_code == 0
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {"README.md", "config.toml", "data/train.jsonl", "data/dev.jsonl", "data/test.jsonl"}
    assert all((folder / name).read_bytes() == (TEMPLATE / name).read_bytes() for name in written)
    assert f"cd {folder}\n  relatum train data --config config.toml --out run" in result.stdout


def test_init_quotes_a_name_that_a_shell_would_divide(tmp_path: Path) -> None:
    assert f"cd '{tmp_path / 'my project'}'\n" in run(tmp_path / "my project").stdout


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("…")
    with pytest.raises(RelatumError, match="is a folder that is not empty; name a new folder"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_example_corpus_is_good_data(data: TrainingData) -> None:
    assert data.remarks == ()
    assert advise(data.parts, Config()) == []
    assert {name: len(part) for name, part in data.parts.items()} == {"train": 111, "dev": 20, "test": 20}
    assert data.schema.entity_types == ("Company", "Person", "Product")
    ends = {kind.name: (*kind.head_labels, *kind.tail_labels) for kind in data.schema.relation_types}
    assert ends == {
        "Acquired": ("Company", "Company"),
        "Makes": ("Company", "Product"),
        "Works_For": ("Person", "Company"),
    }


def test_example_corpus_shares_no_name_between_its_parts(data: TrainingData) -> None:
    names = {
        part: {
            example.sentence.words[entity.span.start : entity.span.end]
            for example in examples
            for entity in example.gold.entities
        }
        for part, examples in data.parts.items()
    }
    for first, second in combinations(names, 2):
        assert not names[first] & names[second]


def test_config_file_leaves_the_sizes_to_the_machine() -> None:
    config, choices = fill_defaults(TEMPLATE / "config.toml", [], [10] * 111, Machine("cpu", 2))
    assert config.training.steps == 2_100
    assert {choice.key for choice in choices} >= {"training.steps", "table.width", "model.n_layers"}


def test_config_file_says_what_relatum_has_as_defaults() -> None:
    path = TEMPLATE / "config.toml"
    _, given = trace_config(path)
    assert given.keys() == {
        "training.sizes",
        "training.seed",
        "training.selection",
        "encoder.name",
        "data.crossing",
    }
    assert load_config(path, ["training.sizes=given"]) == Config()


def test_config_file_comments_out_settings_that_exist(tmp_path: Path) -> None:
    text = (TEMPLATE / "config.toml").read_text(encoding="utf-8")
    opened, n = re.subn(r"^# (\w+ = .+)$", r"\1", text, flags=re.MULTILINE)
    assert n == 6
    path = tmp_path / "config.toml"
    path.write_text(opened, encoding="utf-8")
    config = load_config(path)
    assert (config.training.steps, config.table.width) == (2_000, 64)


def test_readme_counts_the_sentences() -> None:
    n = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (TEMPLATE / "data").iterdir())
    assert f"{n} invented sentences" in (TEMPLATE / "README.md").read_text(encoding="utf-8")
