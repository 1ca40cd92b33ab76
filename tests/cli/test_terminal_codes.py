"""No command sends a terminal the codes that a corpus, a model or a file name holds."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from relatum.cli.app import main
from relatum.cli.console import results, to_json
from relatum.models.checkpoint import save_model
from relatum.schema import RelationType, Schema

from ..small_models import make_small_model

CODES = ("\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\x7f", "\r", "\u202e")
TINY = (
    "encoder.kind=none",
    "model.width=8",
    "model.n_layers=1",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=8",
    "characters.width=4",
    "training.batch_size=4",
    "training.learning_rate=0.03",
    "training.warmup_steps=0",
)
SETTINGS = [word for setting in TINY for word in ("--set", setting)]
PERSON, PLACE, LIVES = (f"{name}{''.join(CODES)}" for name in ("Peop", "Loc", "Live_In"))
COMMANDS = {
    "inspect": "inspect DATA",
    "inspect --json": "inspect DATA --json",
    "score": "score DATA DATA",
    "score --errors": "score DATA DATA --errors",
    "score --json": "score DATA DATA --json",
    "split": "split DATA --out OUT",
    "convert": "convert DATA OUT --to jsonl",
    "train": "train DATA --out OUT --set training.steps=2",
    "evaluate": "evaluate MODEL DATA --device cpu",
    "evaluate --errors": "evaluate MODEL DATA --device cpu --errors",
    "calibrate": "calibrate MODEL DATA --part dev --out OUT --device cpu",
    "extract table": "extract --model FINDING --input TEXTS --format table --device cpu",
    "extract json": "extract --model FINDING --input TEXTS --format json --device cpu",
    "extract jsonl": "extract --model FINDING --input TEXTS --format jsonl --device cpu",
    "probe": "probe --model FINDING --input TEXTS --device cpu",
    "probe --json": "probe --model FINDING --input TEXTS --device cpu --json",
    "probe --data": "probe --model MODEL --data DATA --device cpu",
    "attention": "attention --model MODEL DATA --device cpu",
    "compare": "compare RUN RUN",
}


def run(arguments: list[str]) -> tuple[str, str]:
    """Run a command that must succeed; return what it says on standard output and error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    for stream in (out, err):
        stream.flush()
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert status == 0, said
    return said[0], said[1]


def codes_in(text: str) -> set[str]:
    return {sign for sign in text if sign != "\n" and (unicodedata.category(sign) == "Cc" or sign == "\u202e")}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A corpus with codes in labels, words and ids, a model trained on it, and one that finds its labels anywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("codes")
    (folder / "data").mkdir()
    for part in ("train", "dev", "test"):
        records = [
            {
                "id": f"{part}-{number}{CODES[number % len(CODES)]}",
                "words": ["Mara", "lives", "in", "Oldhaven", "".join(CODES) + str(number), "."],
                "entities": [{"start": 0, "end": 1, "label": PERSON}, {"start": 3, "end": 4, "label": PLACE}],
                "relations": [{"head": 0, "tail": 1, "label": LIVES}],
            }
            for number in range(8)
        ]
        (folder / "data" / f"{part}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    texts = {
        f"a{''.join(CODES)}": "Mara lives in Oldhaven .",
        f"b{CODES[0]}": f"Mara{''.join(CODES)} lives in Oldhaven .",
    }
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()]
    (folder / "texts.jsonl").write_text("".join(lines))
    run(["train", str(folder / "data"), "--out", str(folder / "run"), *SETTINGS, "--set", "training.steps=40"])
    save_model(make_small_model(schema=Schema((PLACE, PERSON), (RelationType(LIVES),))), folder / "finding")
    yield {
        "DATA": str(folder / "data"),
        "TEXTS": str(folder / "texts.jsonl"),
        "RUN": str(folder / "run"),
        "MODEL": str(folder / "run" / "model"),
        "FINDING": str(folder / "finding"),
    }
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_codes(places: dict[str, str], tmp_path: Path, name: str) -> None:
    words = [{**places, "OUT": str(tmp_path / "out")}.get(word, word) for word in COMMANDS[name].split()]
    out, err = run([*words, *(SETTINGS if name == "train" else [])])
    assert not codes_in(out)
    assert not codes_in(err)
    if name.startswith(("inspect", "score", "evaluate", "extract")):
        assert "Peop\\" in out or "Loc\\" in out  # labels were shown, with their codes spelt out


def test_tables_escape_titles_headings_and_cells() -> None:
    from rich.table import Table

    file = io.StringIO()
    table = Table(title="\x1b[2J title")
    table.add_column("\x9b heading")
    table.add_row("[bold]\x07 cell")
    results(file).print(table, "\x1b[3J line\nnext")
    assert not codes_in(file.getvalue())
    for shown in ("\\x1b[2J title", "\\x9b heading", "[bold]\\x07 cell", "\\x1b[3J line\nnext"):
        assert shown in file.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_keeps_its_meaning_and_loses_its_codes(encoding: str) -> None:
    value = {"".join(CODES): ["ä", "\xa0", "\u2028"]}
    text = to_json(value, io.TextIOWrapper(io.BytesIO(), encoding))
    assert json.loads(text) == value
    assert not codes_in(text)
    text.encode(encoding)


def test_warnings_of_the_log_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert logging.lastResort is not None
    logging.lastResort.handle(logging.makeLogRecord({"msg": "%s is slow", "args": ("a\x1b]0;b\x07",), "levelno": 30}))
    assert "a\\x1b]0;b\\x07 is slow" in capfd.readouterr().err
