"""The scores in README.md, docs/accuracy.md and results/README.md are those of the files in results/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from relatum.config import load_record
from relatum.lab.tables.paper import TABLES

ROOT = Path(__file__).parents[1]
TASKS = {"NER": "entities", "RE": "relations", "RE+": "relations_strict"}
BEYOND = {"entities": (1665, 20), "relations": (966, 8), "relations_strict": (966, 8)}
"""Of SciERC's test part: the gold that was scored, and the gold that was left out when the files were made."""


OURS_IN_THE_PAPER = [row for row in TABLES[1].rows if row.configs == ()]
"""The rows of Table 1 that the paper's own model has."""


def load(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / file).read_text(encoding="utf-8"))
    return found


def shown(values: list[float]) -> str:
    """Scores as the tables have them: per cent, and the deviation where there are several."""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


SHORT = {"entities": "ner", "relations": "re", "relations_strict": "re_plus"}


def again(section: str, part: str, task: str) -> list[float]:
    """The micro F1 of the runs in one section of the models of the box, measured again."""
    return [run[part][SHORT[task]] / 100 for run in load("shipped-h200.json")[section]["runs"]]


def scores(file: str, part: str, task: str, average: str) -> list[float]:
    record = load(file)
    if "ner_micro" in record.get(part, ()):  # a file of an early version
        return [record[part][f"{SHORT[task]}_{average}"] / 100]
    runs = record.get("runs", [record])
    return [run[part][task][average]["f1"] for run in runs]


def of_all_gold(file: str, task: str) -> list[float]:
    """F1 where gold has what was left out of it, of which the model has found nothing."""
    n_gold, n_more = BEYOND[task]
    values = []
    for run in load(file)["runs"]:
        score = run["test"][task]["micro"]
        right = score["recall"] * n_gold
        values.append(2 * right / (right / score["precision"] + n_gold + n_more))
    return values


def tables(path: str) -> Iterator[list[dict[str, str]]]:
    """The Markdown tables of a file, each as its rows by the names of the columns."""
    for block in re.findall(r"(?:^\|.*\n)+", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines())
        yield [dict(zip(head, row, strict=True)) for row in rows]


def test_readme_of_the_results_says_what_is_in_the_files() -> None:
    rows = next(table for table in tables("results/README.md") if "test RE+" in table[0])
    checked = 0
    for row in rows:
        for column in ("dev NER", "dev RE+", "test NER", "test RE", "test RE+"):
            part, _, task = column.partition(" ")
            if not re.match(r"\d", row[column]):
                continue
            file = row["file"].strip("`")
            expected = " / ".join(shown(scores(file, part, TASKS[task], average)) for average in ("micro", "macro"))
            assert row[column] == expected, (file, column)
            checked += 1
    assert checked >= 70


def test_accuracy_notes_say_what_is_in_the_files() -> None:
    name = "file in `results/`"
    rows = [row for table in tables("docs/accuracy.md") if name in table[0] for row in table]
    assert len(rows) >= 11
    for row in rows:
        title = next(iter(row.values()))
        average = "macro" if "(macro)" in title else "micro"
        files = re.findall(r"`([\w-]+\.json)`", row[name])
        for column, task in TASKS.items():
            if "the paper, ALBERT" in title:
                corpus = re.split(r"\W", title)[0]
                own = next(one for one in OURS_IN_THE_PAPER if (one.section, one.average) == (corpus, average))
                expected = str(own.published[{"NER": "ner", "RE": "re", "RE+": "re_strict"}[column]])
            elif "all of gold" in title:
                expected = shown(of_all_gold(files[0], task))
            else:
                values = [value for file in files for value in scores(file, "test", task, average)]
                assert row["runs"].split()[0] == str(len(values)), title
                expected = shown(values)
            assert row[column] == expected, (title, column)


def per_100(model: str, task: str, threshold: str, data: str = "negative-test.json") -> float:
    """How much a model finds in 100 sentences that state no adverse effect."""
    rows = load("drugs-negatives.json")["rows"]
    counted = next(row for row in rows if (row["model"], row["data"]) == (model, data))
    return 100 * int(counted[task][threshold]) / int(counted["sentences"])


def test_card_of_drugs_says_what_it_finds_where_there_is_nothing() -> None:
    card = "src/relatum/pretrained/models/drugs/README.md"
    rows = next(table for table in tables(card) if "entities before" in table[0])
    for row, data in zip(rows, ("negative-test.json", "tests/prose/neutral.jsonl"), strict=True):
        found = [
            f"{per_100(m, task, '0.5', data):.1f}" for m in ("drugs", "words (replaced)") for task in ("entities", "relations")
        ]
        assert list(row.values())[1:] == found


def test_taggings_have_the_scores_of_their_file() -> None:
    compared = next(table for table in tables("docs/accuracy.md") if "tagging" in table[0])
    tasks = {"NER": "entities", "RE": "relations", "RE+": "relations_strict"}
    for row, result in zip(compared, load("span-tagging.json")["rows"], strict=True):
        assert row["tagging"] == result["tagging"]
        assert [row[task] for task in tasks] == [f"{result['dev'][name]:.1f}" for name in tasks.values()]
    on_mpnet = next(table for table in tables("docs/accuracy.md") if {"tagging", "test RE+"} <= set(table[0]))
    files = ("conll04-mpnet-best.json", "conll04-mpnet-spans.json", "wiki-mpnet-spans.json")
    for row, file in zip(on_mpnet, files, strict=True):
        for column in ("dev NER", "dev RE+", "test NER", "test RE+"):
            part, _, task = column.partition(" ")
            assert row[column] == shown(scores(file, part, TASKS[task], "micro")), (file, column)


def test_models_measured_again_have_the_scores_of_their_file() -> None:
    news = next(
        table
        for table in tables("docs/accuracy.md")
        if {"runs", "dev NER"} <= set(table[0]) and any("Re-DocRED" in "".join(row.values()) for row in table)
    )
    for row, section in zip(news, ("news", "initialisation", "redocred-900", "redocred-2400"), strict=True):
        assert row["runs"] == str(len(load("shipped-h200.json")[section]["runs"]))
        for column in ("dev NER", "dev RE+", "test NER", "test RE+"):
            part, _, task = column.partition(" ")
            assert row[column] == shown(again(section, part, TASKS[task])), (section, column)
    drugs = next(table for table in tables("docs/accuracy.md") if "ADE test NER" in table[0])
    prose = load("shipped-h200.json")["prose"]
    for row, model in zip(drugs, ("drugs before", "drugs-1", "drugs-3 (shipped)"), strict=True):
        section = model.split()[0]
        if section in load("shipped-h200.json"):
            for column in ("dev NER", "dev RE+", "ADE test NER", "ADE test RE+"):
                part, _, task = column.removeprefix("ADE ").partition(" ")
                assert row[column] == shown(again(section, part, TASKS[task])), (section, column)
        name = {"drugs before": "before", "drugs-3 (shipped)": "drugs"}.get(model)
        if name is not None:
            assert row["relations per 100 negative sentences"] == f"{per_100(name, 'relations', 'none'):.1f}"
        _, (_, _, strict), _, neutral = prose[model]
        assert row["RE+ on today's prose"] == f"{strict:.1f}"
        assert row["entities per 100 neutral sentences"] == f"{neutral:.0f}"


@pytest.mark.parametrize("model", ["news", "drugs"])
def test_cards_of_shipped_models_say_what_is_in_their_files(model: str) -> None:
    record = load(f"{model}.json")
    rows = [row for table in tables(f"src/relatum/pretrained/models/{model}/README.md") for row in table]
    titles = {"entities": "entities", "relations (RE)": "relations", "relations, strict (RE+)": "relations_strict"}
    checked = 0
    for row in rows:
        if "macro F1" in row:
            score = record[row["part"]][titles[row["task"]]]
            values = [score["micro"][name] for name in ("precision", "recall", "f1")] + [score["macro"]["f1"]]
            assert list(row.values())[2:] == [f"{100 * value:.2f}" for value in values], row
        elif "before" in row and "task" in row:
            part, task = record["confidence"]["parts"][row["part"]], titles[row["task"]]
            assert row["found"] == f"{part['after'][task]['n']:,}"
            assert [row["before"], row["after"]] == [
                f"{100 * part[when][task]['ece']:.2f}" for when in ("before", "after")
            ]
        elif "threshold" in row:
            after = record["confidence"]["parts"]["dev"]["after"]
            wanted = 0.0 if row["threshold"] == "none" else float(row["threshold"])
            entities, relations = (
                next(one for one in after[task]["thresholds"] if one["threshold"] == wanted)
                for task in ("entities", "relations_strict")
            )
            assert (row["entities"], row["relations"]) == (f"{entities['n']:,}", f"{relations['n']:,}")
        elif "sentences" in row and "part" in row:
            part = record["data"]["parts"][row["part"].split()[0]]
            counts = part["sentences"], sum(part["entities"].values()), sum(part["relations"].values())
            assert list(row.values())[1:] == [f"{number:,}" for number in counts]
        else:
            continue
        checked += 1
    assert checked == 6 + 4 + 9 + 3


def test_readme_says_what_is_in_the_files() -> None:
    rows = next(table for table in tables("README.md") if "test RE+" in table[0])
    for row in rows:
        file = re.findall(r"`(\w+)`", row["name"])[0] + ".json"
        for column in ("test NER", "test RE+"):
            task = TASKS[column.removeprefix("test ")]
            assert row[column] == shown(scores(file, "test", task, "micro")), (file, column)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    tasks = ("entities", "relations_strict")
    best = {
        "CoNLL04": [scores("conll04-mpnet-best.json", "test", task, "micro") for task in tasks],
        "ADE": [scores("ade-mpnet-best.json", "test", task, "macro") for task in tasks],
        "SciERC": [of_all_gold("scierc-mpnet-best.json", task) for task in tasks],
    }
    for corpus, (ner, strict) in best.items():
        assert f"{100 * mean(ner):.1f} / {100 * mean(strict):.1f} on {corpus}" in text


def test_scores_of_other_systems_are_those_of_their_file() -> None:
    table = next(table for table in tables("docs/accuracy.md") if "SpERT, CoNLL04 test" in table[0])
    found = {row.pop("SpERT, CoNLL04 test"): row for row in table}
    rows = load("conll04-spert.json")["rows"]
    assert found == {
        row["encoder"]: {
            "runs": str(row["runs"] or "unknown"),
            "NER": str(row["test"]["NER"]),
            "RE+": str(row["test"]["RE+"]),
        }
        for row in rows
    }


def test_settings_of_measured_runs_can_still_be_read() -> None:
    read = 0
    for path in sorted((ROOT / "results").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        settings = record.get("config") if isinstance(record, dict) else None
        if not isinstance(settings, dict) or settings.get("encoder", {}).get("attention_scale") == "root":
            continue  # such maps are gone
        config = load_record(settings)
        assert config.model.initialisation == settings["model"].get("initialisation", "torch"), path.name
        assert config.tagging.conflicts == settings["tagging"].get("conflicts", "first"), path.name
        read += 1
    assert read >= 10
