from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum.cli.score import score
from relatum.errors import DataError, FormatError, RelatumError, SchemaError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(score)

WORDS = ["Anna", "works", "in", "Rome", "for", "Acme", "."]
ANNA, ROME, ACME = (0, 1, "Peop"), (3, 4, "Loc"), (5, 6, "Org")

Mention = tuple[int, int, str]


def record(id: str, entities: Iterable[Mention], relations: Iterable[tuple[int, int, str]] = ()) -> dict[str, Any]:
    return {
        "id": id,
        "words": WORDS,
        "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        "relations": [{"head": head, "tail": tail, "label": label} for head, tail, label in relations],
    }


GOLD = [
    record("one", [ANNA, ROME], [(0, 1, "Live_In")]),
    record("two", [ANNA, ROME, ACME], [(0, 1, "Live_In"), (0, 2, "Work_For")]),
]
# Entities: 4 right of 5 predicted, 5 gold. RE: 2 of 2, 3 gold; strictly 1, since Rome is taken for an Org in "one".
GOOD = [
    record("one", [ANNA, (3, 4, "Org")], [(0, 1, "Live_In")]),
    record("two", [ANNA, ROME, ACME], [(0, 2, "Work_For")]),
]
POOR = [record("one", [ANNA, ANNA]), record("two", [ROME], [(0, 0, "Live_In")])]


def write(path: Path, records: Iterable[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(item) + "\n" for item in records), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    parts = {"gold": GOLD, "good": GOOD, "poor": POOR}
    return {name: write(tmp_path / f"{name}.jsonl", records) for name, records in parts.items()}


def run(*arguments: str) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def test_json_is_exactly_the_promised_scores(files: dict[str, str]) -> None:
    def values(precision: float, recall: float, f1: float, support: int) -> dict[str, float]:
        return {"precision": precision, "recall": recall, "f1": f1, "support": support}

    found = run_json(files["gold"], files["good"])
    assert found == {
        "entities": {
            # 4 right of 5 predicted and 5 gold.
            "micro": values(4 / 5, 4 / 5, 8 / 10, 5),
            # Loc 1/1 and 1/2, F1 2/3; Org 1/2 and 1/1, F1 2/3; Peop 1.
            "macro": values((1 + 1 / 2 + 1) / 3, (1 / 2 + 1 + 1) / 3, (2 / 3 + 2 / 3 + 1) / 3, 5),
            "types": {
                "Loc": values(1, 1 / 2, 2 / 3, 2),
                "Org": values(1 / 2, 1, 2 / 3, 1),
                "Peop": values(1, 1, 1, 2),
            },
        },
        "relations": {
            "micro": values(1, 2 / 3, 4 / 5, 3),
            "macro": values(1, (1 / 2 + 1) / 2, (2 / 3 + 1) / 2, 3),
            "types": {"Live_In": values(1, 1 / 2, 2 / 3, 2), "Work_For": values(1, 1, 1, 1)},
        },
        "relations_strict": {
            # Live_In: 0 of 1 predicted, 0 of 2 gold.
            "micro": values(1 / 2, 1 / 3, 2 / 5, 3),
            "macro": values(1 / 2, 1 / 2, 1 / 2, 3),
            "types": {"Live_In": values(0, 0, 0, 2), "Work_For": values(1, 1, 1, 1)},
        },
    }


def test_table_shows_scores_and_what_was_matched(files: dict[str, str]) -> None:
    result = run(files["gold"], files["good"])
    assert result.exit_code == 0
    assert "2 documents, matched" in result.stdout
    assert "by id" in result.stdout
    assert ["micro", "80.00", "80.00", "80.00", "5"] in [line.split() for line in result.stdout.splitlines()]
    assert "Entities (3): Loc, Org, Peop" in result.stdout


def test_order_of_the_predictions_does_not_matter_with_ids(files: dict[str, str], tmp_path: Path) -> None:
    turned = write(tmp_path / "turned.jsonl", reversed(GOOD))
    assert run_json(files["gold"], turned) == run_json(files["gold"], files["good"])


def test_documents_without_ids_are_matched_by_position(files: dict[str, str], tmp_path: Path) -> None:
    bare = write(tmp_path / "bare.jsonl", [{k: v for k, v in item.items() if k != "id"} for item in GOOD])
    assert run_json(files["gold"], bare) == run_json(files["gold"], files["good"])
    assert "by position" in run(files["gold"], bare).stdout


def spert(path: Path, records: Iterable[dict[str, Any]]) -> str:
    """The records in SpERT's format, without ids."""
    converted = [
        {
            "tokens": item["words"],
            "entities": [{"start": e["start"], "end": e["end"], "type": e["label"]} for e in item["entities"]],
            "relations": [{"head": r["head"], "tail": r["tail"], "type": r["label"]} for r in item["relations"]],
        }
        for item in records
    ]
    path.write_text(json.dumps(converted), encoding="utf-8")
    return str(path)


def test_predictions_may_come_in_another_format(files: dict[str, str], tmp_path: Path) -> None:
    wanted = run_json(files["gold"], files["good"])
    other = spert(tmp_path / "good.json", GOOD)
    assert run_json(files["gold"], other) == wanted
    assert run_json(files["gold"], other, "--predicted-from", "spert") == wanted
    assert run_json(files["gold"], other, "--from", "jsonl", "--predicted-from", "spert") == wanted
    with pytest.raises(DataError):
        run(files["gold"], other, "--from", "jsonl")
    with pytest.raises(FormatError, match="did you mean 'spert'"):
        run(files["gold"], other, "--predicted-from", "sperts")


def test_bootstrap_adds_intervals(files: dict[str, str]) -> None:
    plain = run_json(files["gold"], files["good"])
    found = run_json(files["gold"], files["good"], "--bootstrap", "50", "--seed", "3")
    intervals = found.pop("intervals")
    assert found == plain
    assert (intervals["resamples"], intervals["seed"], intervals["confidence"]) == (50, 3, 0.95)
    low, high = intervals["entities"]["micro"]["f1"]
    assert 0 <= low <= found["entities"]["micro"]["f1"] <= high <= 1
    assert run_json(files["gold"], files["good"], "--bootstrap", "50", "--seed", "3")["intervals"] == intervals
    assert "95% interval" in run(files["gold"], files["good"], "--bootstrap", "50").stdout


def test_other_is_compared(files: dict[str, str]) -> None:
    found = run_json(files["gold"], files["good"], files["poor"])
    assert found.keys() == {"a", "b", "comparison"}
    assert found["a"] == run_json(files["gold"], files["good"])
    assert found["b"] == run_json(files["gold"], files["poor"])
    assert found["comparison"]["resamples"] == 1000
    entities = found["comparison"]["entities"]["micro"]
    # GOOD: 8/10. POOR: 2 right of 2 predicted (one twice) and 5 gold: 4/7.
    assert (entities["a"], entities["b"]) == (8 / 10, 4 / 7)
    assert entities["difference"] == pytest.approx(4 / 7 - 8 / 10, rel=1e-12)
    assert 0 < entities["p"] <= 1
    result = run(files["gold"], files["good"], files["poor"])
    assert "B − A" in result.stdout
    assert f"B: {files['poor']}" in result.stdout


def test_other_with_bootstrap_has_intervals_for_both(files: dict[str, str]) -> None:
    found = run_json(files["gold"], files["good"], files["poor"], "--bootstrap", "30")
    assert found["comparison"]["resamples"] == found["b"]["intervals"]["resamples"] == 30


def test_schema_makes_a_relation_symmetric(files: dict[str, str], tmp_path: Path) -> None:
    gold = write(tmp_path / "g.jsonl", [record("x", [ANNA, ROME], [(0, 1, "Near")])])
    turned = write(tmp_path / "p.jsonl", [record("x", [ANNA, ROME], [(1, 0, "Near")])])
    schema = tmp_path / "schema.json"
    schema.write_text(
        json.dumps({"entity_types": ["Loc", "Peop"], "relation_types": [{"name": "Near", "symmetric": True}]})
    )
    assert run_json(gold, turned)["relations"]["micro"]["f1"] == 0
    assert run_json(gold, turned, "--schema", str(schema))["relations_strict"]["micro"]["f1"] == 1
    result = run(files["gold"], files["good"], "--schema", str(schema))
    assert "taken as directed: Live_In, Work_For" in result.stderr


def test_macro_over_the_schema_counts_types_that_do_not_occur(files: dict[str, str], tmp_path: Path) -> None:
    schema = tmp_path / "types.json"
    entity_types: dict[str, Any] = {"Loc": {}, "Org": {}, "Other": {}, "Peop": {}}
    schema.write_text(json.dumps({"entities": entity_types, "relations": {"Live_In": {}, "Work_For": {}}}))
    found = run_json(files["gold"], files["good"], "--schema", str(schema), "--macro-over", "schema")
    assert found["entities"]["types"]["Other"]["support"] == 0
    assert found["entities"]["macro"]["f1"] == pytest.approx((2 / 3 + 2 / 3 + 1 + 0) / 4, rel=1e-12)
    with pytest.raises(SchemaError, match="--schema"):
        run(files["gold"], files["good"], "--macro-over", "schema")


def test_gold_entities_demands_gold_spans(files: dict[str, str], tmp_path: Path) -> None:
    assert run_json(files["gold"], files["good"], "--gold-entities") == run_json(files["gold"], files["good"])
    assert "gold entities given" in run(files["gold"], files["good"], "--gold-entities").stdout
    stray = write(tmp_path / "stray.jsonl", [GOOD[0], record("two", [ANNA, (3, 5, "Loc"), (5, 7, "Org")])])
    with pytest.raises(DataError) as caught:
        run(files["gold"], stray, "--gold-entities")
    assert len(caught.value.problems) == 2
    assert f'{stray}, document "two": found the entity' in str(caught.value)
    assert "let it predict on the gold entity spans" in str(caught.value)


def test_bad_records_of_all_files_are_reported_together(tmp_path: Path) -> None:
    broken = {"id": "x", "words": ["a"], "entities": [{"start": 0, "end": 9, "label": "Loc"}]}
    gold = write(tmp_path / "gold.jsonl", [GOLD[0], broken])
    predicted = write(tmp_path / "pred.jsonl", [broken, GOOD[1]])
    with pytest.raises(DataError) as caught:
        run(gold, predicted)
    assert [(Path(problem.path).name, problem.line) for problem in caught.value.problems] == [
        ("gold.jsonl", 2),
        ("pred.jsonl", 1),
    ]
    assert "Fix these records" in str(caught.value)


def test_documents_that_do_not_match_are_an_error(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r'missing in .*short\.jsonl: "two"'):
        run(files["gold"], write(tmp_path / "short.jsonl", GOOD[:1]))
    changed = [GOOD[0], {**GOOD[1], "words": ["Anne", *WORDS[1:]]}]
    with pytest.raises(DataError, match='document "two": found "e works'):
        run(files["gold"], write(tmp_path / "changed.jsonl", changed))


def test_file_without_documents_is_an_error(files: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    with pytest.raises(RelatumError, match="there are no documents in it"):
        run(files["gold"], str(empty), "--predicted-from", "spert")


def test_missing_file_is_an_error(files: dict[str, str]) -> None:
    with pytest.raises(RelatumError, match="nowhere"):
        run(files["gold"], "nowhere.jsonl")


@pytest.mark.parametrize("option", [["--bootstrap", "0"], ["--seed", "-1"], ["--macro-over", "some"]])
def test_senseless_options_are_a_bad_call(files: dict[str, str], option: list[str]) -> None:
    assert run(files["gold"], files["good"], *option).exit_code == 2


def test_folder_of_splits_is_scored_as_one(files: dict[str, str], tmp_path: Path) -> None:
    for name, records in (("gold", GOLD), ("good", GOOD)):
        folder = tmp_path / name
        folder.mkdir()
        write(folder / "train.jsonl", records[:1])
        write(folder / "test.jsonl", records[1:])
    assert run_json(str(tmp_path / "gold"), str(tmp_path / "good")) == run_json(files["gold"], files["good"])


def test_command_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, relatum.cli.score; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'relatum.data', 'relatum.evaluation')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_documents_the_json() -> None:
    text = " ".join(run("--help").stdout.split())
    assert '{"entities": S, "relations": S, "relations_strict": S}' in text
    assert '"intervals"' in text
    assert '"comparison"' in text


def test_score_takes_its_settings_from_the_configuration(files: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[evaluation]\nmacro_over = "all"\n')
    arguments = [files["gold"], files["good"], "--json", "--config", str(config)]
    over_all = json.loads(run(*arguments).stdout)["entities"]["macro"]
    assert (
        over_all
        == json.loads(run(files["gold"], files["good"], "--json", "--macro-over", "all").stdout)["entities"]["macro"]
    )
    over_gold = json.loads(run(*arguments, "--macro-over", "gold").stdout)["entities"]["macro"]
    assert over_gold == json.loads(run(files["gold"], files["good"], "--json").stdout)["entities"]["macro"]
    wrong = write(tmp_path / "wrong.jsonl", [record("one", [(1, 2, "Peop")]), record("two", [])])
    with pytest.raises(DataError):
        run(files["gold"], wrong, "--set", "evaluation.entities=gold")
