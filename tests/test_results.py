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


def scores(file: str, part: str, task: str, average: str, run: str | None = None) -> list[float]:
    """The F1 of the runs in a file: of all, or of those that `run` names without their seed."""
    record = load(file)
    if "ner_micro" in record.get(part, ()):  # a file of an early version
        return [record[part][f"{SHORT[task]}_{average}"] / 100]
    runs = record.get("runs", [record])
    if run is not None:
        runs = [one for one in runs if one["name"].rpartition("-seed-")[0] == run]
    return [one[part][task][average]["f1"] for one in runs]


def named_files(cell: str) -> list[tuple[str, str | None]]:
    """The files in a cell of a table, each with the name of its runs: `file.json` or `file.json` (`run`)."""
    return [(file, run or None) for file, run in re.findall(r"`([\w-]+\.json)`(?: \(`([\w-]+)`\))?", cell)]


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
            [(file, run)] = named_files(row["file"])
            values = (scores(file, part, TASKS[task], average, run) for average in ("micro", "macro"))
            assert row[column] == " / ".join(map(shown, values)), (file, run, column)
            checked += 1
    assert checked >= 125


def test_accuracy_notes_say_what_is_in_the_files() -> None:
    name = "file in `results/`"
    rows = [row for table in tables("docs/accuracy.md") if name in table[0] for row in table]
    assert len(rows) >= 21
    for row in rows:
        title = next(iter(row.values()))
        average = "macro" if "(macro)" in title else "micro"
        files = named_files(row[name])
        for column, task in TASKS.items():
            if "the paper, ALBERT" in title:
                corpus = re.split(r"\W", title)[0]
                own = next(one for one in OURS_IN_THE_PAPER if (one.section, one.average) == (corpus, average))
                expected = str(own.published[{"NER": "ner", "RE": "re", "RE+": "re_strict"}[column]])
            elif "all of gold" in title:
                expected = shown(of_all_gold(files[0][0], task))
            else:
                values = [value for file, run in files for value in scores(file, "test", task, average, run)]
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
            f"{per_100(m, task, '0.5', data):.1f}"
            for m in ("drugs", "words (replaced)")
            for task in ("entities", "relations")
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
        name = {"drugs before": "before", "drugs-3 (shipped)": "words (replaced)"}.get(model)
        if name is not None:
            assert row["relations per 100 negative sentences"] == f"{per_100(name, 'relations', 'none'):.1f}"
        _, (_, _, strict), _, neutral = prose[model]
        assert row["RE+ on today's prose"] == f"{strict:.1f}"
        assert row["entities per 100 neutral sentences"] == f"{neutral:.0f}"


MODELS = ("news", "drugs", "wiki")


def rows_with(path: str, *columns: str) -> list[dict[str, str]]:
    """The rows of the only table of a page that has these columns."""
    [rows] = [table for table in tables(path) if set(columns) <= set(table[0])]
    return rows


def test_taught_models_have_the_scores_of_their_files() -> None:
    rows = rows_with("docs/accuracy.md", "taught by", "file and runs in `results/`")
    for row in rows:
        [(file, run)] = named_files(row["file and runs in `results/`"])
        for column in ("dev NER", "dev RE+", "test NER", "test RE+"):
            part, _, task = column.partition(" ")
            values = scores(file, part, TASKS[task], "micro", run)
            assert row[column] == shown(values), (file, run, column)
            assert row["runs"] == str(len(values))
    assert len(rows) == 6


def test_models_with_written_patterns_have_the_scores_of_their_files() -> None:
    runs = load("patterns.json")["runs"]
    wiki = next(run for run in runs if run["name"] == "wiki-patterns-seed-0")
    rows = rows_with("docs/accuracy.md", "with patterns, test RE+", "with patterns, RE+")
    assert len(rows) == len(MODELS)
    for row, model in zip(rows, MODELS, strict=True):
        is_wiki = model == "wiki"
        test = wiki["test"] if is_wiki else load(f"{model}.json")["test"]
        prose = wiki["prose_relations"] if is_wiki else prose_row(model, "none")["relations"]
        assert row["model"].startswith(f"`{model}`")
        assert row["with patterns, test RE+"] == shown([test["relations_strict"]["micro"]["f1"]])
        assert row["with patterns, RE+"] == (f"{prose['f1']:.1f}" if is_wiki else quality(prose)[2])
    after = next(run for run in runs if run["name"] == "wiki-dropout-seed-0")["history"]
    steps = [wiki["history"][-1], *(one for one in after if one["step"] in (500, 1000, 3000))]
    learned = rows_with("docs/accuracy.md", "loss per word", "RE+, macro")
    for row, step in zip(learned, steps, strict=True):
        assert (row["updates"], row["loss per word"]) == (f"{step['step']:,}", f"{step['loss']:.2f}")
        strict = step["dev"]["relations_strict"]
        figures = [step["dev"]["entities"]["micro"]["f1"], strict["micro"]["f1"], strict["macro"]["f1"]]
        assert [row["NER"], row["RE+"], row["RE+, macro"]] == [shown([figure]) for figure in figures]


def test_small_models_have_the_scores_of_their_file() -> None:
    runs = load("few.json")["runs"]
    found = {}
    for row in rows_with("docs/accuracy.md", "runs in `few.json`", "dev RE+"):
        name = row["runs in `few.json`"].strip("`")
        own = [run["dev"] for run in runs if run["name"].rpartition("-seed-")[0] == name]
        average = "macro" if "macro" in row["data"] else "micro"
        assert row["runs"] == str(len(own)), row
        for column, task in (("dev NER", "entities"), ("dev RE+", "relations_strict")):
            assert row[column] == shown([dev[task][average]["f1"] for dev in own]), row
        found[name] = (row["runs"], row["dev NER"], row["dev RE+"])
    assert {run["name"].rpartition("-seed-")[0] for run in runs} == found.keys()
    rows = rows_with("docs/training.md", "start", "tagging", "RE+")
    names = ("few-words", "few-spans", "few-start-wiki")
    assert [(row["runs"], row["NER"], row["RE+"]) for row in rows] == [found[name] for name in names]


def test_benchmarks_page_says_what_updates_take() -> None:
    rows = rows_with("docs/benchmarks.md", "trained", "precision", "CPU ms")
    for row, measured in zip(rows, load("updates-cpu.json")["rows"], strict=True):
        code = "now" if measured["tree"] == "this" else "before"
        figures = [f"{measured['cpu_ms']:.1f}", f"{measured['ratio']:.2f}"]
        assert list(row.values()) == [measured["kind"], measured["precision"], code, *figures]


def test_networks_that_were_trained_on_have_the_scores_of_their_files() -> None:
    record = load("networks.json")
    by_step = {(run["name"], step["step"]): step["dev"] for run in record["runs"] for step in run["history"]}
    wanted = [record["before"]["wiki"], *(by_step["wiki-64-seed-0", step] for step in (1000, 4000, 7000, 14_000))]
    rows = rows_with("docs/accuracy.md", "on dev", "updates", "RE+, macro")
    for row, dev in zip(rows, [*wanted, by_step["wiki-128-seed-0", 4000]], strict=True):
        strict = dev["relations_strict"]
        figures = [dev["entities"]["micro"]["f1"], strict["micro"]["f1"], strict["macro"]["f1"]]
        assert [row["NER"], row["RE+"], row["RE+, macro"]] == [shown([figure]) for figure in figures], row
    before = next(run for run in load("patterns.json")["runs"] if run["name"] == "wiki-dropout-seed-0")
    now = load("wiki.json")["test"]
    expected = [
        [shown([test[task][average]["f1"]]) for test in (before["test"], now)]
        for task, average in (("entities", "micro"), ("relations_strict", "micro"), ("relations_strict", "macro"))
    ]
    prose = before["prose_relations"], prose_row("wiki", "none")["relations"]
    expected += [list(pair) for pair in zip(*map(quality, prose), strict=True)]
    compared = rows_with("docs/accuracy.md", "`wiki`", "before", "now")
    assert [[row["before"], row["now"]] for row in compared] == expected
    news = next(run for run in record["runs"] if run["name"] == "news-64-seed-0")["history"]
    assert [shown([one["dev"]["relations_strict"]["micro"]["f1"]]) for one in news] == ["69.2", "69.7", "68.2"]


def test_models_of_the_box_have_the_scores_of_their_files() -> None:
    rows = rows_with("docs/accuracy.md", "model in the box", "test RE+")
    assert [row["model in the box"].strip("`") for row in rows] == list(MODELS)
    for row, model in zip(rows, MODELS, strict=True):
        for column in ("test NER", "test RE", "test RE+"):
            assert row[column] == shown(scores(f"{model}.json", "test", TASKS[column[5:]], "micro")), (model, column)
    tasks = ("entities", "relations_strict")
    before = {
        "`news`": {task: scores("conll04-minilm-l6-shipped.json", "test", task, "micro")[3] for task in tasks},
        "`drugs`": {task: again("drugs-3", "test", task)[0] for task in tasks},
    }
    for row in rows[:2]:
        for column, task in (("NER before", "entities"), ("RE+ before", "relations_strict")):
            assert row[column] == shown([before[row["model in the box"]][task]]), (row, column)


def test_scores_of_shipped_models_are_as_far_off_as_stated() -> None:
    rows = rows_with("docs/accuracy.md", "model", "scores of", "before", "after")
    assert [row["model"].strip("`") for row in rows] == [model for model in MODELS for _ in range(2)]
    for row, task in zip(rows, ["entities", "relations_strict"] * len(MODELS), strict=True):
        part = load(f"{row['model'].strip('`')}.json")["confidence"]["parts"]["test"]
        assert [row["before"], row["after"]] == [f"{100 * part[when][task]['ece']:.1f}" for when in ("before", "after")]


def quality(figures: dict[str, float]) -> tuple[str, str, str]:
    """Precision, recall and F1 in per cent with one digit, of counts: the file has rounded them to two."""
    found, gold = figures["found"], figures["gold"]
    right = round(figures["precision"] * found / 100)
    values = (right / found if found else 0.0, right / gold, 2 * right / (found + gold))
    precision, recall, f1 = (f"{100 * value:.1f}" for value in values)
    return precision, recall, f1


def prose_row(model: str, threshold: str) -> dict[str, Any]:
    """What a shipped model finds in today's prose; the threshold is a number, or `none`."""
    wanted = 0.0 if threshold == "none" else float(threshold)
    rows = load("prose.json")["models"][model]["rows"]
    found: dict[str, Any] = next(row for row in rows if row["threshold"] == wanted)
    return found


def test_benchmarks_page_says_what_models_find_in_prose() -> None:
    rows = rows_with("docs/benchmarks.md", "threshold", "false relations")
    assert len(rows) == 4 * len(MODELS)
    for row in rows:
        written = prose_row(row["model"].strip("`"), row["threshold"])
        precision, recall, f1 = quality(written["relations"])
        if not written["relations"]["found"]:
            precision = "–"
        assert row["entities P / R / F1"] == " / ".join(quality(written["entities"]))
        assert row["relations (RE+) P / R / F1"] == f"{precision} / {recall} / {f1}"
        assert row["false relations"] == f"{written['false_positive_rate']:.1f} %"
        assert row["entities per 100 neutral sentences"] == f"{written['neutral_entities']:.1f}"
    documents = {row["texts"]: row["number"] for row in rows_with("docs/benchmarks.md", "texts", "number")}
    assert list(documents.values()) == [str(number) for number in load("prose.json")["documents"].values()]


def test_accuracy_notes_say_what_models_find_in_prose() -> None:
    rows = rows_with("docs/accuracy.md", "on today's prose", "threshold", "false relations")
    assert len(rows) == 8
    before = load("shipped-h200.json")["prose"]
    for row in rows:
        model, _, which = row["on today's prose"].partition(" ")
        model = model.strip("`")
        if which == "as it was":
            entities, strict, rate, neutral = before[{"news": "news (shipped)", "drugs": "drugs-3 (shipped)"}[model]]
            figures = [f"{value:.1f}" for value in (entities, *strict)]
        else:
            written = prose_row(model, row["threshold"])
            rate, neutral = written["false_positive_rate"], written["neutral_entities"]
            figures = [quality(written["entities"])[2], *quality(written["relations"])]
        assert [row[column] for column in ("NER F1", "RE+ P", "RE+ R", "RE+ F1")] == figures, row
        assert row["false relations"] == f"{rate:.1f} %"
        assert row["entities per 100 neutral sentences"] == f"{neutral:.1f}"


def test_accuracy_notes_say_what_drugs_finds_in_negative_sentences() -> None:
    rows = rows_with("docs/accuracy.md", "2,493 negative sentences")
    for row, model in zip(rows, ("words (replaced)", "drugs"), strict=True):
        found = [
            f"{per_100(model, task, threshold):.1f}"
            for threshold in ("none", "0.5")
            for task in ("entities", "relations")
        ]
        assert list(row.values())[1:] == found


def test_readme_says_what_models_find_in_prose() -> None:
    rows = rows_with("README.md", "on today's prose", "precision of relations")
    assert len(rows) == 7
    for row in rows:
        model, threshold = re.findall(r"`(?:--threshold )?([\w.]+)`", row["on today's prose"] + "`none`")[:2]
        precision, recall, _ = quality(prose_row(model, threshold)["relations"])
        assert (row["precision of relations"], row["recall of relations"]) == (precision, recall), row


def test_layers_and_heads_of_news_have_the_scores_of_their_files() -> None:
    page = "docs/looking-inside.md"
    layers = load("probe-conll04-news.json")["layers"]
    for row, layer in zip(rows_with(page, "layer", "NER"), layers, strict=True):
        for column, task in TASKS.items():
            assert row[column] == shown([layer["scores"][task]["micro"]["f1"]]), (row, column)
        for column, task in (("entities", "entities"), ("relations", "relations_strict")):
            change = layer.get("changes", {}).get(task)
            expected = f"{change['corrected']} / {change['broken']}" if change else ""
            assert row[f"{column} corrected / broken"] == expected
    attention = load("attention-conll04-news.json")
    for row in rows_with(page, "pattern", "table-guided"):
        pattern = row["pattern"]
        encoder, network = 0.0, {1: 0.0, 2: 0.0, 3: 0.0}
        for head in attention["heads"]:
            precision = head["average_precision"][pattern]
            if head["of"] == "network":
                network[head["layer"]] = max(network[head["layer"]], precision)
            else:
                encoder = max(encoder, precision)
        chance, nearest = (attention["patterns"][pattern][name] for name in ("chance", "nearness"))
        best = [shown([value]) for value in (chance, nearest, encoder, max(network.values()))]
        assert [row[name] for name in ("chance", "nearest words", "encoder", "table-guided")] == best
        assert row["in layer 1, 2, 3"] == ", ".join(shown([value]) for value in network.values())


@pytest.mark.parametrize("model", MODELS)
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


def test_int8_has_the_scores_and_times_of_its_files() -> None:
    pairs = load("int8.json")["rows"]
    table = next(table for table in tables("docs/extraction.md") if "NER, int8" in table[0])
    for row, full, rounded in zip(table, pairs[::2], pairs[1::2], strict=True):
        assert row.pop("F1") == f"`{full['model']}`, {full['part']}"
        keys = "entities_f1", "relations_strict_f1"
        assert list(row.values()) == [f"{one[key]:.1f}" for key in keys for one in (full, rounded)]
    took = {(row["precision"], row["batch"]): 1 / row["sentences_per_s"] for row in load("extract-int8.json")["rows"]}
    times = next(table for table in tables("docs/extraction.md") if any("time of int8" in key for key in table[0]))
    for row, batch in zip(times[1:], (1, 32), strict=True):
        assert list(row.values())[1] == f"{took['int8', batch] / took['fp32', batch]:.2f}"


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
