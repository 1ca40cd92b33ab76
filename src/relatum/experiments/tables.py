"""What a table of the paper is: columns, and rows that name files of settings and published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Average: TypeAlias = Literal["micro", "macro"]
Numbers: TypeAlias = Mapping[str, float | None]
"""Published numbers by the key of their column, in per cent; None where a column has one of ours alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """What is measured: the F1 of a task, or a count."""

    key: str
    title: str
    task: str | None
    """The task in the scores of a run; None for the number of parameters, which is in millions."""
    gold_entities: bool = False
    """Whether relations are looked for between the gold entities."""


NER = Column("ner", "NER", "entities")
RE = Column("re", "RE", "relations")
RE_STRICT = Column("re_strict", "RE+", "relations_strict")
RE_GOLD = Column("re_gold", "RE (gold)", "relations", gold_entities=True)
PARAMETERS = Column("parameters", "parameters, M", None)
COLUMNS = {column.key: column for column in (NER, RE, RE_STRICT, RE_GOLD, PARAMETERS)}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is called, the settings that make it, and its published numbers.

    A column that `published` does not have is one that the row has no number for, published or ours.
    """

    label: str
    configs: tuple[str, ...] | None
    """Files of settings in the folder configs, such as `ablations/layers-1`, each over those before it; none is the
    paper's preset. None for a row that is quoted, and cannot be run."""
    published: Numbers
    section: str = ""
    corpus: str | None = None
    """The corpus of this row, where the table does not leave it open."""
    settings: tuple[str, ...] = ()
    """Settings over those of the files, as `--set` takes them."""
    average: Average = "micro"

    @property
    def key(self) -> str:
        """A short name, which `--row` takes; quoted rows share one."""
        configs = [name.removeprefix("ablations/").replace("/", "-") for name in self.configs or ()]
        corpus = [self.corpus] if self.corpus is not None else []
        average = ["macro"] if self.average == "macro" else []
        return "+".join([*corpus, *(configs or ["quoted" if self.configs is None else "default"]), *average])


@dataclass(frozen=True, slots=True)
class Published:
    """What the published numbers were measured on."""

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
    """Whether its rows differ in their encoders, rather than all having one."""
    notes: tuple[str, ...] = field(default=())

    @property
    def several_corpora(self) -> bool:
        """Whether its rows say themselves which corpus they are of."""
        return any(row.corpus is not None for row in self.rows)
