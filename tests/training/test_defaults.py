"""The sizes that are chosen for those who give none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.errors import ConfigError
from relatum.tagging.shape import Shape
from relatum.training.defaults import Machine, fill_defaults, find_machine, pick_defaults

TWO_CORES = Machine("cpu", 2)


def chosen(n: int, machine: Machine = TWO_CORES, length: int = 20, **given: object) -> dict[str, int | float | str]:
    return {choice.key: choice.value for choice in pick_defaults([length] * n, machine, list(given))}


def test_defaults_make_more_updates_of_more_sentences_within_bounds() -> None:
    assert [chosen(n)["training.steps"] for n in (1, 30, 111, 922, 4_000, 50_000)] == [
        500,
        1_000,
        2_100,
        6_000,
        10_000,
        10_000,
    ]


def test_defaults_come_to_the_papers_updates_on_a_gpu() -> None:
    gpu = Machine("cuda", 2)
    assert [chosen(n, gpu)["training.steps"] for n in (5, 922, 2_000)] == [2_000, 18_200, 20_000]


@pytest.mark.parametrize("n", [1, 100, 1_000, 100_000])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_defaults_keep_warmup_and_evaluations_in_proportion(n: int, device: str) -> None:
    values = chosen(n, Machine(device, 4))
    steps, warmup, every = (int(values[f"training.{key}"]) for key in ("steps", "warmup_steps", "evaluate_every"))
    assert warmup == min(steps // 10, 1_000)
    assert 50 <= every <= 500
    assert steps // every >= 10


def test_defaults_halve_batches_only_where_sentences_are_few() -> None:
    assert chosen(499)["training.batch_size"] == 12
    assert "training.batch_size" not in chosen(500)


def test_defaults_narrow_the_table_on_a_cpu_alone() -> None:
    assert chosen(100)["table.width"] == 64
    assert chosen(100, Machine("cpu", 16))["table.width"] == 128
    assert chosen(100)["model.n_layers"] == 2
    assert not {"table.width", "model.n_layers", "training.max_cells"} & chosen(100, Machine("cuda", 16)).keys()


def test_defaults_learn_faster_on_a_cpu_and_slower_towards_the_end() -> None:
    values = chosen(100)
    assert (values["training.learning_rate"], values["training.schedule"]) == (0.002, "linear")
    assert values["model.initialisation"] == "torch", "the rule was measured with it"
    assert not {"training.learning_rate", "training.schedule"} & chosen(100, Machine("cuda", 16)).keys()
    config, _ = fill_defaults(None, ["training.learning_rate=0.0005"], [10] * 100, TWO_CORES)
    assert (config.training.learning_rate, config.training.schedule) == (0.0005, "linear")


def test_defaults_keep_the_longest_sentence_whole_up_to_the_papers_cells() -> None:
    assert [chosen(5, length=length)["training.max_cells"] for length in (20, 200, 900)] == [32_768, 40_000, 100_000]


def test_defaults_take_bf16_where_the_device_has_it() -> None:
    assert chosen(100, Machine("cuda", 2, bf16=True))["training.precision"] == "bf16"
    assert "training.precision" not in chosen(100, Machine("cuda", 2))
    assert chosen(100, Machine("cpu", 2, bf16=True))["training.precision"] == "bf16"
    assert "training.precision" not in chosen(100, Machine("cpu", 2))


def test_choices_say_why() -> None:
    lines = [str(choice) for choice in pick_defaults([10] * 100, TWO_CORES)]
    assert lines[0].startswith("training.steps = 2000: about 200 times the square root of 100 training sentences")
    assert all(": " in line and len(line) < 130 for line in lines)


def test_settle_lets_overrides_win() -> None:
    config, choices = fill_defaults(None, ["training.steps=7", "table.width=10"], [10] * 100, TWO_CORES)
    assert (config.training.steps, config.table.width, config.model.n_layers) == (7, 10, 2)
    assert not {"training.steps", "table.width"} & {choice.key for choice in choices}


def test_settle_chooses_nothing_beside_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("training.seed = 3\n")
    config, choices = fill_defaults(path, [], [10] * 100, TWO_CORES)
    assert (config, choices) == (load_config(path), [])
    assert config.training.steps == 20_000


def test_settle_chooses_beside_a_file_that_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[training]\nsizes = "auto"\nsteps = 70\n')
    config, choices = fill_defaults(path, ["model.n_layers=1"], [10] * 100, TWO_CORES)
    assert (config.training.steps, config.model.n_layers, config.table.width) == (70, 1, 64)
    assert (config.training.warmup_steps, config.training.evaluate_every) == (7, 50)
    assert {choice.key for choice in choices}.isdisjoint({"training.steps", "model.n_layers"})


def test_settle_chooses_nothing_where_that_is_asked_for() -> None:
    config, choices = fill_defaults(None, ["training.sizes=given"], [10] * 100, TWO_CORES)
    assert (config, choices) == (load_config(None, []), [])


def test_settle_reports_settings_that_are_wrong() -> None:
    with pytest.raises(ConfigError, match=r"training\.steps"):
        fill_defaults(None, ["training.steps=none"], [10], TWO_CORES)


@pytest.mark.parametrize(("flags", "bf16"), [({"avx2", "avx512f"}, False), ({"avx512f", "avx512_bf16"}, True)])
def test_find_machine_knows_a_cpu(flags: set[str], bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relatum.training.defaults.cpu_flags", lambda: frozenset(flags))
    machine = find_machine(torch.device("cpu"))
    assert (machine.device, machine.bf16) == ("cpu", bf16)
    assert machine.cores == torch.get_num_threads()


NESTED = Shape("nested", 3, 400, 0, 0)
CROSSED = Shape("any", 1, 400, 50, 40)
SHARED = Shape("none", 0, 400, 3, 3)
OPPOSITE = Shape("none", 0, 400, 3, 2)
FEW_SHARED = Shape("none", 0, 400, 2, 2)
SPAN_KEYS = ("tagging.kind", "decoding.overlap", "decoding.relations_of_pair")


def fill_tagging(shape: Shape | None, *overrides: str, path: Path | None = None) -> tuple[Config, dict[str, str]]:
    """Return the settings, and the reasons of those of the tagging that were chosen."""
    config, settings = fill_defaults(path, overrides, [10] * 100, TWO_CORES, shape)
    return config, {one.key: str(one) for one in settings if one.key in SPAN_KEYS}


def read_tagging(config: Config) -> tuple[str, str, str]:
    return config.tagging.kind, config.decoding.overlap, config.decoding.relations_of_pair


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (NESTED, ("spans", "nested", "one")),
        (CROSSED, ("spans", "any", "several")),
        (SHARED, ("spans", "none", "several")),
        (OPPOSITE, ("spans", "none", "one")),
        (FEW_SHARED, ("spans", "none", "one")),
        (Shape("none", 0, 400, 0, 0), ("spans", "none", "one")),
        (None, ("spans", "none", "one")),
    ],
)
def test_what_may_be_found_together_is_as_in_train(shape: Shape | None, expected: tuple[str, str, str]) -> None:
    config, reasons = fill_tagging(shape)
    assert read_tagging(config) == expected
    assert set(reasons) == set(SPAN_KEYS)


def test_tagging_that_is_given_wins() -> None:
    config, reasons = fill_tagging(CROSSED, "tagging.kind=words")
    assert (config.tagging.kind, reasons) == ("words", {})
    config, reasons = fill_tagging(FEW_SHARED, "tagging.kind=spans")
    assert read_tagging(config) == ("spans", "none", "one")
    assert set(reasons) == {"decoding.overlap", "decoding.relations_of_pair"}


def test_reasons_of_the_tagging_are_those_of_train() -> None:
    _, reasons = fill_tagging(NESTED)
    assert reasons["tagging.kind"] == "tagging.kind = spans: sentences with entities inside one another: 3"
    overlap = "= nested: in train and dev, only entities inside one another share words"
    assert reasons["decoding.overlap"].endswith(overlap)
    assert reasons["decoding.relations_of_pair"].endswith(
        "= one: in train and dev, hardly any pairs of entities have several relations in one direction"
    )
    _, reasons = fill_tagging(SHARED)
    assert reasons["tagging.kind"].endswith("spans: relations that share their pair with another: 3 of 400")
    assert reasons["decoding.overlap"].endswith("= none: in train and dev, no entities share words")
    assert reasons["decoding.relations_of_pair"].endswith(
        "= several: in train and dev, some pairs of entities have several relations in one direction"
    )
    _, reasons = fill_tagging(CROSSED)
    assert reasons["decoding.overlap"].endswith("= any: in train and dev, entities share words")
    _, reasons = fill_tagging(Shape())
    flat = "tagging.kind = spans: it finds more than the paper's tagging in flat data, too"
    assert reasons["tagging.kind"] == flat


def test_tagging_beside_a_file_is_chosen_only_if_the_file_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("training.seed = 3\n")
    assert fill_tagging(CROSSED, path=path) == (load_config(path), {})
    path.write_text('training.sizes = "auto"\n')
    assert read_tagging(fill_tagging(CROSSED, path=path)[0]) == ("spans", "any", "several")
    config, reasons = fill_tagging(CROSSED, "training.sizes=given")
    assert (config.tagging.kind, reasons) == ("words", {})


@pytest.mark.parametrize("sizes", ["", 'training.sizes = "auto"\n'])
def test_decoding_of_spans_follows_train_beside_a_file(tmp_path: Path, sizes: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'{sizes}tagging.kind = "spans"\n')
    config, reasons = fill_tagging(NESTED, path=path)
    assert read_tagging(config) == ("spans", "nested", "one")
    assert set(reasons) == {"decoding.overlap", "decoding.relations_of_pair"}
    path.write_text(f'{sizes}[tagging]\nkind = "spans"\n[decoding]\noverlap = "none"\n')
    config, reasons = fill_tagging(CROSSED, path=path)
    assert read_tagging(config) == ("spans", "none", "several")
    assert set(reasons) == {"decoding.relations_of_pair"}


def test_decoding_of_spans_that_is_given_wins() -> None:
    given = ("decoding.overlap=none", "decoding.relations_of_pair=one")
    config, reasons = fill_tagging(CROSSED, "tagging.kind=spans", *given)
    assert (read_tagging(config), reasons) == (("spans", "none", "one"), {})
    config, reasons = fill_tagging(CROSSED, "tagging.kind=spans", given[0])
    assert read_tagging(config) == ("spans", "none", "several")
    assert set(reasons) == {"decoding.relations_of_pair"}


def test_decoding_of_spans_needs_the_tagging_beside_it() -> None:
    """The settings are checked before the data is read; the message names the cure."""
    with pytest.raises(ConfigError, match=r'set tagging\.kind to "spans"'):
        fill_tagging(CROSSED, "decoding.overlap=none")


@pytest.mark.parametrize("override", ["tagging.fill=lower", "decoding.entities=viterbi", "table.kind=none"])
def test_settings_that_only_words_can_have_keep_the_papers_tagging(override: str) -> None:
    """Nobody has set tagging.kind, so an error about it would be a riddle."""
    config, _ = fill_tagging(SHARED, override)
    assert config.tagging.kind == "words"
