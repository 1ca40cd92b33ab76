"""The selection of the rows of a table to make, with their corpus and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relatum.config import load_config
from relatum.errors import ConfigError, RelatumError
from relatum.lab.tables.configs import PRESET, config_file
from relatum.lab.tables.corpora import CORPORA, CorpusPath, CorpusPaths, TableCorpus, name_corpus
from relatum.lab.tables.paper import TABLES, WITH_MAPS, WITHOUT_MAPS
from relatum.lab.tables.settings import (
    Settings,
    make_settings,
    missing_word_vectors,
    override,
    user_overrides,
)
from relatum.lab.tables.table import Row, Table

DEFAULT_CORPUS = "conll04"
"""The corpus for tables whose published corpus is licensed, unless the user names another corpus."""


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request for a table."""

    table: int
    corpora: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    n_runs: int = 5
    n_folds: int | None = None
    """The number of folds to run on corpora that have folds; None for all of them."""
    with_test: bool = True
    steps: int | None = None
    overrides: tuple[str, ...] = ()
    paths: CorpusPaths = field(default_factory=CorpusPaths)
    dry_run: bool = False
    """True if rows are only listed, so that word vectors may be missing."""

    @property
    def part(self) -> str:
        """The part whose scores are shown."""
        return "test" if self.with_test else "dev"


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """A row to show: with settings and data if it can be run, else with what it needs; a quoted row has neither."""

    row: Row
    corpus: TableCorpus
    settings: Settings | None
    data: CorpusPath | None
    needs: str | None = None


def find_table(number: int) -> Table:
    if number not in TABLES:
        raise RelatumError(f"there is no Table {number} to make; expected one of {', '.join(map(str, TABLES))}")
    return TABLES[number]


def find_missing_words(request: Request) -> str | None:
    """Return a message on how to get the word vectors that the rows need; None if they are there."""
    return missing_word_vectors(request.overrides, request.paths, load_config(config_file(PRESET)))


def share_rows(requests: Sequence[Request]) -> list[Request]:
    """Limit each request to the named rows that its table has; leave out tables that have none of the named rows."""
    if len(requests) < 2 or not any(request.rows for request in requests):
        return list(requests)
    keys = {request.table: runnable_keys(request) for request in requests}
    for name in dict.fromkeys(name for request in requests for name in request.rows):
        if not any(name in known for known in keys.values()):
            tables = "; ".join(f"Table {number} has {', '.join(known)}" for number, known in keys.items())
            raise RelatumError(f"--row {name}: none of the tables has such a row. {tables}")
    shared = []
    for request in requests:
        known = keys[request.table]
        rows = tuple(name for name in request.rows if name in known)
        if rows:
            shared.append(replace(request, rows=rows))
    return shared


def runnable_keys(request: Request) -> list[str]:
    """Return the keys of the rows that can be run, whichever rows the request names."""
    table = find_table(request.table)
    corpora = {name: name_corpus(name) for name in request.corpora}
    rows = _rows(table, replace(request, rows=()), corpora)
    return [row.key for row in rows if row.configs is not None]


def select_rows(request: Request) -> list[SelectedRow]:
    """Select the rows, each with its settings; raise an error if the settings are right for none of the rows."""
    table = find_table(request.table)
    corpora = {name: name_corpus(name) for name in request.corpora}
    if not table.several_corpora and len(corpora) > 1:
        raise RelatumError(f"Table {table.number} is made on one corpus at a time; give --corpus once")
    if not table.names_encoders and len(request.encoders) > 1:
        raise RelatumError(f"Table {table.number} is made with one encoder at a time; give --encoder once")
    rows = _rows(table, request, corpora)
    encoder = None if table.names_encoders else next(iter(request.encoders), None)
    preset = load_config(config_file(PRESET))
    runnable = any(row.configs is not None for row in rows)
    given = list(request.overrides)
    if runnable:  # quoted rows alone need no word vectors
        given = user_overrides(
            request.steps, encoder, request.overrides, request.paths, preset, need_words=not request.dry_run
        )
    selected: list[SelectedRow] = []
    wrong: list[ConfigError] = []
    for row in rows:
        corpus = CORPORA[row.corpus] if row.corpus else next(iter(corpora.values()), CORPORA[DEFAULT_CORPUS])
        if row.configs is None:
            selected.append(SelectedRow(row, corpus, None, None))
            continue
        try:
            settings = make_settings(row, corpus, given)
        except ConfigError as error:
            wrong.append(error)
            selected.append(SelectedRow(row, corpus, None, None, str(error)))
            continue
        data = request.paths.locate(corpus, alone=len(corpora) == 1 or not table.several_corpora)
        selected.append(SelectedRow(row, corpus, settings, data, None if data else request.paths.needed(corpus)))
    if wrong and all(selected_row.settings is None for selected_row in selected):
        raise wrong[0]
    return selected


def _rows(table: Table, request: Request, corpora: dict[str, TableCorpus]) -> Sequence[Row]:
    """Return the rows that were asked for, in the order of the table."""
    rows = list(table.rows)
    if table.several_corpora and corpora:
        known = {row.corpus for row in rows}
        unknown = [name for name in corpora if name not in known]
        if unknown:
            raise RelatumError(
                f"--corpus {unknown[0]}: Table {table.number} has {', '.join(sorted(name for name in known if name))}"
            )
        rows = [row for row in rows if row.corpus in corpora]
    if table.names_encoders and request.encoders:
        rows = [row for encoder in request.encoders for row in _encoder_rows(table, encoder)]
        rows.sort(key=lambda row: (WITHOUT_MAPS, WITH_MAPS).index(row.section))
    if not request.rows:
        return rows
    keys = [row.key for row in rows if row.configs is not None]
    for name in request.rows:
        if name not in keys:
            raise RelatumError(f"--row {name}: Table {table.number} has the rows {', '.join(keys)}")
    return [row for row in rows if row.configs is not None and row.key in request.rows]


def _encoder_rows(table: Table, encoder: str) -> list[Row]:
    """Return the rows of one encoder: the rows that the table has for this encoder, or else new rows."""
    known = [row for row in table.rows if row.configs is not None and _encoder_of(row) == encoder]
    if known:
        return known
    new = Row(
        encoder, (), {column.key: None for column in table.columns}, settings=(override("encoder.name", encoder),)
    )
    return [
        replace(new, configs=("ablations/without-attention-maps",), section=WITHOUT_MAPS),
        replace(new, section=WITH_MAPS),
    ]


def _encoder_of(row: Row) -> str:
    return make_settings(row, CORPORA[DEFAULT_CORPUS], ()).config.encoder.name
