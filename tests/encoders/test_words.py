from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import torch

from relatum.encoders.words import read_word_vectors
from relatum.errors import SHOWN, DataError

_LINES = "the 0.5 -1.25 3e-2\n, 1 2 3\nThe 4 5 6\n"


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_word_vectors_are_those_of_the_file_in_its_order(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", _LINES))
    assert read.words == ("the", ",", "The")
    assert torch.equal(read.vectors, torch.tensor([[0.5, -1.25, 0.03], [1, 2, 3], [4, 5, 6]]))
    assert read.vectors.dtype == torch.float32
    assert read.width == 3


def test_word_vectors_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(_LINES.encode()))
    assert read_word_vectors(path).words == ("the", ",", "The")


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
def test_word_vectors_without_line_ends_do_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    content = _LINES.encode() + b"0 " * 2**20
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(DataError, match=f"{name}:4: found a line of 262,144 bytes or more"):
        read_word_vectors(tmp_path / name)


@pytest.mark.parametrize("device", [False, True], ids=["pipe", "device"])
def test_word_vectors_that_never_end_are_an_error(tmp_path: Path, device: bool) -> None:
    path = tmp_path / "v.txt"
    path.symlink_to("/dev/zero") if device else os.mkfifo(path)
    with pytest.raises(DataError, match=r"v\.txt: found a pipe, a device or a socket, expected a file"):
        read_word_vectors(path)


def test_word_vectors_cut_short_in_compression_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(_LINES.encode())[:-12])
    with pytest.raises(DataError, match=r"v\.txt\.gz: found a file that cannot be read"):
        read_word_vectors(path)


def test_word_vectors_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No such file"):
        read_word_vectors(tmp_path / "v.txt")


def test_word_vectors_skip_a_header(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", "2 3\nthe 1 2 3 \na 4 5 6 \r\n"))
    assert read.words == ("the", "a")
    assert read.vectors.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_word_vectors_of_width_one_are_not_taken_for_a_header(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", "7 3\n8 4\n9 5\n"))
    assert read.words == ("7", "8", "9")
    assert read.vectors.tolist() == [[3], [4], [5]]


def test_word_vectors_keep_the_first_of_a_word_that_is_there_twice(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", "a 1 2\nb 3 4\na 5 6\n"))
    assert read.words == ("a", "b")
    assert read.vectors.tolist() == [[1, 2], [3, 4]]


def test_word_vectors_of_other_words_are_left_out(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", _LINES), only={"The", "missing"})
    assert read.words == ("The",)
    assert read.vectors.tolist() == [[4, 5, 6]]
    assert read_word_vectors(tmp_path / "v.txt", only=()).vectors.shape == (0, 3)


def test_word_vectors_take_words_with_spaces_of_any_kind(tmp_path: Path) -> None:
    read = read_word_vectors(_write(tmp_path / "v.txt", "a 1 2\n. . . 3 4\n\u00a0 5 6\n\u2028 7 8\n"))
    assert read.words == ("a", ". . .", "\u00a0", "\u2028")
    assert read.vectors.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_word_vectors_in_many_chunks_agree_with_a_plain_reading(tmp_path: Path) -> None:
    rows = torch.randn(5000, 4, generator=torch.Generator().manual_seed(1)).tolist()
    lines = [f"w{i} " + " ".join(f"{x:.5f}" for x in row) for i, row in enumerate(rows)]
    read = read_word_vectors(_write(tmp_path / "v.txt", "\n".join(lines)))
    assert len(read.words) == 5000
    assert torch.equal(read.vectors, torch.tensor([[float(x) for x in line.split()[1:]] for line in lines]))


def test_word_vectors_report_every_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"a 1 2\nb 1\n\nc 1 x\nd 1 nan\n\xff\xfe 1 2\ne 1 2-3\nf 1  2\ng 1e99 2\nh 3 4\nI  3-4\n")
    with pytest.raises(DataError) as caught:
        read_word_vectors(path)
    problems = {problem.line: problem for problem in caught.value.problems}
    assert sorted(line or 0 for line in problems) == [2, 3, 4, 5, 6, 7, 8, 9, 11]
    assert str(problems[2]) == f"{path}:2: found 2 parts; expected a word and 2 numbers, separated by single spaces"
    assert problems[3].found == "an empty line"
    assert (problems[4].found, problems[4].expected) == ("'x'", "a finite number")
    assert problems[6].expected == "a word in UTF-8"
    assert problems[7].found == "'2-3'"


def test_word_vectors_report_a_bounded_number_of_bad_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="… and 500 more bad lines") as caught:
        read_word_vectors(_write(tmp_path / "v.txt", "a 1 2\n" + "b 1\n" * (SHOWN + 500)))
    assert len(caught.value.problems) == SHOWN


@pytest.mark.parametrize("text", ["", "word\n", "\n", "one\ttwo\n"])
def test_word_vectors_without_any_are_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"v\.txt:1"):
        read_word_vectors(_write(tmp_path / "v.txt", text))
