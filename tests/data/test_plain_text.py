from __future__ import annotations

import gzip
import lzma
from pathlib import Path

from relatum.data.plain_text import read_lines


def test_read_lines_opens_folders_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone\ntwo\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("not read\n")
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("three\n")
    with lzma.open(tmp_path / "c.xz", "wt") as file:
        file.write("four\n")
    paths = [tmp_path, tmp_path / "b.gz", tmp_path / "c.xz"]
    assert [line.strip() for line in read_lines(paths)] == ["one", "two", "three", "four"]
