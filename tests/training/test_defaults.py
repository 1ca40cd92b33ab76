"""The sizes that are chosen for those who give none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relatum.config import load_config
from relatum.errors import ConfigError
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


def test_defaults_take_bf16_where_a_gpu_has_it() -> None:
    assert chosen(100, Machine("cuda", 2, bf16=True))["training.precision"] == "bf16"
    assert "training.precision" not in chosen(100, Machine("cuda", 2))
    assert "training.precision" not in chosen(100, Machine("cpu", 2, bf16=True))


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


def test_find_machine_knows_a_cpu() -> None:
    machine = find_machine(torch.device("cpu"))
    assert (machine.device, machine.bf16) == ("cpu", False)
    assert machine.cores == torch.get_num_threads()
