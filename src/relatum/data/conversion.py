"""Converting a corpus from one format to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from relatum.config import Config, change_section
from relatum.data.atomic import new_folder, replacing_file
from relatum.data.corpus import Corpus, Part, open_corpus
from relatum.data.fitting import Crossing, Overlaps, Policy, fit_documents
from relatum.data.formats import FORMATS, Format, get_format
from relatum.data.problems import SKIP_CURE, Problems
from relatum.data.splitting import Splitter, make_splitter
from relatum.errors import FormatError, RelatumError
from relatum.monitor import Monitor, as_monitor
from relatum.schema import Schema, SchemaBuilder
from relatum.types import Document

Watch = Callable[[Iterable[Document], str], Iterable[Document]]
"""A function that passes documents on and watches them, given the name of their part: for progress bars."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A finished conversion."""

    documents: dict[str, int]
    """The number of documents written, by part."""
    written: tuple[Path, ...]
    """The files, or the folder, that were written."""
    from_format: str
    to_format: str
    skipped: tuple[tuple[str, str], ...]
    """The files of the source folder that were not read, each with the reason."""
    problems: Problems
    """The bad records that were left out, and remarks on everything that was changed."""


def convert(  # noqa: PLR0913 -- an argument for each option of the command
    source: str | Path,
    target: str | Path,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    on_error: Literal["fail", "skip"] | None = None,
    overlaps: Overlaps | None = None,
    crossing: Crossing | None = None,
    config: Config | None = None,
    monitor: Monitor | Callable[[str], object] | None = None,
) -> Conversion:
    """Convert annotated data to another format; the target appears whole or not at all.

    The source is a file, or a folder with one file or subfolder a part. Its format is guessed if none is named; the
    format to write follows from the suffix of the target if none is named.

    `on_error` says what becomes of bad records: "fail" writes nothing and raises `DataError` with all of them, "skip"
    leaves them out. `overlaps` ("fail", "drop", "keep-longest", "keep") is for nested, overlapping and discontinuous
    entities, which by default are kept where the target can hold them and else are bad records. `crossing` ("fail",
    "drop", "join") is for relations between sentences where the target holds single sentences. Without these arguments,
    the sections data and text of the settings in `config` decide.

    `monitor` hears messages: a function such as `print`, or a `relatum.monitor.Monitor`, whose `watch` can also count
    the documents.
    """
    settings = config or Config()
    data = change_section(settings.data, on_error=on_error, overlaps=overlaps, crossing=crossing)
    listener = as_monitor(monitor)
    path = Path(target)
    corpus = open_corpus(Path(source), from_format)
    format = target_format(path, to_format, many=len(corpus.parts) > 1)
    for line in corpus.skipped_lines():
        listener.say(line)
    listener.say(f"reading {corpus.path} as {corpus.format_names}, writing {path} as {format.name}")
    conversion = convert_corpus(
        corpus,
        path,
        format,
        make_splitter(settings.text.words, settings.text.sentences),
        Policy(data.overlaps, data.crossing, data.inside_words),
        data.on_error,
        listener.watch,
    )
    for line in conversion.problems.lines():
        listener.say(line)
    return conversion


def target_format(path: Path, name: str | None, many: bool) -> Format:
    """Return the format to write: the format named, our own for .jsonl, or the only format with the target's suffix."""
    if name:
        return get_format(name)
    if not many and path.suffix:
        if path.suffix == ".jsonl":
            return FORMATS["jsonl"]
        fitting = [format for format in FORMATS.values() if format.suffix == path.suffix]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            names = ", ".join(format.name for format in fitting)
            raise FormatError(f"{path}: {path.suffix} may be {names}; say which with --to")
    cure = "the source has several parts: name a folder, and" if many else "say"
    raise FormatError(f"{path}: {cure} which format to write with --to; there are {', '.join(FORMATS)}")


def convert_corpus(
    corpus: Corpus,
    target: Path,
    format: Format,
    splitter: Splitter,
    policy: Policy,
    on_error: Literal["fail", "skip"] = "fail",
    watch: Watch = lambda documents, _: documents,
) -> Conversion:
    """Write the corpus to `target`, whole or not at all.

    One file becomes one file (or one folder, where the format is one); a folder becomes a folder with one file or
    subfolder a part. With `on_error` "fail" any bad record raises `DataError` after all were seen; with "skip" the good
    ones are written, and it raises only where a part has none.
    """
    writer = _Writer(corpus, format, splitter, policy, on_error, watch)
    if writer.is_alone and format.suffix and (target.suffix or not corpus.path.is_dir()):
        written = writer.write_file(target)
    elif target.suffix and target.suffix == format.suffix and not target.is_dir():
        listed = ", ".join(part.name for part in corpus.parts)
        raise RelatumError(f"{target}: {corpus.path} has {len(corpus.parts)} parts ({listed}); name a folder to write")
    else:
        written = writer.write_folder(target)
    return Conversion(writer.counts, written, corpus.format_names, format.name, corpus.skipped, writer.problems)


def write_documents(
    documents: Sequence[Document], target: Path, format: Format, splitter: Splitter, schema: Schema
) -> Conversion:
    """Write documents in a format, with the labels of the schema beside them; whole or not at all."""
    part = Part(target.stem, target, replace(format, read=lambda _path, _problems: iter(documents)))
    make = format.companion
    if make is not None:  # with all labels of the schema, even those that no document has
        format = replace(format, companion=lambda _seen: make(schema))
    return convert_corpus(Corpus(target, (part,)), target, format, splitter, Policy())


@dataclass(slots=True)
class _Writer:
    """A writer of a corpus in one format, which counts documents and collects problems and labels on the way."""

    corpus: Corpus
    format: Format
    splitter: Splitter
    policy: Policy
    on_error: Literal["fail", "skip"]
    watch: Watch
    problems: Problems = field(default_factory=Problems)
    counts: dict[str, int] = field(default_factory=dict)
    _schema: SchemaBuilder = field(default_factory=SchemaBuilder)

    @property
    def is_alone(self) -> bool:
        """True if the corpus is a single part."""
        return len(self.corpus.parts) == 1

    def write_file(self, target: Path) -> tuple[Path, ...]:
        """Write the only part as one file, with its labels beside it; return the files."""
        with replacing_file(target) as draft:
            self._write_part(self.corpus.parts[0], draft)
            self._check()
            companion = self._companion()
            if companion is None:
                return (target,)
            name, content = companion
            labels = target.with_name(f"{target.stem}.{name}")
            with replacing_file(labels) as labels_draft:
                labels_draft.write_text(content, encoding="utf-8")
            return target, labels

    def write_folder(self, target: Path) -> tuple[Path, ...]:
        """Write every part, and the labels, into a new folder; return the folder."""
        with new_folder(target) as folder:
            for part in self.corpus.parts:
                self._write_part(part, self._part_path(part, folder))
            self._check()
            if companion := self._companion():
                self._write_labels(folder, *companion)
        return (target,)

    def _part_path(self, part: Part, folder: Path) -> Path:
        """Return the file or, made already, the folder to write a part to."""
        if self.format.suffix:
            return folder / f"{part.name}{self.format.suffix}"
        path = folder if self.is_alone else folder / part.name
        path.mkdir(exist_ok=True)
        return path

    def _write_part(self, part: Part, path: Path) -> None:
        self.counts[part.name] = 0
        n_bad = self.problems.n_records
        self.format.write(path, self._fitted(part))
        if self.on_error == "skip" and self.problems.n_records > n_bad and not self.counts[part.name]:
            outcome = f"Nothing was written: no document of {part.name} is left."
            self.problems.raise_if_any(replace(SKIP_CURE, outcome=outcome, skip=None))

    def _fitted(self, part: Part) -> Iterator[Document]:
        """Yield the documents of a part as the format can hold them."""
        read = self.watch(part.read(self.problems), part.name)
        where = str(part.path)
        for document in fit_documents(read, self.format, self.splitter, self.policy, self.problems, where):
            self._schema.add(document.annotation)
            self.counts[part.name] += 1
            yield document

    def _check(self) -> None:
        if self.on_error == "fail":
            self.problems.raise_if_any(SKIP_CURE)

    def _companion(self) -> tuple[str, str] | None:
        """Return the name and content of the file of labels that belongs to the format, if there is one."""
        make = self.format.companion
        return make(self._schema.build(self.corpus.schema)) if make else None

    def _write_labels(self, folder: Path, name: str, content: str) -> None:
        if (folder / name).exists():
            raise RelatumError(f"{self.corpus.path}: a part would be written to {name}, where the labels go; rename it")
        (folder / name).write_text(content, encoding="utf-8")
