"""What readers found wrong, and what conversions had to change or leave out."""

from __future__ import annotations

from collections import Counter

from relatum.errors import SHOWN, DataError, Problem

SKIP_CURE = "Nothing was written. Mend these records, or pass --on-error skip to leave them out."
"""What to say where nothing is written before all of the input is good."""


class Problems:
    """Collects bad records and remarks while documents stream past; never raises by itself."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.count = 0
        self.remarks: Counter[str] = Counter()
        self.places: dict[str, str] = {}

    def add(self, problem: Problem) -> None:
        """Report a record that could not be read or written."""
        self.count += 1
        if len(self.kept) < SHOWN:
            self.kept.append(problem)

    def remark(self, what: str, where: str, times: int = 1) -> None:
        """Count something a user should know although no record was lost; the first place is remembered."""
        if times:
            self.remarks[what] += times
            self.places.setdefault(what, where)

    def remark_lines(self) -> list[str]:
        return [f"{times} × {what} (first: {self.places[what]})" for what, times in self.remarks.items()]

    def raise_if_any(self, cure: str = "") -> None:
        if self.count:
            if self.count > len(self.kept):
                cure = f"{self.count} bad records in all. {cure}"
            raise DataError(self.kept, cure)
