"""A plain page with what the OpenAPI schema says; it needs nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from relatum.look.rendering import render


def reference_page(schema: Mapping[str, Any]) -> str:
    """Return an HTML page with every address, its fields, and the schema of each message."""
    return render("web/reference.html", schema=schema, to_json=partial(json.dumps, indent=1, ensure_ascii=False))
