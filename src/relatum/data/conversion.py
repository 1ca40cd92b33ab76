"""Converting a corpus from one format to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from relatum.data.atomic import new_folder, replacing_file
from relatum.data.corpus import Corpus, Part
from relatum.data.fitting import Policy, fit_documents
from relatum.data.formats import FORMATS, Format, get_format
from relatum.data.problems import SKIP_CURE, Problems
from relatum.data.splitting import Splitter
from relatum.errors import FormatError, RelatumError
from relatum.schema import SchemaBuilder
from relatum.types import Document

Watch = Callable[[Iterable[Document], str], Iterable[Document]]
"""A function that passes documents on and watches them, given the name of their part: for progress bars."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion: documents by part, the files or the folder written, and all problems and remarks."""

    documents: dict[str, int]
    written: tuple[Path, ...]
    problems: Problems


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


def convert(
    corpus: Corpus,
    target: Path,
    format: Format,
    splitter: Splitter,
    policy: Policy,
    on_error: str = "fail",
    watch: Watch = lambda documents, _: documents,
) -> Converted:
    """Write the corpus to `target`, whole or not at all.

    One file becomes one file (or one folder, where the format is one); a folder becomes a folder with one file or
    subfolder a part. With `on_error` "fail" any bad record raises `DataError` after all were seen; with "skip" the good
    ones are written, and it raises only where a part has none.
    """
    problems = Problems()
    schema = SchemaBuilder()
    counts: dict[str, int] = {}

    def documents(part: Part) -> Iterator[Document]:
        read = watch(part.read(problems), part.name)
        for document in fit_documents(read, format, splitter, policy, problems, str(part.path)):
            schema.add(document.annotation)
            counts[part.name] += 1
            yield document

    def write(part: Part, path: Path) -> None:
        counts[part.name] = 0
        n_bad = problems.n_records
        format.write(path, documents(part))
        if on_error == "skip" and problems.n_records > n_bad and not counts[part.name]:
            outcome = f"Nothing was written: no document of {part.name} is left."
            problems.raise_if_any(replace(SKIP_CURE, outcome=outcome, skip=None))

    def check() -> None:
        if on_error == "fail":
            problems.raise_if_any(SKIP_CURE)

    alone = len(corpus.parts) == 1
    if alone and format.suffix and (target.suffix or not corpus.path.is_dir()):
        with replacing_file(target) as draft:
            write(corpus.parts[0], draft)
            check()
            written = [target]
            if format.companion:
                name, content = format.companion(schema.build(corpus.schema))
                written.append(target.with_name(f"{target.stem}.{name}"))
                with replacing_file(written[-1]) as labels:
                    labels.write_text(content, encoding="utf-8")
        return Converted(counts, tuple(written), problems)
    if target.suffix and target.suffix == format.suffix and not target.is_dir():
        listed = ", ".join(part.name for part in corpus.parts)
        raise RelatumError(f"{target}: {corpus.path} has {len(corpus.parts)} parts ({listed}); name a folder to write")
    with new_folder(target) as folder:
        for part in corpus.parts:
            path = folder if alone and not format.suffix else folder / f"{part.name}{format.suffix}"
            if not format.suffix:
                path.mkdir(exist_ok=True)
            write(part, path)
        check()
        if format.companion:
            name, content = format.companion(schema.build(corpus.schema))
            if (folder / name).exists():
                raise RelatumError(f"{corpus.path}: a part would be written to {name}, where the labels go; rename it")
            (folder / name).write_text(content, encoding="utf-8")
    return Converted(counts, (target,), problems)
