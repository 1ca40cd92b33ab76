"""`relatum compare`: whether one run, or several, are better than others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.lab.comparison import ManyRuns

_TITLES = {"entities": "Entities", "relations": "RE", "relations_strict": "RE+"}


def compare(
    a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The folder of a complete run, or of several runs.")],
    b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another folder, with runs on the same data.")],
    part: Annotated[Literal["test", "dev"], typer.Option(help="The part to compare scores on.")] = "test",
    resamples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of resamples and swaps of sentences, for two single runs.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the resamples and swaps.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as described above.")] = False,
) -> None:
    """Compare the F1 of two runs, or of two folders of several runs, with a paired test.

    Two runs are compared sentence by sentence, by their stored predictions. The interval of the difference is a paired
    bootstrap, and p a two-sided approximate randomisation. This tells you if the two models differ on such sentences,
    not if other seeds would differ in the same way.

    The runs of two folders made by --runs or --folds are paired by seed and fold. p is two-sided, from all ways to
    swap the two runs of a pair (beyond 16 pairs, from a random sample). With several folds, the differences of a fold
    are first averaged over its seeds. If there are too few pairs for any p below 0.05, a message says so.

    --json prints {"a", "b", "kind", "part", …}. Kind "sentences" adds "sentences", "confidence", "resamples", "seed",
    and for each task "micro" and "macro" as in relatum score --help. Kind "runs" adds "unit" ("run" or "fold", what is
    tested), "pairs", "unpaired", and for each task "micro" and "macro", each with "a" and "b" ({"mean", "std", "n"}),
    "difference" (b minus a), its "std", "n", "p" and "smallest_p".
    """
    import json

    from relatum.cli.console import printable, results, say
    from relatum.lab.comparison import ManyRuns, compare_runs

    found = compare_runs(a, b, part, resamples, seed)
    if isinstance(found, ManyRuns):
        for path in found.unpaired:
            say(f"{path} is left out: there is no complete run with its seed and fold on the other side")
    if as_json:
        print(json.dumps({"a": str(a), "b": str(b), **found.to_dict()}, indent=2))
        return
    if isinstance(found, ManyRuns):
        _show_many(results(), found, printable(str(a)), printable(str(b)))
        return

    from relatum.cli.score_tables import show_comparison

    print(f"{part}, {found.n_sentences:,} sentences")
    names = printable(str(a)), printable(str(b))
    show_comparison(results(), found.comparison, *names, found.gold_entities, unit="sentences")


def _show_many(console: Console, found: ManyRuns, a: str, b: str) -> None:
    from rich import box
    from rich.table import Table

    from relatum.evaluation.paired import LEVEL

    given = ", gold entities given" if found.gold_entities else ""
    table = Table(title=f"F1 on {found.part}, {len(found.pairs)} pairs of runs{given}", box=box.SIMPLE_HEAD)
    table.title_justify, table.title_style = "left", "bold"
    for heading in ("", "average"):
        table.add_column(heading)
    for heading in ("A", "B", "B − A", "p"):
        table.add_column(heading, justify="right")
    for (task, average), test in found.tests.items():
        sides = (found.spread(side, task, average) for side in ("a", "b"))
        table.add_row(
            _TITLES[task] if average == "micro" else "",
            average,
            *(_with_std(f"{100 * side.mean:.2f}", side.std) for side in sides),
            _with_std(f"{100 * test.mean:+.2f}", test.std),
            f"{test.p:.4f}",
        )
    console.print(table)
    console.print(f"A: {a}\nB: {b}", soft_wrap=True)
    test = next(iter(found.tests.values()))
    what = "folds, each the mean over its seeds" if found.unit == "fold" else "pairs of runs"
    console.print(f"±: sample standard deviation. p: two-sided sign-flip test of {test.n} {what}.", soft_wrap=True)
    if not test.can_be_significant:
        console.print(
            f"{test.n} are too few for any difference to be significant at {LEVEL}: no p could be below "
            f"{test.smallest_p:.4g}. At least 6 are needed.",
            soft_wrap=True,
        )


def _with_std(mean: str, std: float | None) -> str:
    return mean if std is None else f"{mean} ± {100 * std:.2f}"
