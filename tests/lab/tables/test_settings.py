"""Where files of settings are, and what rows make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.lab.tables import configs
from relatum.lab.tables.configs import config_file, configs_folder
from relatum.lab.tables.corpora import CORPORA, CorpusPaths
from relatum.lab.tables.paper import TABLES
from relatum.lab.tables.settings import make_settings, override, user_overrides
from relatum.lab.tables.table import Row

ROOT = Path(__file__).parents[3]
CONLL04, ADE, ACE05 = CORPORA["conll04"], CORPORA["ade"], CORPORA["ace05"]


def test_checkout_reads_the_folder_that_wheels_are_made_from() -> None:
    assert configs_folder() == ROOT / "configs"


def test_wheel_has_every_file_of_settings() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    made = {Path(file.distribution_path) for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()}
    files = list((ROOT / "configs").rglob("*.toml"))
    assert len(files) > 50
    assert {Path("relatum/configs") / file.relative_to(ROOT / "configs") for file in files} <= made


def test_installed_package_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "relatum"
    monkeypatch.setattr(configs, "_PACKAGE", package)
    with pytest.raises(RelatumError, match="install relatum again"):
        configs_folder()
    (package / "configs" / "paper").mkdir(parents=True)
    (package / "configs" / "paper" / "conll04.toml").touch()
    assert configs_folder() == package / "configs"


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_every_row_can_be_said_as_a_command(table: object) -> None:
    for row in TABLES[table.number].rows:  # type: ignore[attr-defined]
        if row.configs is None:
            continue
        for corpus in CORPORA.values():
            settings = make_settings(row, corpus, ())
            assert load_config(settings.file, settings.overrides) == settings.config


def test_row_of_the_default_corpus_is_its_file_alone() -> None:
    settings = make_settings(Row("", ("ablations/layer-only",), {}), CONLL04, ())
    assert settings.overrides == ()
    assert settings.config == load_config(config_file("ablations/layer-only"))


def test_row_of_another_corpus_has_what_both_files_say() -> None:
    config = make_settings(Row("", ("ablations/layer-only",), {}), ACE05, ()).config
    assert config.table.predecessors == ("below",)
    assert config.data.overlaps == "keep-longest"
    default = make_settings(Row("", (), {}), ADE, ())
    assert default.file == config_file("paper/ade")
    assert default.overrides == ()


def test_files_of_a_row_and_its_settings_stand_over_each_other_in_order() -> None:
    row = Row("", ("ablations/layers-1", "ablations/shared-layers-2"), {}, settings=("model.n_layers=4",))
    config = make_settings(row, CONLL04, ["training.steps=7", "model.width=40"]).config
    assert (config.model.n_layers, config.model.share_layers, config.model.width) == (4, True, 40)
    assert config.training.steps == 7


def test_row_is_not_undone_by_what_is_usual_for_a_corpus() -> None:
    config = make_settings(Row("", (), {}, settings=("training.selection=micro",)), ADE, ()).config
    assert config.training.selection == "micro"


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (41, 3), (2500, 125), (20_000, 1000)])
def test_runs_of_another_length_have_at_most_20_evaluations(steps: int, every: int) -> None:
    preset = load_config(config_file("paper/conll04"))
    given = user_overrides(steps, None, ["words.path=unset"], CorpusPaths(), preset)
    assert f"training.evaluate_every={every}" in given
    more = user_overrides(steps, None, ["words.path=unset", "training.evaluate_every=7"], CorpusPaths(), preset)
    assert make_settings(Row("", (), {}), CONLL04, more).config.training.evaluate_every == 7


def test_length_of_training_has_its_warm_up_in_proportion(tmp_path: Path) -> None:
    vectors = tmp_path / "glove" / "glove.6B.100d.subset.txt.gz"
    vectors.parent.mkdir()
    vectors.touch()
    preset = load_config(config_file("paper/conll04"))
    given = user_overrides(5000, "mpnet-base", ["model.dropout=0.1"], CorpusPaths(folder=tmp_path), preset)
    assert given == [
        "encoder.store=name",
        "training.steps=5000",
        "training.warmup_steps=250",
        "training.evaluate_every=250",
        "encoder.name=mpnet-base",
        f"words.path={vectors}",
        "model.dropout=0.1",
    ]


def test_word_vectors_that_are_nowhere_are_an_error_that_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    preset = load_config(config_file("paper/conll04"))
    with pytest.raises(RelatumError, match=r"--set words\.path=unset"):
        user_overrides(None, None, [], CorpusPaths(folder=tmp_path), preset)
    assert user_overrides(None, None, ["words.path=unset"], CorpusPaths(), preset) == [
        "encoder.store=name",
        "words.path=unset",
    ]
    (tmp_path / "glove.6B.100d.txt").touch()
    assert user_overrides(None, None, ["encoder.store=inside"], CorpusPaths(), preset) == ["encoder.store=inside"]


@pytest.mark.parametrize("value", ["a word", "true", "unset", "/a/b c", "7", 'a"b', True, 3, 0.5, ("nw", "se")])
def test_overrides_mean_what_they_were_made_of(value: object) -> None:
    from relatum.config.loading import _parse

    text = override("key", value).partition("=")[2]
    assert text != "unset"
    assert _parse(text) == (list(value) if isinstance(value, tuple) else value)


def test_override_of_all_rows_is_left_out_where_it_does_nothing() -> None:
    overrides = ["table.width=64", "training.seed=3"]
    cnn = make_settings(Row("", ("ablations/cnn-3",), {}), CONLL04, overrides)
    none = make_settings(Row("", ("ablations/without-table-encoder",), {}), CONLL04, overrides)
    assert cnn.config.table.width == 64
    assert (none.config.table.kind, none.config.table.width, none.config.training.seed) == ("none", None, 3)
    assert none.overrides == ("training.seed=3",)
