"""Whatever it is fed, the command answers plainly: a clear error, no traceback, no half-written file.

By default every property tries the same few inputs each time; RELATUM_FUZZ=50 tries fifty times as many, at random.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relatum.cli.app import main
from relatum.data.formats import FORMATS

TIMES = int(os.environ.get("RELATUM_FUZZ", "1"))
SECONDS = 30
"""No answer to any input here may take longer, on a slow and busy machine too."""

FILES = tuple(name for name, format in FORMATS.items() if format.suffix)
FOLDERS = tuple(name for name, format in FORMATS.items() if not format.suffix)
JSON = (
    "jsonl",
    "spert",
    "table-sequence",
    "scierc",
    "label-studio",
    "doccano",
    "docred",
    "prodigy",
    "gliner",
    "gliner2",
)

Tree = Mapping[str, bytes]
"""The files of a folder by their path in it; a corpus that is one file has one with an empty path."""

DOCUMENTS: list[dict[str, Any]] = [
    {
        "id": "d1",
        "words": ["Mara", "Ilves", "left", "Oldhaven", ".", "Tarn", "Bank", "(", "Veldria", ")", "fell", "."],
        "sentences": [[0, 5], [5, 12]],
        "entities": [
            {"start": 0, "end": 2, "label": "Peop"},
            {"start": 3, "end": 4, "label": "Loc"},
            {"start": 5, "end": 7, "label": "Org"},
            {"start": 8, "end": 9, "label": "Loc"},
        ],
        "relations": [{"head": 0, "tail": 1, "label": "Live_In"}, {"head": 2, "tail": 3, "label": "Based_In"}],
        "clusters": [[[3, 4], [8, 9]]],
        "metadata": {"x-source": ["a", {"n": 1.5, "é": None}]},
    },
    {
        "id": "d2",
        "text": "Ivo Tarn 🙂 of “Suldane” met\r\nhis sister.\n",
        "entities": [
            {"id": "E7", "start": 0, "end": 8, "label": "Peop", "score": 0.25, "attributes": {"Known": True}},
            {"id": "E9", "start": 15, "end": 22, "label": "Loc", "attributes": {"Kind": ["city", "old"]}},
        ],
        "relations": [{"id": "r", "head": "E7", "tail": "E9", "label": "Live_In", "score": 0.5}],
    },
    {
        "id": "d3",
        "words": ["North", "and", "South", "Tarn", "Bank", "grew"],
        "entities": [
            {"start": 2, "end": 5, "label": "Org"},
            {"start": 2, "end": 4, "label": "Loc"},
            {"start": 0, "end": 5, "fragments": [[0, 1], [3, 5]], "label": "Org"},
        ],
        "relations": [{"head": 0, "tail": 1, "label": "Based_In"}],
    },
    {
        "id": "d4",
        "words": ["Mara", "left", ".", "Oldhaven", "slept", "."],
        "sentences": [[0, 3], [3, 6]],
        "entities": [{"start": 0, "end": 1, "label": "Peop"}, {"start": 3, "end": 4, "label": "Loc"}],
        "relations": [{"head": 0, "tail": 1, "label": "Live_In"}],
    },
    {"id": "d5", "words": ["Nothing", "here", "."]},
]


def examples(count: int) -> settings:
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class TooSlow(BaseException):
    """Not an `Exception`, so that nothing in between takes it for bad input."""


@contextmanager
def limited() -> Iterator[None]:
    """Stops what takes too long, such as waiting for a pipe that nobody writes to."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """Standard error without the line that every conversion begins with."""
        return re.sub("^relatum: reading .* as .*, writing .* as .*\n", "", self.err, count=1, flags=re.MULTILINE)


def run(*arguments: str | Path, about: str = "") -> Answer:
    """Run the command and check what holds for every answer; an error must speak of `about`, a regular expression."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="") for errors in ("strict", "backslashreplace")
    )
    with limited(), redirect_stdout(out), redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    out.flush()
    err.flush()
    answer = Answer(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))
    assert status in (0, 1, 2)
    for text in (answer.out, answer.err):
        assert "Traceback" not in text
        strange = {sign for sign in text if not sign.isprintable() and sign != "\n"}
        if "--json" in arguments:  # made for programs: only what a terminal would obey is escaped
            strange = {sign for sign in strange if unicodedata.category(sign) == "Cc"}
        assert not strange, strange
    assert all(len(line) < 2000 for line in answer.err.splitlines())
    if status:
        assert re.search(about or "^$", answer.complaint or answer.out), answer
    elif "--json" in arguments:
        json.loads(answer.out)
    return answer


def convert(source: Path, target: Path, to: str, *options: str) -> Answer:
    """Convert, and check that the target is as before after a failure, and can be read after a success."""
    before = snapshot(target.parent)
    answer = run("convert", source, target, "--to", to, *options, about=source.name)
    for line in answer.err.splitlines():
        if source.suffix in (".jsonl", ".json", ".corp") and ": found " in line and "UTF-16" not in line:
            assert re.search(r":\d+( \(record \d+\))?(, .*)?: found |, document .*: found ", line), line
    after = snapshot(target.parent)
    assert not any(".partial" in name for name in after)
    if answer.status:
        assert after == before
    else:
        back = run("inspect", target, "--from", to, "--json", about=target.name)
        # Some folders without documents have nothing to be told by.
        assert back.status == 0 or (to in ("ace", "webanno", "uima") and ": 0 documents\n" in answer.out), (
            answer,
            back,
        )
        if not back.status and FORMATS[to].holds.documents:
            assert json.loads(back.out)["total"]["documents"] == n_written(answer)
    return answer


def n_written(answer: Answer) -> int:
    return sum(map(int, re.findall(r": (\d+) documents$", answer.out, re.MULTILINE)))


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder: the bytes of files, and what the rest is."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        else:
            found[name] = path.read_bytes() if path.is_file() else "folder" if path.is_dir() else "other"
    return found


@contextmanager
def workshop() -> Iterator[tuple[Path, Path]]:
    """Two new folders: one for what is read, one for what is written."""
    with tempfile.TemporaryDirectory() as name:
        folders = Path(name, "in"), Path(name, "out")
        for folder in folders:
            folder.mkdir()
        yield folders


def write_tree(tree: Tree, path: Path) -> Path:
    for name, content in tree.items():
        file = path / name if name else path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


@cache
def sample(name: str) -> Tree:
    """The documents above in a format, as far as it holds them."""
    format = FORMATS[name]
    with workshop() as (inside, outside):
        source = inside / "d.jsonl"
        source.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
        target = outside / f"sample{format.suffix}"
        options = [] if format.holds.discontinuous and format.holds.same_span else ["--overlaps", "keep-longest"]
        options += [] if format.holds.crossing else ["--crossing", "drop"]
        answer = run("convert", source, target, "--to", name, *options)
        assert answer.status == 0, answer
        if format.suffix:
            return {"": target.read_bytes()}
        return {str(p.relative_to(target)): p.read_bytes() for p in sorted(target.rglob("*")) if p.is_file()}


NASTY_STRINGS = st.sampled_from(
    ["", " ", "\n", "\x00", "\x1b[2J", "[/x]", ":smile:", "\u2028", "�", "\ufeff", "O", "DISC", "a/b", "..", "x" * 3000]
)
NASTY_NUMBERS = st.sampled_from([-1, 0, 1, 3, 10**4, 2**31, 2**63, 10**30, -(2**63), 1.5, 1e308])
NASTY_VALUES: st.SearchStrategy[Any] = st.one_of(
    # A later change to a list or an object must not reach other examples.
    st.sampled_from([None, True, [], {}, [[]], [None], {"a": 1}, [0, 1], [1, 0], [[[["x"]]]]]).map(deepcopy),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    NASTY_NUMBERS,
    NASTY_STRINGS,
    st.text(max_size=5),
)
NASTY_NUMERALS = [b"-1", b"0", b"99", b"99999999", b"1" + b"0" * 30, b"1e400", b"NaN", b"-Infinity", b"1.5", b"", b"01"]
NASTY_PIECES = [
    b"", b"\0", b"\n", b"\r", b"\n\n", b"\t", b'"', b"\\", b"{", b"]", b"<", b"&", b"&#0;", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf0\x9f\x99\x82", b"x" * 5000,
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes after one to three accidents."""
    for _ in range(draw(st.integers(1, 3))):
        data = draw(st.sampled_from(ACCIDENTS))(draw, data)
    return data


def _place(draw: st.DrawFn, data: bytes) -> int:
    return draw(st.integers(0, len(data)))


def _truncated(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: _place(draw, data)]


def _flipped(draw: st.DrawFn, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + bytes(byte ^ draw(st.integers(1, 255)) for byte in data[at : at + 1]) + data[at + 1 :]


def _stuffed(draw: st.DrawFn, data: bytes) -> bytes:
    at = _place(draw, data)
    return (
        data[:at] + draw(st.sampled_from(NASTY_PIECES) | st.binary(max_size=5)) + data[at + draw(st.integers(0, 2)) :]
    )


def _cut_and_pasted(draw: st.DrawFn, data: bytes) -> bytes:
    start, end = sorted((_place(draw, data), _place(draw, data)))
    return data[:start] + data[start:end] * draw(st.sampled_from([0, 2])) + data[end:]


def _lines_changed(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(["lose", "repeat", "swap", "empty"])):
        case "lose":
            del lines[one]
        case "repeat":
            lines.insert(two, lines[one])
        case "swap":
            lines[one], lines[two] = lines[two], lines[one]
        case "empty":
            lines[one] = b"\n"
    return b"".join(lines)


def _number_changed(draw: st.DrawFn, data: bytes) -> bytes:
    numbers = list(re.finditer(rb"\d+", data))
    if not numbers:
        return data
    start, end = draw(st.sampled_from(numbers)).span()
    near = str(int(data[start:end][:18]) + draw(st.integers(-3, 3))).encode()
    return data[:start] + draw(st.sampled_from([near, *NASTY_NUMERALS])) + data[end:]


def _marked(draw: st.DrawFn, data: bytes) -> bytes:
    return (
        draw(st.sampled_from([codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE])) + data
    )


def _other_encoding(draw: st.DrawFn, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(draw(st.sampled_from(["utf-16", "utf-16-le", "utf-8-sig", "utf-32", "latin-1"])), "replace")


def _other_line_ends(draw: st.DrawFn, data: bytes) -> bytes:
    return data.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"\n\n", b"\x00", b"\xc2\x85"])))


ACCIDENTS: list[Callable[[st.DrawFn, bytes], bytes]] = [
    _truncated,
    _flipped,
    _stuffed,
    _cut_and_pasted,
    _lines_changed,
    _number_changed,
    _marked,
    _other_encoding,
    _other_line_ends,
]


@st.composite
def wrong_values(draw: st.DrawFn, data: bytes) -> bytes:
    """A JSON file of records in which one to three values are replaced, lost, repeated, moved or renamed."""
    lines = not data.startswith(b"[")
    root = [list(map(json.loads, data.splitlines())) if lines else json.loads(data)]
    _change_some(draw, root)
    raw = draw(st.booleans())
    dumped = [json.dumps(value, ensure_ascii=not raw) for value in (root[0] if lines else root)]
    return "\n".join(dumped).encode("utf-8", "surrogatepass")


@st.composite
def wrong_docbin(draw: st.DrawFn, data: bytes) -> bytes:
    """A DocBin in which one to three values, of the whole or of one document's own, are changed so."""
    import srsly  # type: ignore[import-untyped]

    def with_lists(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: with_lists(item) for key, item in value.items()}
        return [with_lists(item) for item in value] if isinstance(value, tuple) else value

    root = [srsly.msgpack_loads(zlib.decompress(data))]
    own, number = root[0]["user_data"], draw(st.integers(-len(DOCUMENTS), len(DOCUMENTS) - 1))
    try:
        if number < 0:
            _change_some(draw, root)
        else:  # its keys are tuples, so its values come as such too
            document = [with_lists(srsly.msgpack_loads(own[number], use_list=False))]
            _change_some(draw, document)
            own[number] = srsly.msgpack_dumps(document[0])
        return zlib.compress(srsly.msgpack_dumps(root[0]))
    except (ValueError, OverflowError, TypeError):  # not to be said in MessagePack
        return data[:-1]


def _change_some(draw: st.DrawFn, root: list[Any]) -> None:
    """Change one to three values somewhere inside the only item of a list."""
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(root) if place[0] is not root]
        if places:
            _change(draw, *draw(st.sampled_from(places)))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a value with each of its keys or indices."""
    places, waiting = [], [value]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        places += [(container, key) for key in keys]
        waiting += [container[key] for key in keys if isinstance(container[key], dict | list)]
    return places


def _change(draw: st.DrawFn, container: Any, key: Any) -> None:
    value = container[key]
    match draw(st.sampled_from(["replace", "nudge", "lose", "repeat", "wrap", "rename"])):
        case "nudge" if type(value) is int:
            container[key] = value + draw(st.integers(-3, 3))
        case "lose":
            del container[key]
        case "repeat" if isinstance(container, list):
            container.insert(draw(st.integers(0, len(container))), value)
        case "wrap":
            container[key] = [value]
        case "rename" if isinstance(container, dict):
            container[draw(NASTY_STRINGS | st.sampled_from(["id", "text", "words", "tokens"]))] = container.pop(key)
        case _:
            container[key] = draw(NASTY_VALUES)


OPTIONS = st.tuples(
    st.sampled_from([(), ("--on-error", "fail"), ("--on-error", "skip")]),
    st.sampled_from([(), ("--overlaps", "fail"), ("--overlaps", "drop"), ("--overlaps", "keep-longest")]),
    st.sampled_from([(), ("--crossing", "fail"), ("--crossing", "drop")]),
).map(lambda chosen: [word for words in chosen for word in words])


def try_commands(draw: st.DataObject, source: Path, outside: Path, format: str) -> None:
    """Run a conversion and one other command on a corpus that may hold anything."""
    to = draw.draw(st.sampled_from(list(FORMATS)), "to")
    suffix = FORMATS[to].suffix if source.is_file() or format in FOLDERS else ""
    target = outside / f"target{suffix}"
    if suffix and draw.draw(st.booleans(), "old"):
        target.write_bytes(b"old\n")
    origin = draw.draw(st.sampled_from([["--from", format], []]), "from")
    convert(source, target, to, *origin, *draw.draw(OPTIONS, "options"))
    command = draw.draw(st.sampled_from(["inspect", "inspect --json", "split", "folds", "score", "compare"]), "command")
    before = snapshot(outside)
    match command:
        case "inspect" | "inspect --json":
            run(*command.split(), source, *origin, about=source.name)
            assert snapshot(outside) == before
        case "split" | "folds":
            split = outside / "split"
            options = ["--folds", "2"] if command == "folds" else []
            answer = run("split", source, "--out", split, *options, *origin, about=f"{source.name}|--folds|--dev")
            if answer.status:
                assert snapshot(outside) == before
            else:
                for folder in {file.parent for file in split.rglob("*.jsonl")}:
                    assert run("inspect", folder, "--from", "jsonl").status == 0
        case "score" | "compare":
            good = write_tree(sample(format), source.parent / f"good{FORMATS[format].suffix}")
            files = [good, source] if draw.draw(st.booleans(), "good first") else [source, good]
            options = ["--bootstrap", "2"] if command == "compare" else []
            run("score", *files, *files[: len(options) // 2], "--from", format, *options, "--json", about=source.name)


@pytest.mark.parametrize("format", FILES)
@examples(6)
@given(draw=st.data())
def test_random_bytes_are_answered_plainly(format: str, draw: st.DataObject) -> None:
    with workshop() as (inside, outside):
        source = inside / f"noise{FORMATS[format].suffix}"
        source.write_bytes(draw.draw(st.binary(max_size=200)))
        try_commands(draw, source, outside, format)


@pytest.mark.parametrize("format", FILES)
@examples(12)
@given(draw=st.data())
def test_damaged_files_are_answered_plainly(format: str, draw: st.DataObject) -> None:
    with workshop() as (inside, outside):
        suffix = FORMATS[format].suffix
        content = draw.draw(damaged(sample(format)[""]))
        if draw.draw(st.booleans(), "in a folder"):
            source = inside / "corpus"
            write_tree({f"train{suffix}": content, f"dev{suffix}": sample(format)[""]}, source)
            if draw.draw(st.booleans(), "labels"):
                labels = b'{"entity_types": ["Loc"], "relation_types": [{"name": "Live_In", "symmetric": true}]}'
                (source / "schema.json").write_bytes(draw.draw(damaged(labels)))
        else:
            source = write_tree({"": content}, inside / f"damaged{suffix}")
        try_commands(draw, source, outside, format)


@pytest.mark.parametrize("format", JSON)
@examples(20)
@given(draw=st.data())
def test_wrong_values_are_answered_plainly(format: str, draw: st.DataObject) -> None:
    with workshop() as (inside, outside):
        content = draw.draw(wrong_values(sample(format)[""]))
        try_commands(draw, write_tree({"": content}, inside / f"wrong{FORMATS[format].suffix}"), outside, format)


@examples(12)
@given(draw=st.data())
def test_docbin_with_damage_behind_its_compression_is_answered_plainly(draw: st.DataObject) -> None:
    pytest.importorskip("spacy")
    with workshop() as (inside, outside):
        packed = sample("docbin")[""]
        content = draw.draw(damaged(zlib.decompress(packed)).map(zlib.compress) | wrong_docbin(packed))
        try_commands(draw, write_tree({"": content}, inside / "damaged.spacy"), outside, "docbin")


@pytest.mark.parametrize("format", FOLDERS)
@examples(15)
@given(draw=st.data())
def test_damaged_folders_are_answered_plainly(format: str, draw: st.DataObject) -> None:
    with workshop() as (inside, outside):
        source = write_tree(sample(format), inside / "corpus")
        names = st.sampled_from(sorted(sample(format)))
        for _ in range(draw.draw(st.integers(1, 2))):
            _damage_folder(draw, source, draw.draw(names), draw.draw(names))
        try_commands(draw, source, outside, format)


def _damage_folder(draw: st.DataObject, folder: Path, name: str, other: str) -> None:  # noqa: C901 - one case a damage
    file, second = folder / name, folder / other
    if not file.is_file() or file.is_symlink():
        return
    kinds = ["damage", "lose", "swap", "empty", "folder", "name", "loop", "link out", "pipe", "deep"]
    match draw.draw(st.sampled_from(kinds), "kind"):
        case "damage":
            file.write_bytes(draw.draw(damaged(file.read_bytes())))
        case "lose":
            file.unlink()
        case "swap" if second.is_file():
            one, two = file.read_bytes(), second.read_bytes()
            file.write_bytes(two)
            second.write_bytes(one)
        case "folder":
            file.unlink()
            file.mkdir()
        case "name":
            stem = draw.draw(st.sampled_from([b"\xff\xfe", b"\x1b[2J", b"a\nb", b" ", b"..", b"%41", "é".encode()]))
            file.rename(folder / os.fsdecode(stem + os.fsencode("".join(file.suffixes))))
        case "loop":
            file.unlink()
            file.symlink_to(file.name)
        case "link out":
            (folder / "up").unlink(missing_ok=True)
            (folder / "up").symlink_to("..", target_is_directory=True)
        case "pipe":
            file.unlink()
            os.mkfifo(file)
        case "deep":
            place = folder.joinpath(*["deep"] * 20)
            place.mkdir(parents=True, exist_ok=True)
            file.rename(place / file.name)
        case _:
            file.write_bytes(b"")


@pytest.mark.parametrize(
    "format", ["jsonl", "spert", "table-sequence", "scierc", "label-studio", "doccano", "brat", "ace"]
)
@examples(6)
@given(draw=st.data())
def test_skipped_and_written_documents_add_up(format: str, draw: st.DataObject) -> None:
    with workshop() as (inside, outside):
        source = inside / f"mixed{FORMATS[format].suffix}"
        n_good, n_bad = _mix(draw, format, source)
        target = outside / "target.jsonl"
        answer = convert(source, target, "jsonl", "--from", format, "--on-error", "skip")
        assert answer.status == (0 if n_good else 1)
        if n_good:
            assert n_written(answer) == n_good == len(target.read_text().splitlines())
            assert (f"skipped {n_bad} bad record" in answer.err) == (n_bad > 0)
        else:
            assert "Nothing was written: no document of mixed is left" in answer.err
        assert answer.err.count(": found ") == n_bad

        shutil.rmtree(outside)
        outside.mkdir()
        answer = convert(source, target, "jsonl", "--from", format)
        assert answer.status == (1 if n_bad else 0)
        assert answer.err.count(": found ") == n_bad
        assert ("--on-error skip" in answer.err) == (n_bad > 0)
        assert run("inspect", source, "--from", format, about=source.name).status == answer.status


def _mix(draw: st.DataObject, format: str, path: Path) -> tuple[int, int]:
    """Write good and bad records in any order; how many there are of each."""
    tree = sample(format)
    if format in FOLDERS:
        ending = {"brat": ".ann", "ace": ".apf.xml"}[format]
        names = [name for name in tree if name.endswith(ending)]
        bad = draw.draw(st.sets(st.sampled_from(names)))
        write_tree({name: b"<T1 -1" if name in bad else content for name, content in tree.items()}, path)
        return len(names) - len(bad), len(bad)
    array = tree[""].startswith(b"[")
    records = json.loads(tree[""]) if array else [json.loads(line) for line in tree[""].splitlines()]
    no_records: list[Any] = [None, 7, "x", {}, {"id": []}, {"tokens": 3, "data": 3, "words": 3}]
    junk = draw.draw(st.lists(st.sampled_from(no_records), max_size=5))
    mixed = draw.draw(st.permutations(records + junk))
    text = json.dumps(mixed) if array else "".join(json.dumps(record) + "\n" for record in mixed)
    path.write_text(text)
    return len(records), len(junk)


@examples(20)
@given(draw=st.data())
def test_settings_are_answered_plainly(draw: st.DataObject) -> None:
    good = b"extends = 'base.toml'\n[text]\nwords = 'whitespace'\n[tagging]\nfill = 'lower'\ndirected = false\n"
    with workshop() as (inside, outside):
        (inside / "base.toml").write_text("data.on_error = 'skip'\n")
        file = inside / "settings.toml"
        file.write_bytes(draw.draw(damaged(good) | st.binary(max_size=100)))
        data = write_tree(sample("jsonl"), inside / "data.jsonl")
        command = draw.draw(st.sampled_from(["show", "show --json", "check", "inspect", "convert"]))
        if command == "inspect":
            run("inspect", data, "--config", file, about="settings.toml")
        elif command == "convert":
            convert_with = [
                "--config",
                str(file),
                "--set",
                draw.draw(st.text(st.characters(codec="utf-8"), max_size=20)),
            ]
            answer = run("convert", data, outside / "t.jsonl", *convert_with, about="--set")
            assert (answer.status, snapshot(outside)) == (1, {})
        else:
            run("config", *command.split(), file, about="settings.toml")


@examples(20)
@given(draw=st.data())
def test_lists_and_schemas_are_answered_plainly(draw: st.DataObject) -> None:
    lists = json.dumps([{"train": ["d1", "d2", 2], "dev": [3], "test": [4]}]).encode()
    schema = json.dumps({"entity_types": ["Peop"], "relation_types": [{"name": "Live_In", "symmetric": True}]}).encode()
    with workshop() as (inside, outside):
        data = write_tree(sample("jsonl"), inside / "data.jsonl")
        content = draw.draw(st.sampled_from([lists, schema]))
        kind = st.one_of(damaged(content), wrong_values(b"[" + content + b"]").map(lambda text: text[1:-1]))
        file = write_tree({"": draw.draw(kind)}, inside / "given.json")
        if content is schema:
            run("score", data, data, "--schema", file, about=file.name)
            return
        answer = run("split", data, "--lists", file, "--out", outside / "split", about=file.name)
        assert answer.status == 0 or not snapshot(outside)


def words(*labels: object, size: int = 4, **more: object) -> bytes:
    """A line of our own format with entities as [start, end, label]."""
    entities = [dict(zip(("start", "end", "label"), label, strict=True)) for label in labels]  # type: ignore[call-overload]
    return json.dumps({"id": "a", "words": list("wxyz"[:size]), "entities": entities} | more).encode() + b"\n"


PAIR = [{"head": 0, "tail": 9, "label": "r", "score": 1e308}]

NASTY_FILES: dict[str, tuple[str, bytes, str]] = {
    "noise": ("jsonl", b"hello\n", "x.jsonl:1 (record 1): found Expecting value at column 1; expected valid JSON"),
    "truncated": ("jsonl", words() + words()[:30], "x.jsonl:2 (record 2): found Expecting"),
    "no object": ("jsonl", words() + b"3\n", "x.jsonl:2 (record 2): found 3; expected an object"),
    "negative": ("jsonl", words([-1, 2, "L"]), "x.jsonl:1 (record 1), entities[0]: found"),
    "out of range": ("jsonl", words([0, 1, "L"], [3, 5, "L"]), "expected 0 <= start < end <= 4, in words"),
    "backwards": ("jsonl", words([2, 1, "L"]), "expected 0 <= start < end <= 4, in words"),
    "fractions": ("jsonl", words([0.0, 1.0, "L"]), "expected whole numbers for start and end"),
    "truth": ("jsonl", words([False, True, "L"]), "expected whole numbers for start and end"),
    "NaN": ("jsonl", words(metadata={"x": float("nan")}), "metadata.x: found NaN; expected a finite number"),
    "1e400": ("jsonl", words(metadata={"x": 1e308}).replace(b"1e+308", b"1e400"), "metadata.x: found Infinity"),
    "many digits": ("jsonl", words([0, 7, "L"]).replace(b"7", b"7" * 5000), "(record 1): found Exceeds the limit"),
    "same id": ("jsonl", words() + words(), 'x.jsonl:2 (record 2): found the id "a" again (first on line 1)'),
    "UTF-16": ("jsonl", words().decode().encode("utf-16"), "found a UTF-16 file; expected UTF-8; convert it with"),
    "surrogate": ("jsonl", words([0, 1, "\ud800"]), "entities[0].label: found the lone surrogate U+D800"),
    "raw surrogate": ("jsonl", words([0, 1, "L"]).replace(b"L", b"\xed\xa0\x80"), "found a byte that is not UTF-8"),
    "NUL": ("jsonl", b"\0" * 100, "x.jsonl:1 (record 1): found Expecting value"),
    "typing error": ("jsonl", words(entites=[]), "entities, relations, sentences, clusters, metadata (did you mean"),
    "unknown end": ("jsonl", words([0, 1, "L"], relations=PAIR), "relations[0].tail: found 9; expected the id of"),
    "no label": ("jsonl", words([0, 1, ""]), 'entities[0].label: found ""; expected a string that is not empty'),
    "deep": ("jsonl", b"[" * 100_000, "x.jsonl:1 (record 1): found values nested too deeply"),
    "deep line": ("jsonl", b'{"a":' * 100_000 + b"\n", "x.jsonl:1 (record 1): found values nested too deeply"),
    "long key": ("jsonl", words(**{"k" * 10**6: 1}), "found the unknown key"),
    "escape codes": ("jsonl", words(**{"\x1b[2J": 1}), r'found the unknown key "\u001b[2J"'),
    "deep array": ("spert", b"[" * 100_000, "x.json:1 (record 1): found values nested too deeply"),
    "no array": ("label-studio", b"{}", "expected a JSON array of records"),
    "cut array": ("label-studio", b'[{"data": {"text": "a"}}', "found the end of the file; expected ',' or ']'"),
    "no place": (
        "spert",
        b'[{"tokens": ["a"], "entities": [], "relations": [{"type": "r", "head": 0, "tail": 0}]}]',
        "relations[0].head: found 0; expected the place, from 0, of one of the 0 entities",
    ),
    "two of three": (
        "table-sequence",
        b'[\n{"tokens": ["a"], "entities": [[0, 1]], "relations": []}]',
        "x.json:2 (record 1), entities[0]: found [0, 1]; expected a list of 3",
    ),
    "inclusive end": (
        "scierc",
        b'{"sentences": [["a"]], "ner": [[[0, 1, "L"]]]}',
        "ner[0][0][1]: found 1; expected a number of at most 0",
    ),
    "columns": (
        "corp",
        b"1\tO\t0\tO\tNN\tword\n",
        "x.corp:1 (record 1): found 6 columns; expected 9 columns with tabs between them",
    ),
    "row of nothing": (
        "corp",
        b"1\tO\t0\tO\tNN\tword\tO\tO\tO\n\n0\t7\tr\n",
        "x.corp:3 (record 1): found row 0, which is no entity",
    ),
    "bytes": ("docbin", b"\x78\x9c\xff\xff\xff", "expected a DocBin file, as spaCy's DocBin.to_disk writes it"),
    "no folder": ("brat", b"", "expected a folder of .txt files"),
    "no XML": ("ace", b"<a", "x: found"),
}


@pytest.mark.parametrize("name", NASTY_FILES)
def test_nasty_file_gets_a_message_with_place_and_cure(tmp_path: Path, name: str) -> None:
    format, content, words = NASTY_FILES[name]
    source = tmp_path / f"x{FORMATS[format].suffix}"
    source.write_bytes(content)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "old.jsonl"
    target.write_text("old")
    answer = convert(source, target, "jsonl", "--from", format)
    assert answer.status == 1
    assert words in answer.err
    assert run("inspect", source, "--from", format, about=source.name).status == 1
    assert run("split", source, "--from", format, "--out", tmp_path / "split", about=source.name).status == 1
    assert run("score", source, source, "--from", format, about=source.name).status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", source.name]


NASTY_FOLDERS: dict[str, tuple[str, Tree, str]] = {
    "no text": ("brat", {"a.ann": b""}, "a.ann: found no text file beside it; expected its text in a.txt"),
    "offset": ("brat", {"a.txt": b"ab", "a.ann": b"T1\tL 0 9\tab\n"}, "a.ann:1, T1: found the characters [0, 9)"),
    "negative": ("brat", {"a.txt": b"ab", "a.ann": b"\nT1\tL -1 1\ta\n"}, "a.ann:2, T1: found the characters [-1, 1)"),
    "other text": ("brat", {"a.txt": b"ab", "a.ann": b"T1\tL 0 1\tb\n"}, "a.ann:1, T1: found the text 'b'; expected"),
    "not UTF-8": ("brat", {"a.txt": b"\n\xff", "a.ann": b""}, "a.txt:2: found the byte 0xFF, which is not UTF-8"),
    "same mention": ("brat", {"a.txt": b"a", "a.ann": b"T1\tL 0 1\ta\n" * 2}, "a.ann:2, T1: found the id T1 again"),
    "no XML": ("ace", {"a.sgm": b"<DOC>", "a.apf.xml": b"<a"}, "a.apf.xml: found an error in the XML (unclosed token"),
    "no source": ("ace", {"a.apf.xml": b"<a/>"}, "a.apf.xml: found no a.sgm beside it"),
    "bomb": (
        "ace",
        {"a.sgm": b"", "a.apf.xml": b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'},
        "expected XML that declares no entities",
    ),
    "nothing": ("ace", {"a.txt": b""}, "found no .apf.xml file"),
}


@pytest.mark.parametrize("name", NASTY_FOLDERS)
def test_nasty_folder_gets_a_message_with_place_and_cure(tmp_path: Path, name: str) -> None:
    format, tree, message = NASTY_FOLDERS[name]
    source = write_tree(tree, tmp_path / "source")
    (tmp_path / "out").mkdir()
    answer = convert(source, tmp_path / "out" / "new.jsonl", "jsonl", "--from", format)
    assert answer.status == 1
    assert message in answer.err


HARMLESS_FILES: dict[str, tuple[str, bytes]] = {
    "mark": ("jsonl", codecs.BOM_UTF8 + words()),
    "marks between": ("jsonl", (codecs.BOM_UTF8 + words()).replace(b'"a"', b'"b"') + codecs.BOM_UTF8 + words()),
    "CRLF": ("jsonl", words().replace(b"\n", b"\r\n")),
    "blank lines": ("jsonl", b"\n \n" + words() + b"\n\t\n"),
    "no last line end": ("jsonl", words().rstrip()),
    "nothing": ("jsonl", b""),
    "no records": ("spert", b" [ ] \n"),
    "mark before an array": (
        "table-sequence",
        codecs.BOM_UTF8 + b'[{"tokens": ["a"], "entities": [], "relations": []}]',
    ),
    "columns with CRLF": ("corp", codecs.BOM_UTF8 + b"1\tLoc\t0\tO\tNN\tRome\tO\tO\tO\r\n\r\n\r\n"),
}


@pytest.mark.parametrize("name", HARMLESS_FILES)
def test_harmless_oddities_are_read(tmp_path: Path, name: str) -> None:
    format, content = HARMLESS_FILES[name]
    source = tmp_path / f"x{FORMATS[format].suffix}"
    source.write_bytes(content)
    (tmp_path / "out").mkdir()
    assert convert(source, tmp_path / "out" / "new.jsonl", "jsonl", "--from", format).status == 0


@pytest.mark.parametrize("format", JSON)
def test_key_that_stands_twice_loses_nothing_silently(tmp_path: Path, format: str) -> None:
    content = sample(format)[""]
    found = re.search(rb'"(entities|ner|annotations|vertexSet|spans|output)": ', content)
    assert found
    source = tmp_path / f"x{FORMATS[format].suffix}"
    source.write_bytes(content[: found.start()] + found[0] + b"[], " + content[found.start() :])
    (tmp_path / "out").mkdir()
    for origin in ([], ["--from", format]):
        answer = convert(source, tmp_path / "out" / "new.jsonl", "jsonl", *origin)
        assert answer.status == 1
        assert f': found the key "{found[1].decode()}" twice in one object; expected every key once' in answer.err


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A good file to read, in a folder of its own."""
    return write_tree({"good.jsonl": sample("jsonl")[""]}, tmp_path / "in") / "good.jsonl"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with all that may stand in the way of writing or reading."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "empty").mkdir()
    write_tree({"x": b"rubbish", "y/z": b"\xff"}, folder / "full")
    (folder / "file.jsonl").write_text("old")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "dangling.jsonl").symlink_to("nowhere.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "labels.types.json").mkdir()
    return folder


@pytest.mark.parametrize(
    ("target", "to", "message"),
    [
        ("empty", "jsonl", "is a folder; name a file to write"),
        ("full", "jsonl", "is a folder; name a file to write"),
        ("full", "brat", "is a folder that is not empty; name a new folder"),
        ("file.jsonl", "brat", "is a file; name a new folder"),
        ("file.jsonl/new.jsonl", "jsonl", "Not a directory"),
        ("file.jsonl/new", "ace", "Not a directory"),
        ("loop.jsonl", "jsonl", "Too many levels of symbolic links"),
        ("loop.jsonl", "brat", "Too many levels of symbolic links"),
        ("loop.jsonl/new.jsonl", "jsonl", "Too many levels of symbolic links"),
        ("pipe.jsonl", "jsonl", "is neither a file nor a folder; name a file to write"),
        ("pipe.jsonl", "brat", "name a new folder"),
        ("labels", "spert", "labels.types.json is a folder; name a file to write"),
        ("x" * 300, "jsonl", "File name too long"),
        ("x" * 300, "brat", "File name too long"),
    ],
)
def test_convert_to_an_odd_place_changes_nothing(good: Path, place: Path, target: str, to: str, message: str) -> None:
    before = snapshot(place)
    answer = run("convert", good, place / target, "--to", to, "--overlaps", "drop", "--crossing", "drop", about=target)
    assert answer.status == 1
    assert message in answer.err
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("target", "to", "files"),
    [
        ("dangling.jsonl", "jsonl", ["nowhere.jsonl"]),
        ("empty", "brat", []),
        ("new/folder/a.jsonl", "jsonl", ["new", "new/folder", "new/folder/a.jsonl"]),
        ("new/folder", "brat", ["new", "new/folder"]),
    ],
)
def test_convert_makes_the_place_it_needs(good: Path, place: Path, target: str, to: str, files: list[str]) -> None:
    before = snapshot(place)
    assert convert(good, place / target, to).status == 0
    after = snapshot(place)
    assert set(after) - set(before) >= set(files)
    assert all(after[name] == before[name] for name in before)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_convert_without_permission_changes_nothing(good: Path, place: Path) -> None:
    (place / "empty").chmod(0o500)
    before = snapshot(place)
    for target, to in (("empty/new.jsonl", "jsonl"), ("empty/new", "brat")):
        answer = run("convert", good, place / target, "--to", to, about=target)
        assert answer.status == 1
        assert "Permission denied" in answer.err
    assert snapshot(place) == before


@pytest.mark.parametrize("format", [None, *FORMATS])
@pytest.mark.parametrize("source", ["empty", "full", "loop.jsonl", "pipe.jsonl", "missing", "/dev/null", "empty.txt"])
def test_odd_source_is_answered_plainly(place: Path, tmp_path: Path, source: str, format: str | None) -> None:
    (place / "empty.txt").touch()
    (tmp_path / "out").mkdir()
    path, origin = place / source, ["--from", format] if format else []
    answer = convert(path, tmp_path / "out" / "new.jsonl", "jsonl", *origin)
    may_be_empty = source == "empty.txt" or (source in ("empty", "full") and format in ("brat", "brat-no-events"))
    assert answer.status == 1 or may_be_empty
    assert run("inspect", path, *origin, about=path.name).status == answer.status
    assert run("split", path, "--out", tmp_path / "split", *origin, about=f"{path.name}|--dev").status == 1
    assert run("score", path, path, *origin, about=path.name).status == 1
    assert not (tmp_path / "split").exists()


@pytest.mark.parametrize("to", FORMATS)
def test_source_that_is_also_the_target_is_replaced_or_kept(tmp_path: Path, to: str) -> None:
    source = write_tree(sample(to), tmp_path / "out" / f"same{FORMATS[to].suffix}")
    answer = convert(source, source, to)
    assert answer.status == (0 if FORMATS[to].suffix else 1)
    if not answer.status:
        assert convert(source, source, to).status == 0


@pytest.mark.parametrize("format", FILES)
def test_names_that_are_not_text_are_spelt_out(tmp_path: Path, format: str) -> None:
    for name in (b"x\xff", b"x\x1b[2J", b"x\ny"):
        folder = tmp_path / name.hex()
        source = folder / "in" / (os.fsdecode(name) + FORMATS[format].suffix)
        write_tree(sample(format), source)
        (folder / "out").mkdir()
        target = folder / "out" / (os.fsdecode(name) + ".jsonl")
        assert run("convert", source, target, "--from", format).status == 0
        assert target.exists()
        assert run("convert", source.parent, folder / "parts", "--to", "jsonl", "--from", format).status == 0
        for path in (source, source.parent):
            assert run("inspect", path, "--from", format).status == 0
            assert run("inspect", path, "--from", format, "--json").status == 0
        assert run("score", source, source, "--from", format).status == 0
        assert run("split", source, "--from", format, "--out", folder / "split").status == 0


def test_files_of_one_stem_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("a.json", "a.jsonl", "a.json.jsonl", "types.jsonl")):
        (tmp_path / "in" / name).write_bytes(words(id=f"d{number}"))
    (tmp_path / "out").mkdir()
    answer = convert(tmp_path / "in", tmp_path / "out" / "all", "jsonl")
    assert (answer.status, n_written(answer), len(list((tmp_path / "out" / "all").iterdir()))) == (0, 4, 4)


def test_part_that_would_take_the_place_of_the_labels_is_refused(tmp_path: Path) -> None:
    write_tree({"types.jsonl": words(), "train.jsonl": words()}, tmp_path / "in")
    (tmp_path / "out").mkdir()
    answer = convert(tmp_path / "in", tmp_path / "out" / "all", "spert")
    assert answer.status == 1
    assert "a part would be written to types.json, where the labels go; rename it" in answer.err


def test_equal_ids_of_several_parts_are_told_apart_by_split(tmp_path: Path) -> None:
    write_tree({"train.jsonl": words(), "dev.jsonl": words(words=["other"])}, tmp_path / "in")
    answer = run("split", tmp_path / "in", "--lists", tmp_path / "lists.json", "--out", tmp_path / "out", about="lists")
    assert answer.status == 1
    (tmp_path / "lists.json").write_text('{"train": [0, 1, 1]}')
    answer = run("split", tmp_path / "in", "--lists", tmp_path / "lists.json", "--out", tmp_path / "out")
    assert answer.status == 0
    assert "1 × documents with the id of another in their part, renamed" in answer.err
    assert "1 × documents listed more than once in a part, renamed" in answer.err
    ids = [json.loads(line)["id"] for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    assert ids == ["a", "a~2", "a~3"]


MEGABYTE = 1_000_000
LONG_LINES: dict[str, Callable[[], dict[str, Any]]] = {
    "text": lambda: {"text": (f"{'Oldhaven' * 9} lies low. ") * (MEGABYTE // 83)},
    "word": lambda: {"text": "x" * MEGABYTE, "entities": [{"start": 5, "end": 9, "label": "L"}]},
    "words": lambda: {
        "words": ["Oldhaven"] * (MEGABYTE // 12),
        "entities": [{"start": 0, "end": 40_000, "label": "L"}, {"start": 40_000, "end": 80_000, "label": "L"}],
        "relations": [{"head": 0, "tail": 1, "label": "Twin"}],
    },
    "entities": lambda: {
        "words": ["w"] * 9000,
        "entities": [{"start": i // 2, "end": 9000 - i // 3, "label": f"L{i % 7}"} for i in range(9000)],
    },
    "label": lambda: {"words": ["w"], "entities": [{"start": 0, "end": 1, "label": "L" * MEGABYTE}]},
    "id": lambda: {"id": "i" * MEGABYTE, "words": ["w"], "entities": [{"start": 0, "end": 1, "label": "L"}]},
    "metadata": lambda: {"words": ["w"], "metadata": {f"key {i}": [i] for i in range(50_000)}},
}


@pytest.mark.parametrize("shape", LONG_LINES)
def test_line_of_a_megabyte_is_read_or_refused_in_time(tmp_path: Path, shape: str) -> None:
    source = tmp_path / "long.jsonl"
    source.write_text(json.dumps(LONG_LINES[shape]()) + "\n")
    (tmp_path / "out").mkdir()
    assert run("inspect", source, about=source.name).status == 0
    assert convert(source, tmp_path / "out" / "new-spert", "spert", "--overlaps", "keep-longest").status == 0
    source.write_text(source.read_text()[:-20])
    answer = convert(source, tmp_path / "out" / "new-jsonl", "jsonl", "--from", "jsonl")
    assert answer.status == 1
    assert "long.jsonl:1 (record 1): found" in answer.err


COMMAND = [sys.executable, "-m", "relatum"]


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | options.pop("env", {})
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


def test_ctrl_c_leaves_everything_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "long.jsonl"
    source.write_bytes(b"".join(words(id=f"d{number}") for number in range(100_000)))
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "new.jsonl"
    target.write_text("old")
    with start("convert", source, target, stdout=subprocess.PIPE) as process:
        drafts: list[Path] = []
        while process.poll() is None and not any(draft.stat().st_size for draft in drafts):
            drafts = [path for path in target.parent.iterdir() if path != target]
            time.sleep(0.001)
        assert drafts, "the conversion ended before it could be stopped"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out == ""
    assert snapshot(target.parent) == {"new.jsonl": b"old"}


@pytest.mark.parametrize(
    "arguments", ["inspect good.jsonl", "inspect --json good.jsonl", "config show", "score good.jsonl good.jsonl"]
)
def test_closed_pipe_ends_the_command_quietly(good: Path, arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(*arguments.split(), stdout=writing, cwd=good.parent) as process:
        os.close(writing)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err == ""


CLOSED = "relatum: standard output is closed, so the results cannot be printed; redirect it"
FULL = "relatum: standard output: No space left on device; free some space"


@pytest.mark.parametrize(
    ("redirection", "status", "said"),
    [(">&-", 1, CLOSED), (">/dev/full", 1, FULL), ("2>&-", 0, ""), (">&- 2>&-", 1, ""), (">&- 2>&- <&-", 1, "")],
)
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [("inspect --json good.jsonl", "1"), ("convert good.jsonl new.jsonl", "")]
)
def test_results_that_cannot_be_printed_are_an_error(
    good: Path, arguments: str, redirection: str, status: int, said: str, unbuffered: str
) -> None:
    script = f"{' '.join(COMMAND)} {arguments} {redirection}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["bash", "-c", script], cwd=good.parent, capture_output=True, text=True, timeout=SECONDS, env=environment
    )
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if arguments.startswith("convert"):
        assert (good.parent / "new.jsonl").read_bytes() == good.read_bytes(), "nothing else was written into the file"


def test_output_that_is_not_unicode_gets_every_sign(good: Path) -> None:
    good.write_bytes(words([0, 1, "Ort »ä«"], [1, 2, "→"], relations=[{"head": 0, "tail": 1, "label": "\u0416"}]))
    with start("inspect", good, stdout=subprocess.PIPE, env={"PYTHONIOENCODING": "ascii"}) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "")
    assert r"\u0416: Ort \xbb\xe4\xab \u2192 \u2192" in out
