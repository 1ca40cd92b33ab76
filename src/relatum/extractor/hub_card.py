"""The card of a model on the hub: metadata in YAML in front of the card that the model was saved with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relatum.errors import RelatumError

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TAGS = ("relatum", "relation-extraction", "named-entity-recognition")
_FRONT = re.compile(r"\A---\s*\n.*?\n---\s*\n", re.DOTALL)
_PLACE = '"PATH/TO/THIS/FOLDER"'
_SCORES = re.compile(r"^## Scores\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_COLUMNS = ("P", "R", "F1", "macro F1")
_NEEDS = "## Encoder"


@dataclass(frozen=True, slots=True)
class CardMetadata:
    """Facts about a model that only its publisher knows; None and empty ones are left as the card has them."""

    license: str | None = None
    language: str | Sequence[str] | None = None
    datasets: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CardScore:
    """A row of the table of scores in a card, in per cent: the part, the task, and the scores by column."""

    part: str
    task: str
    values: Mapping[str, float]


def make_hub_card(card: str, name: str, metadata: CardMetadata, needs: Sequence[str]) -> str:
    """Return the card with YAML metadata in front; its code loads the model by name, and it names needed encoders.

    Scores are those in the card's own table; without a table there are none. Metadata that the card has already stay,
    unless there are new ones.
    """
    from huggingface_hub import ModelCardData

    body = strip_metadata(card).replace(_PLACE, f'"{name}"')
    known = _read_metadata(card, name)
    given = {
        "license": metadata.license,
        "language": metadata.language,
        "datasets": list(metadata.datasets) or None,
    }
    known |= {key: value for key, value in given.items() if value is not None}
    known["tags"] = list(dict.fromkeys([*TAGS, *(known.get("tags") or ()), *metadata.tags]))
    known |= {"library_name": "relatum", "pipeline_tag": "token-classification"}
    title = name.rpartition("/")[2]
    results = list(_eval_results(body, ", ".join(known.get("datasets") or ()) or None))
    data = ModelCardData(model_name=title, eval_results=results or None, **known)
    return f"---\n{data.to_yaml()}\n---\n\n{body.lstrip()}{_needs_section(body, needs)}"


def strip_metadata(card: str) -> str:
    """Return a card without YAML in front."""
    return _FRONT.sub("", card)


def card_scores(card: str) -> list[CardScore]:
    """Return the rows of the table of scores in a card; none if the card has no such table."""
    section = _SCORES.search(card)
    rows = [_cells(line) for line in section[1].splitlines() if line.startswith("|")] if section else []
    if not rows or rows[0] != ["part", "task", *_COLUMNS]:
        return []
    found = []
    for part, task, *values in (row for row in rows[2:] if len(row) == len(rows[0])):
        try:
            found.append(CardScore(part, task, dict(zip(_COLUMNS, map(float, values), strict=True))))
        except ValueError:
            raise RelatumError(
                f"the card's table of scores has {values!r} for {part}, {task}; expected numbers"
            ) from None
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _read_metadata(card: str, name: str) -> dict[str, Any]:
    """Return the metadata of a card that was on the hub before, without its scores."""
    from huggingface_hub import ModelCard

    front = _FRONT.match(card)
    if front is None:
        return {}
    try:
        known: dict[str, Any] = ModelCard(front[0], ignore_metadata_errors=True).data.to_dict()  # type: ignore[no-untyped-call]
    except Exception as error:  # of the library for YAML
        reason = str(error).partition("\n")[0]
        raise RelatumError(f"{name}: the YAML in front of the card cannot be read ({reason}); correct it") from None
    return {key: value for key, value in known.items() if key not in ("model-index", "eval_results", "model_name")}


def _eval_results(card: str, dataset: str | None) -> Iterator[EvalResult]:
    from huggingface_hub import EvalResult

    metrics = {"P": "precision", "R": "recall", "F1": "f1", "macro F1": "f1"}
    for score in card_scores(card):
        for column, value in score.values.items():
            yield EvalResult(
                task_type="token-classification",
                task_name="Entity and relation extraction",
                dataset_type=dataset or "unknown",
                dataset_name=dataset or "not named",
                dataset_split=score.part,
                metric_type=metrics[column],
                metric_name=f"{score.task}, {column}",
                metric_value=value,
            )


def _needs_section(body: str, needs: Sequence[str]) -> str:
    if not needs or f"\n{_NEEDS}\n" in body:
        return ""
    names = " and ".join(f"`{name}`" for name in needs)
    return (
        f"\n{_NEEDS}\n\nThe model reads with {names}, which is not in this repository. relatum looks for an encoder in "
        f"its cache and on the hub; `relatum encoder fetch {needs[0]}` gets it beforehand.\n"
    )
