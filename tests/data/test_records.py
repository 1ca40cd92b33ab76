from __future__ import annotations

import codecs
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.data.duplicates import SeenIds
from relatum.data.json_files import (
    first_record,
    json_array,
    json_lines,
    json_records,
    parse_json,
    read_bytes,
    read_text,
)
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, Record, read_records, show
from relatum.errors import Problem
from relatum.types import Document, Span

Reader = Callable[[Path, Problems], Iterator[Record]]


def _read(reader: Reader, path: Path, content: bytes) -> tuple[list[Record], list[Problem]]:
    path.write_bytes(content)
    problems = Problems()
    records = list(reader(path, problems))
    assert problems.count == len(problems.kept)
    return records, problems.kept


def _bad(call: Callable[[], object]) -> tuple[str | None, str, str]:
    with pytest.raises(BadRecord) as caught:
        call()
    return caught.value.field, caught.value.found, caught.value.expected


def test_show_is_json_and_short() -> None:
    assert show({"a": [1, None, True, "x"]}) == '{"a": [1, null, true, "x"]}'
    long = show("x" * 1_000_000)
    assert len(long) <= 60
    assert long.endswith("…")


def test_show_of_what_json_cannot_say_is_its_repr() -> None:
    assert show({1, 2}) == "{1, 2}"


def test_show_escapes_what_a_terminal_or_an_encoder_would_choke_on() -> None:
    assert show("\x1b[2J\ud800") == r'"\u001b[2J\ud800"'


def test_show_of_a_value_nested_too_deeply_to_print_does_not_raise() -> None:
    value: object = 1
    for _ in range(5000):
        value = [value]
    assert len(show(value)) <= 60


def test_field_path_names_keys_and_places() -> None:
    root = Field({"a": [{"b": 1}]})
    assert root.need("a").items()[0].need("b").path == "a[0].b"
    assert Field([[1]]).items()[0].items()[0].path == "[0][0]"


def test_field_complaint_carries_field_found_and_expected() -> None:
    field = Field({"a": [5]}).need("a").items()[0]
    assert _bad(field.text) == ("a[0]", "5", "a string")
    assert str(field.bad("x")) == "a[0]: found 5; expected x"
    assert _bad(Field([]).mapping) == (None, "[]", "an object")


def test_field_only_names_the_unknown_key_and_the_nearest_valid_one() -> None:
    record = Field({"a": {"labell": 1}})
    assert _bad(lambda: record.need("a").only("id", "label")) == (
        "a.labell",
        'the unknown key "labell"',
        "one of id, label (did you mean 'label'?)",
    )
    assert _bad(lambda: record.need("a").only("id", "span"))[2] == "one of id, span"
    record.only("a", "b")


def test_field_only_keeps_a_complaint_printable_whatever_the_key() -> None:
    for key in ("\ud800", "\x1b[2J", "a\nb", "k" * 1_000_000):
        record = Field({key: 1})
        with pytest.raises(BadRecord) as caught:
            record.only("id")
        text = str(Problem("file", caught.value.found, caught.value.expected, 1, 1, caught.value.field))
        assert len(text) < 1000
        assert text.isprintable()


def test_field_need_says_which_keys_there_are() -> None:
    assert _bad(lambda: Field({"a": 1, "b": 2}).need("c")) == (None, "only 'a', 'b'", "the key 'c'")
    assert _bad(lambda: Field({}).need("c")) == (None, "only no keys", "the key 'c'")
    found = _bad(lambda: Field({f"key{i}": 1 for i in range(10_000)}).need("c"))[1]
    assert len(found) <= 200


def test_field_need_and_get_of_what_is_no_object_are_bad() -> None:
    assert _bad(lambda: Field([]).need("c"))[2] == "an object"
    assert _bad(lambda: Field("x").get("c"))[2] == "an object"


def test_field_get_is_none_for_absent_and_null_alone() -> None:
    record = Field({"null": None, "zero": 0, "empty": "", "list": []})
    assert record.get("absent") is None
    assert record.get("null") is None
    for key in ("zero", "empty", "list"):
        assert record.get(key) is not None


def test_field_items_checks_kind_and_length() -> None:
    assert [item.value for item in Field([1, 2]).items(2)] == [1, 2]
    assert _bad(lambda: Field([1, 2]).items(3)) == (None, "[1, 2]", "a list of 3")
    for value in ("ab", {"a": 1}, None, 3):
        assert _bad(Field(value).items)[2] == "a list"


@pytest.mark.parametrize("value", [1, None, True, ["a"], {"a": 1}])
def test_field_text_refuses_what_is_no_string(value: object) -> None:
    assert _bad(Field(value).text)[2] == "a string"


def test_field_text_refuses_the_empty_string_unless_told() -> None:
    assert _bad(Field("").text)[2] == "a string that is not empty"
    assert Field("").text(empty=True) == ""


def test_field_text_names_a_lone_surrogate_and_its_place() -> None:
    assert _bad(Field("ab\udc00c").text) == (None, "the lone surrogate U+DC00 at character 2", "valid Unicode text")


@given(st.text(min_size=1))
def test_field_text_gives_back_any_valid_text(text: str) -> None:
    assert Field(text).text() == text


@pytest.mark.parametrize("bad", ["", 1, None, True, ["a"], "\ud800"])
@pytest.mark.parametrize("other", ["plain", "é"])
def test_field_texts_names_the_place_of_a_bad_word(bad: object, other: str) -> None:
    field = Field({"tokens": [other, bad, other]}).need("tokens")
    assert _bad(field.texts)[0] == "tokens[1]"


@given(st.lists(st.text(min_size=1)))
def test_field_texts_gives_back_any_words(words: list[str]) -> None:
    assert Field(words).texts() == words


@pytest.mark.parametrize("value", ["ab", {"a": 1}, None])
def test_field_texts_refuses_what_is_no_list(value: object) -> None:
    assert _bad(Field(value).texts)[2] == "a list"


def test_field_name_takes_strings_and_whole_numbers_alone() -> None:
    assert Field("a1").name() == "a1"
    assert Field(17).name() == "17"
    assert Field(-1).name() == "-1"
    assert Field(10**4000).name() == "1" + "0" * 4000
    for value in (True, 1.0, None, "", [1], "\ud800"):
        _bad(Field(value).name)


def test_field_integer_takes_whole_numbers_in_range_alone() -> None:
    assert Field(3).integer() == 3
    assert Field(3).integer(3, 3) == 3
    for value in (True, False, 3.0, "3", None, math.nan):
        assert _bad(Field(value).integer)[2] == "a whole number"
    assert _bad(lambda: Field(2).integer(3))[2] == "a number of at least 3"
    assert _bad(lambda: Field(4).integer(0, 3))[2] == "a number of at most 3"


def test_field_number_takes_finite_numbers_alone() -> None:
    assert Field(1).number() == 1.0
    assert Field(0.25).number() == 0.25
    for value in (True, "1", None, math.nan, math.inf, -math.inf, [1]):
        assert _bad(Field(value).number)[2] == "a finite number"


def test_field_number_refuses_a_whole_number_too_large_for_a_float() -> None:
    assert _bad(Field(10**400).number)[2] == "a finite number"


def test_field_span_is_half_open_inside_the_size() -> None:
    assert Field(None).span(0, 3, 3, "words") == Span(0, 3)


@pytest.mark.parametrize(("start", "end"), [(True, 2), (0, True), (0.0, 1), (0, "1"), (None, 1), (0, math.nan)])
def test_field_span_refuses_ends_that_are_no_whole_numbers(start: object, end: object) -> None:
    field = Field({"e": [start, end]}).need("e")
    place, found, expected = _bad(lambda: field.span(start, end, 5, "words"))
    assert (place, expected) == ("e", "whole numbers for start and end, in words")
    assert found == show([start, end])


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1), (0, 6), (5, 6), (-2, -1), (0, 10**3000)])
def test_field_span_refuses_ends_out_of_range(start: int, end: int) -> None:
    found, expected = _bad(lambda: Field([start, end]).span(start, end, 5, "characters"))[1:]
    assert expected == "0 <= start < end <= 5, in characters"
    assert found == show([start, end])


def test_read_bytes_takes_off_the_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(codecs.BOM_UTF8 + b"x")
    assert read_bytes(path, Problems()) == b"x"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_read_text_of_utf_16_is_a_problem_that_names_the_cure(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeff[]".encode(encoding))
    problems = Problems()
    assert read_text(path, problems) is None
    (problem,) = problems.kept
    assert (problem.path, problem.found) == (str(path), "a UTF-16 file")
    assert "iconv -f UTF-16 -t UTF-8" in problem.expected


def test_read_text_keeps_line_ends_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(codecs.BOM_UTF8 + b"a\r\nb\rc\n")
    assert read_text(path, Problems()) == "a\r\nb\rc\n"


def test_read_text_names_the_byte_and_the_line_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a\nb\nc\xe9d\n")
    problems = Problems()
    assert read_text(path, problems) is None
    assert problems.kept == [Problem(str(path), "the byte 0xE9, which is not UTF-8", "a UTF-8 file", 3)]


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", "nul", "01", "'a'", '"\n"', "1 2", "{'a': 1}", "\x00"])
def test_parse_json_of_what_is_no_json_is_bad(text: str) -> None:
    assert _bad(lambda: parse_json(text))[2] == "valid JSON"


def test_parse_json_names_the_column_from_1() -> None:
    assert _bad(lambda: parse_json('{"a" 1}'))[1] == "Expecting ':' delimiter at column 6"


def test_parse_json_refuses_what_is_nested_too_deeply() -> None:
    for opening in ("[", '{"a":'):
        assert _bad(lambda text=opening * 100_000: parse_json(text))[1] == "values nested too deeply"  # type: ignore[misc]


def test_parse_json_refuses_a_whole_number_of_too_many_digits() -> None:
    found, expected = _bad(lambda: parse_json("9" * 5000))[1:]
    assert expected == "valid JSON"
    assert "4300 digits" in found
    assert "sys." not in found, "no advice for programmers"


@given(st.text(max_size=50))
def test_parse_json_of_any_text_parses_or_is_bad(text: str) -> None:
    with suppress(BadRecord):
        parse_json(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"x": {}, "a": [], "a": null}}]', '{"a":1,"\\u0061":2}'])
def test_parse_json_refuses_a_key_that_stands_twice(text: str) -> None:
    expected = "every key once: only one of its values could be read"
    assert _bad(lambda: parse_json(text)) == (None, 'the key "a" twice in one object', expected)


@pytest.mark.parametrize(("reader", "content"), [(json_lines, "%s\n%s\n%s\n"), (json_array, "[%s,\n%s,\n%s]")])
def test_record_with_a_key_twice_is_a_problem_and_the_others_are_read(
    tmp_path: Path, reader: Reader, content: str
) -> None:
    content %= '{"a": 1}', '{"a": 2, "e": [{"s": 1, "s": 2}]}', '{"a": 3}'
    records, (problem,) = _read(reader, tmp_path / "a", content.encode())
    assert [record.value for record in records] == [{"a": 1}, {"a": 3}]
    assert (problem.found, problem.line, problem.record) == ('the key "s" twice in one object', 2, 2)
    assert first_record(tmp_path / "a") == {"a": 1}


def test_broken_line_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    records, problems = _read(json_lines, tmp_path / "a", b'{"b": {"a": 1, "a": 2}, \n{"a": 3}\n')
    assert [record.value for record in records] == [{"a": 3}]
    assert len(problems) == 1


@pytest.mark.parametrize("byte", [b"\xff", b"\xe9", b"\xed\xa0\x80", b"\xc0\x80"])
def test_json_lines_names_the_byte_that_is_not_utf_8(tmp_path: Path, byte: bytes) -> None:
    path = tmp_path / "a"
    records, problems = _read(json_lines, path, b'1\n"ab' + byte + b'c"\n3\n')
    assert [record.value for record in records] == [1, 3]
    assert problems == [
        Problem(str(path), "a byte that is not UTF-8 at byte 3 of the line", "UTF-8 text, one record a line", 2, 2)
    ]


def test_json_lines_numbers_lines_and_records_from_1_and_passes_over_blank_ones(tmp_path: Path) -> None:
    records, problems = _read(json_lines, tmp_path / "a", b'{"a":1}\n\n  \t\n[2]\n3')
    assert records == [Record({"a": 1}, 1, 1), Record([2], 4, 2), Record(3, 5, 3)]
    assert problems == []


@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_json_lines_reads_with_and_without_byte_order_mark_and_carriage_returns(
    tmp_path: Path, start: bytes, end: bytes
) -> None:
    records, problems = _read(json_lines, tmp_path / "a", start + b'{"a":1}' + end + end + b'{"a":2}' + end)
    assert [(record.value, record.line) for record in records] == [({"a": 1}, 1), ({"a": 2}, 3)]
    assert problems == []


@pytest.mark.parametrize("content", [b"", b"\n\n", codecs.BOM_UTF8, codecs.BOM_UTF8 + b"\n"])
def test_json_lines_of_an_empty_file_are_none(tmp_path: Path, content: bytes) -> None:
    assert _read(json_lines, tmp_path / "a", content) == ([], [])


def test_json_lines_reports_every_broken_line_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a"
    content = b'{"a":1}\n{"a":\n\n{"b":\xff}\n' + b"[" * 100_000 + b"\n" + b"1" * 5000 + b'\n{"a":2}\n'
    records, problems = _read(json_lines, path, content)
    assert [(record.value, record.line, record.number) for record in records] == [({"a": 1}, 1, 1), ({"a": 2}, 7, 6)]
    assert [(p.path, p.line, p.record) for p in problems] == [
        (str(path), line, line - (line > 2)) for line in (2, 4, 5, 6)
    ]
    assert [p.found.split(" at ")[0] for p in problems[:3]] == [
        "Expecting value",
        "a byte that is not UTF-8",
        "values nested too deeply",
    ]
    assert all(problem.expected.endswith(", one record a line") for problem in problems)


def test_json_lines_of_utf_16_is_one_problem(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        records, problems = _read(json_lines, tmp_path / "a", '\ufeff{"a": 1}\n{"a": 2}\n'.encode(encoding))
        assert records == []
        assert [problem.found for problem in problems] == ["a UTF-16 file"]


def test_json_lines_split_at_newlines_alone(tmp_path: Path) -> None:
    content = '{"a": "x\u2028y\x85z"}\n{"a": 2}\n'.encode()
    records, problems = _read(json_lines, tmp_path / "a", content)
    assert [record.line for record in records] == [1, 2]
    assert records[0].value == {"a": "x\u2028y\x85z"}
    assert problems == []


def test_json_lines_reads_a_line_of_a_megabyte_and_reports_a_broken_one_briefly(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    records, problems = _read(
        json_lines, tmp_path / "a", json.dumps({"a": text}).encode() + b'\n{"a": "' + text.encode()
    )
    assert [record.value for record in records] == [{"a": text}]
    (problem,) = problems
    assert problem.line == 2
    assert len(str(problem)) < 500


def test_json_lines_streams(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1\n2\n{")
    problems = Problems()
    lines = json_lines(path, problems)
    assert next(lines).value == 1
    assert next(lines).value == 2
    assert problems.count == 0
    assert next(lines, None) is None
    assert problems.count == 1


def test_json_array_gives_each_element_with_the_line_on_which_it_starts(tmp_path: Path) -> None:
    content = b'\n [ {"a":\n 1},\r\n\r\n {"a": 2} , 3\n]\n\n'
    records, problems = _read(json_array, tmp_path / "a", content)
    assert records == [Record({"a": 1}, 2, 1), Record({"a": 2}, 5, 2), Record(3, 5, 3)]
    assert problems == []


@pytest.mark.parametrize("content", [b"[]", b" [ ] \n", codecs.BOM_UTF8 + b"[]"])
def test_json_array_may_be_empty(tmp_path: Path, content: bytes) -> None:
    assert _read(json_array, tmp_path / "a", content) == ([], [])


@pytest.mark.parametrize(
    ("content", "line", "record", "found"),
    [
        (b"", 1, None, "an empty file"),
        (b"\n\n", 3, None, "an empty file"),
        (b'\n{"a": 1}', 2, None, show('{"a": 1}')),
        (b"[", 1, 1, "Expecting value at column 2"),
        (b"[1,\n", 2, 2, "Expecting value at column 1"),
        (b"[1,\n2", 2, 2, "the end of the file"),
        (b"[1,\n2\n", 3, 2, "the end of the file"),
        (b"[1,\n]", 2, 2, "Expecting value at column 1"),
        (b"[1\n 2]", 2, 1, show("2]")),
        (b"[1,\n {'a': 2}]", 2, 2, "Expecting property name enclosed in double quotes at column 3"),
        (b'[1,\n {"a":\n}]', 3, 2, "Expecting value at column 1"),
        (b"[1]\n\nmore", 3, 1, '"more"'),
        (b"[1][2]", 1, 1, '"[2]"'),
    ],
)
def test_json_array_names_the_place_where_it_breaks(
    tmp_path: Path, content: bytes, line: int, record: int | None, found: str
) -> None:
    path = tmp_path / "a"
    (problem,) = _read(json_array, path, content)[1]
    assert (problem.path, problem.line, problem.record, problem.found) == (str(path), line, record, found)


def test_json_array_reads_what_stands_before_the_break(tmp_path: Path) -> None:
    records, problems = _read(json_array, tmp_path / "a", b'[{"a": 1}, {"a": 2}, {"a": ')
    assert [record.value for record in records] == [{"a": 1}, {"a": 2}]
    (problem,) = problems
    assert "nothing after this place was read" in problem.expected


@pytest.mark.parametrize("broken", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000])
def test_json_array_says_that_it_stopped_at_deep_nesting_and_huge_numbers(tmp_path: Path, broken: bytes) -> None:
    records, problems = _read(json_array, tmp_path / "a", b"[1,\n" + broken + b",\n3]")
    assert [record.value for record in records] == [1]
    (problem,) = problems
    assert (problem.line, problem.record) == (2, 2)
    assert "nothing after this place was read" in problem.expected


def test_json_array_that_is_not_utf_8_is_a_problem_with_its_line(tmp_path: Path) -> None:
    records, problems = _read(json_array, tmp_path / "a", b'[{"a": 1},\n{"a": "\xff"}]')
    assert records == []
    assert [(problem.line, problem.found) for problem in problems] == [(2, "the byte 0xFF, which is not UTF-8")]


@given(st.lists(st.integers() | st.text() | st.lists(st.integers())), st.sampled_from([None, 1]))
def test_json_array_reads_what_json_writes(scratch: Path, values: list[object], indent: int | None) -> None:
    content = json.dumps(values, indent=indent).encode()
    records, problems = _read(json_array, scratch / "array", content)
    assert [record.value for record in records] == values
    assert [record.number for record in records] == list(range(1, len(values) + 1))
    assert problems == []


@settings(max_examples=200)
@given(data=st.data())
def test_json_array_and_lines_survive_any_damage(scratch: Path, data: st.DataObject) -> None:
    whole = b'[{"a": [1, "x\\u00e9"]},\n {"b": null}, {"c": 1e3}]\n'
    content = bytearray(whole[: data.draw(st.integers(0, len(whole)), "length")])
    for place in data.draw(
        st.lists(st.integers(0, len(content) - 1), max_size=3) if content else st.just([]), "places"
    ):
        content[place] = data.draw(st.integers(0, 255))
    for reader in (json_array, json_lines, json_records):
        records, problems = _read(reader, scratch / "damaged", bytes(content))
        places = [record.line for record in records] + [problem.line or 1 for problem in problems]
        assert all(1 <= line <= content.count(b"\n") + 1 for line in places)


@pytest.mark.parametrize("content", [b'[{"a": 1}, {"a": 2}]', b' \n[\n{"a": 1},\n{"a": 2}]', b'{"a": 1}\n{"a": 2}'])
@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
def test_json_records_reads_an_array_or_lines(tmp_path: Path, content: bytes, start: bytes) -> None:
    records, problems = _read(json_records, tmp_path / "a", start + content)
    assert [record.value for record in records] == [{"a": 1}, {"a": 2}]
    assert problems == []


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"", None),
        (b"\n\n", None),
        (b"[]", None),
        (b"nonsense\nmore", None),
        (b'{"a": 1}\n{"a": 2}', {"a": 1}),
        (b'\n\nnonsense\n{"a": 2}', {"a": 2}),
        (codecs.BOM_UTF8 + b'{"a": 1}', {"a": 1}),
        (codecs.BOM_UTF8 + b' [{"a": 1}, broken', {"a": 1}),
        (b"[" * 100_000, None),
    ],
)
def test_first_record_is_the_first_that_can_be_read(tmp_path: Path, content: bytes, value: object) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert first_record(path) == value


def test_first_record_sees_that_a_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"a": 1}')
    assert first_record(path) == {"a": 1}
    path.write_bytes(b'{"a": 22}')
    assert first_record(path) == {"a": 22}


def test_seen_ids_gives_the_line_of_the_first_use() -> None:
    seen = SeenIds()
    assert seen.add("a", 3) is None
    assert seen.add("b", 4) is None
    assert seen.add("a", 5) == 3
    assert seen.add("a", 6) == 3
    assert seen.add("A", 7) is None, "upper and lower case differ"
    seen.close()


class FewInMemory(SeenIds):
    _IN_MEMORY = 2


@pytest.mark.parametrize("kind", [SeenIds, FewInMemory])
@given(names=st.lists(st.text(max_size=3)))
def test_seen_ids_agrees_with_a_dictionary(kind: type[SeenIds], names: list[str]) -> None:
    seen, known = kind(), dict[str, int]()
    for line, name in enumerate(names, 1):
        assert seen.add(name, line) == known.get(name)
        known.setdefault(name, line)
    seen.close()


@pytest.mark.parametrize("kind", [SeenIds, FewInMemory])
def test_seen_ids_tells_apart_ids_with_a_nul_character(kind: type[SeenIds]) -> None:
    seen = kind()
    assert seen.add("a\0b", 1) is None
    assert seen.add("a\0c", 2) is None
    assert seen.add("a", 3) is None
    assert seen.add("a\0b", 4) == 1
    seen.close()


def test_seen_ids_holds_many() -> None:
    seen = SeenIds()
    assert all(seen.add(f"document-{number}", number) is None for number in range(150_000))
    for number in (0, 99_999, 100_000, 149_999):
        assert seen.add(f"document-{number}", 1) == number
    seen.close()


def _parse(record: Field, default_id: str) -> Document:
    name, other = record.get("id"), record.get("other")
    metadata = {"other": other.value} if other else {}
    return Document(name.name() if name else default_id, record.need("text").text(), metadata=metadata)


def _documents(path: Path, content: str) -> tuple[list[Document], list[Problem]]:
    path.write_text(content, encoding="utf-8")
    problems = Problems()
    return list(read_records(path, json_lines(path, problems), _parse, problems)), problems.kept


def test_read_records_names_records_without_an_id_after_the_file(tmp_path: Path) -> None:
    documents, problems = _documents(
        tmp_path / "train.jsonl", '{"text": "a"}\n\n{"text": "b"}\n{"id": 7, "text": "c"}\n'
    )
    assert [document.id for document in documents] == ["train-1", "train-2", "7"]
    assert problems == []


def test_read_records_reports_every_bad_record_with_its_place_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    content = '{"text": "a"}\n5\n\n{"text": 6}\nbroken\n{}\n{"text": "b"}\n'
    documents, problems = _documents(path, content)
    assert [document.text for document in documents] == ["a", "b"]
    # Broken JSON is found by the reader of lines, the rest here: all in the order of the file.
    assert problems == [
        Problem(str(path), "5", "an object", 2, 2),
        Problem(str(path), "6", "a string", 4, 3, "text"),
        Problem(str(path), "Expecting value at column 1", "valid JSON, one record a line", 5, 4),
        Problem(str(path), "only no keys", "the key 'text'", 6, 5),
    ]


def test_read_records_reports_every_repeated_id_with_the_line_of_the_first(tmp_path: Path) -> None:
    content = '{"id": "a", "text": "x"}\n{"id": "b", "text": "x"}\n{"id": "a", "text": "y"}\n{"id": "a", "text": "z"}\n'
    documents, problems = _documents(tmp_path / "train.jsonl", content)
    assert [document.text for document in documents] == ["x", "x"]
    assert [(problem.line, problem.record, problem.found) for problem in problems] == [
        (3, 3, 'the id "a" again (first on line 1)'),
        (4, 4, 'the id "a" again (first on line 1)'),
    ]


@pytest.mark.parametrize(
    "value",
    [
        r'"\ud800"',
        b'"\xed\xa0\x80"',
        r'{"\udfff": 1}',
        "NaN",
        "-Infinity",
        "1e400",
        pytest.param("1" * 250 + "e99", id="large with an exponent"),
        pytest.param("1" * 400 + ".0", id="large without one"),
        "[" * 700 + "NaN" + "]" * 700,
        '{"a":' * 700 + r'"\ud800"' + "}" * 700,
    ],
)
def test_read_records_refuses_what_could_not_be_written_again(tmp_path: Path, value: str | bytes) -> None:
    path = tmp_path / "a.jsonl"
    other = value.encode() if isinstance(value, str) else value
    path.write_bytes(b'{"text": "a", "other": ' + other + b'}\n{"text": "b"}\n')
    problems = Problems()
    documents = list(read_records(path, json_lines(path, problems), _parse, problems))
    assert [document.text for document in documents] == ["b"]
    (problem,) = problems.kept
    assert problem.line == 1
    assert len(str(problem)) < 2000


def test_read_records_takes_a_number_and_its_digits_for_one_id(tmp_path: Path) -> None:
    assert len(_documents(tmp_path / "a.jsonl", '{"id": 1, "text": "x"}\n{"id": "1", "text": "y"}\n')[1]) == 1


def test_read_records_reads_a_file_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl"))
    try:
        path.write_text('{"text": "a"}\n', encoding="utf-8")
    except OSError:
        pytest.skip("this file system wants names in UTF-8")
    problems = Problems()
    (document,) = read_records(path, json_lines(path, problems), _parse, problems)
    document.id.encode()
    assert problems.count == 0
