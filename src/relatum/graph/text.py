"""Text in the form that files can hold it."""

from __future__ import annotations

import json
import re
from typing import Any

from relatum.graph.graph import Evidence
from relatum.graph.records import evidence_record

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def writable(text: str) -> str:
    """Replace the characters that neither UTF-8 nor XML can hold by the replacement character."""
    return _UNWRITABLE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Collapse white space, and replace characters that no file can hold."""
    return " ".join(writable(text).split())


def evidence_json(evidence: Evidence) -> str:
    """Return evidence as one line of JSON."""
    return json_line(evidence_record(evidence))


def json_line(value: Any) -> str:
    """Return a value as one line of JSON that every file can hold."""
    return writable(json.dumps(value, ensure_ascii=False))
