"""A plain page with what the OpenAPI schema says; it needs nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any


def reference_page(schema: Mapping[str, Any]) -> str:
    """Return an HTML page with every address, its fields, and the schema of each message."""
    sections = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            sections.append(f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>")
            sections.append(f"<p>{escape(operation.get('description', ''))}</p>")
            body = operation.get("requestBody")
            if body:
                sections.append(_schema("Request", body["content"]["application/json"]["schema"]))
            statuses = ", ".join(sorted(operation["responses"]))
            sections.append(f"<p>Answers: {escape(statuses)}</p>")
    sections.append("<h2>Messages</h2>")
    sections += [_schema(name, one) for name, one in schema.get("components", {}).get("schemas", {}).items()]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>relatum: the server\'s interface</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/static/reference.css"></head><body><main>'
        "<h1>The server's interface</h1>"
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>. <a href="/">The page</a>.</p>'
        f"{''.join(sections)}</main></body></html>"
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, indent=1, ensure_ascii=False)
    return f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
