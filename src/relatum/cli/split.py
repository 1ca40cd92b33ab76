"""`relatum split`: train, dev and test parts, or folds, from one corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatum.cli.options import DataFormat


def split(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file or folder; its parts are taken together.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder to write; NAME-split if not given.")
    ] = None,
    folds: Annotated[int | None, typer.Option(metavar="K", help="Make K folds for cross-validation.")] = None,
    dev: Annotated[
        float, typer.Option(help="Share held out for development: of the whole, or of a fold's rest.")
    ] = 0.15,
    test: Annotated[
        float | None, typer.Option(help="Share held out for the test, without --folds; 0.2 if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same parts.")] = 0,
    lists: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="Given parts: JSON lists of record numbers or ids, or a folder of lists of ids."
        ),
    ] = None,
    lists_only: Annotated[bool, typer.Option("--lists-only", help="Write folds.json without the data.")] = False,
    from_: DataFormat = None,
) -> None:
    """Divide annotated data. Documents with equal texts stay together; what is written is relatum JSONL.

    DIR gets train.jsonl, dev.jsonl and test.jsonl (in fold-1, fold-2, … where there are several folds) and folds.json,
    the record numbers, counted from 0, of every part.
    """
    import json

    from relatum.cli.console import say, warn_about
    from relatum.data import partition
    from relatum.data.atomic import new_folder
    from relatum.data.corpus import open_corpus
    from relatum.data.formats import get_format
    from relatum.data.problems import Problems

    if folds is not None and test is not None:
        raise typer.BadParameter("with --folds the test parts are the folds; leave --test out")
    if lists is not None and (folds is not None or test is not None):
        raise typer.BadParameter("with --lists the parts are given; leave --folds and --test out")
    problems = Problems()
    corpus = open_corpus(data, from_)
    for name, reason in corpus.skipped:
        say(f"skipped {name}: {reason}")
    documents = [document for part in corpus.parts for document in part.read(problems)]
    problems.raise_if_any("Nothing was written. Mend these records, or convert with --on-error skip first.")
    texts = [document.text for document in documents]
    if lists is not None:
        made = partition.load_lists(lists, documents)
        partition.remark_on_lists(made, documents, problems, str(lists))
    elif folds is not None:
        made = partition.make_folds(texts, folds, dev, seed)
    else:
        made = [partition.divide(texts, dev, 0.2 if test is None else test, seed)]
    target = out or Path(f"{data.resolve().stem}-split")
    jsonl = get_format("jsonl")
    with new_folder(target) as folder:
        content = json.dumps([fold.parts() for fold in made])
        (folder / "folds.json").write_text(content + "\n", encoding="utf-8")
        for number, fold in enumerate(made, 1):
            place = folder / f"fold-{number}" if len(made) > 1 else folder
            sizes = []
            for name, members in fold.parts().items():
                sizes.append(f"{name} {len(members):,}")
                if not lists_only:
                    place.mkdir(exist_ok=True)
                    where = f"{target}/{place.name}/{name}" if len(made) > 1 else f"{target}/{name}"
                    jsonl.write(place / f"{name}.jsonl", partition.pick(documents, members, problems, where))
            print(f"fold {number}: " + ", ".join(sizes) if len(made) > 1 else ", ".join(sizes))
    warn_about(problems)
    say(f"wrote {target}")
