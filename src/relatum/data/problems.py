"""The problems that readers found, and remarks on changes and losses in conversions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from relatum.errors import SHOWN, DataError, Problem


@dataclass(frozen=True, slots=True)
class Remedy:
    """A setting under `data` that makes a document usable by leaving out a part of its annotation."""

    setting: str
    value: str
    left_out: str
    instead: str = ""
    """Another option, and its effect, with which nothing is left out; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Cure:
    """The closing line under a list of problems: what came of them, and how to go on."""

    outcome: str
    option: str = "--set data.{}={}"
    """The option that passes a setting under `data` to the command, with slots for its name and value."""
    skip: str | None = "--set data.on_error=skip"
    """The option that leaves out bad records; None if they are left out already, or must not be."""

    def describe(self, problems: Problems) -> str:
        said = [self.outcome]
        for remedy, times in problems.remedies.items():
            option = self.option.format(remedy.setting, remedy.value)
            instead = f", or {remedy.instead}" if remedy.instead else ""
            said.append(f"Pass {option} to keep {_n(times, 'document')} and leave out only {remedy.left_out}{instead}.")
        rest = problems.n_records - problems.remedies.total()
        if rest:
            which = f"the other {_n(rest, 'record')}" if problems.remedies else "these records"
            said.append(f"Fix {which}, or pass {self.skip} to leave them out." if self.skip else f"Fix {which}.")
        return " ".join(said)


SKIP_CURE = Cure("Nothing was written.", "--{} {}", "--on-error skip")
"""The closing line of commands that write nothing until all of the input is good."""


class Problems:
    """A collection of bad records and remarks, filled while documents stream past; adding to it never raises."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.count = 0
        self.n_records = 0
        self.remedies: Counter[Remedy] = Counter()
        self.remarks: Counter[str] = Counter()
        self.places: dict[str, str] = {}

    def add(self, *problems: Problem, remedy: Remedy | None = None) -> None:
        """Report everything that is wrong with one record, and the setting that would let it be used."""
        if not problems:
            return
        self.n_records += 1
        self.count += len(problems)
        self.kept += problems[: SHOWN - len(self.kept)]
        if remedy:
            self.remedies[remedy] += 1

    def remark(self, what: str, where: str, times: int = 1) -> None:
        """Count something a user should know although no record was lost; the first place is remembered."""
        if times:
            self.remarks[what] += times
            self.places.setdefault(what, where)

    def remark_lines(self) -> list[str]:
        return [f"{times} × {what} (first: {self.places[what]})" for what, times in self.remarks.items()]

    def lines(self) -> list[str]:
        """Return everything that was skipped, changed or left out, in lines for a person to read."""
        shown = len(self.kept)
        more = f" (the first {shown:,} are shown)" if self.count > shown else ""
        total = [f"skipped {self.size()}{more}"] if self.count else []
        return [*map(str, self.kept), *total, *self.remark_lines()]

    def size(self) -> str:
        """Say how many records are bad, and how many problems they have if there are more problems than records."""
        records = _n(self.n_records, "bad record")
        return records if self.count == self.n_records else f"{records} with {self.count:,} problems"

    def raise_if_any(self, cure: str | Cure = "") -> None:
        if self.count:
            closing = cure if isinstance(cure, str) else cure.describe(self)
            if self.count > len(self.kept):
                closing = f"{self.size()} in all. {closing}"
            raise DataError(self.kept, closing)


def _n(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"
