"""The structure of a table of the paper: columns, and rows that name files of settings and published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from relatum.scores import Average

Numbers: TypeAlias = Mapping[str, float | None]
"""Published numbers by the key of their column, in per cent; None if there is no published number, only one of ours."""


@dataclass(frozen=True, slots=True)
class Column:
    """A measured quantity: the F1 of a task, or a count."""

    key: str
    title: str
    task: str | None
    """The task in the scores of a run; None for the number of parameters, which is in millions."""
    gold_entities: bool = False
    """True if relations are looked for between the gold entities."""


NER = Column("ner", "NER", "entities")
RE = Column("re", "RE", "relations")
RE_STRICT = Column("re_strict", "RE+", "relations_strict")
RE_GOLD = Column("re_gold", "RE (gold)", "relations", gold_entities=True)
PARAMETERS = Column("parameters", "parameters, M", None)
COLUMNS = {column.key: column for column in (NER, RE, RE_STRICT, RE_GOLD, PARAMETERS)}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its label, the settings that make it, and its published numbers.

    For a column that `published` does not have, the row has no number at all, published or ours.
    """

    label: str
    configs: tuple[str, ...] | None
    """Files of settings in the folder configs, such as `ablations/layers-1`, each over the files before it; empty for
    the paper's preset. None for a row that is quoted, and cannot be run."""
    published: Numbers
    section: str = ""
    corpus: str | None = None
    """The corpus of this row; None if the table leaves the corpus open."""
    settings: tuple[str, ...] = ()
    """Settings that override the files, as `--set` takes them."""
    average: Average = "micro"

    @property
    def key(self) -> str:
        """The short name of the row, which `--row` takes; quoted rows share a name."""
        parts = []
        if self.corpus is not None:
            parts.append(self.corpus)
        if self.configs is None:
            parts.append("quoted")
        elif not self.configs:
            parts.append("default")
        else:
            parts += [name.removeprefix("ablations/").replace("/", "-") for name in self.configs]
        if self.average == "macro":
            parts.append("macro")
        return "+".join(parts)


@dataclass(frozen=True, slots=True)
class Published:
    """The conditions of the published numbers: corpus, encoder, part and number of runs."""

    corpus: str
    encoder: str = "ALBERT-xxlarge-v1"
    part: str = "test"
    n_runs: int = 5

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper."""

    number: int
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    published: Published
    default: str | None = None
    """The key of the row that all others are compared with."""
    names_encoders: bool = False
    """True if the rows of the table differ in their encoders, rather than all having the same encoder."""
    notes: tuple[str, ...] = field(default=())

    @property
    def several_corpora(self) -> bool:
        """True if the rows of the table name their own corpora."""
        return any(row.corpus is not None for row in self.rows)
