"""The names of nodes: when two mentions have the same name, and the id of a node."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256
from unicodedata import normalize

_ARTICLE = re.compile("^(?:the|a|an) (?=.)")
_POSSESSIVE = re.compile("(?<=.)['’]s$")
_HASH = re.compile("-[0-9a-f]{8}$")
_CACHED = 2**16


@lru_cache(_CACHED)
def normalise(name: str) -> str:
    """Return the name that decides which mentions are one node.

    White space is collapsed, case is folded, and a leading article and a final possessive 's are dropped.
    """
    words = " ".join(normalize("NFC", name).casefold().split())
    return _POSSESSIVE.sub("", _ARTICLE.sub("", words))


@lru_cache(_CACHED)
def node_id(label: str, name: str) -> str:
    """Return the id of the node of a type and a normalised name, such as org/bergen-shipping-company."""
    return f"{_slug(label.casefold())}/{_slug(name)}"


def _slug(name: str) -> str:
    """Return a name with hyphens between its words; a hash is added if another name could look like it."""
    slug = "".join(c if c.isalnum() or c in "._" else "-" for c in name)
    if slug.strip("-.") and slug.replace("-", " ") == name and not _HASH.search(slug):
        return slug
    slug = re.sub("-+", "-", slug).strip("-.")
    return f"{slug}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")


def full_names(names: Collection[str]) -> dict[str, str]:
    """Map each name of a document to the name whose node it joins: itself, or the one longer name that ends in it.

    All names are normalised and of one type. A name that ends several different longer names joins none of them.
    """
    words = {name: name.split(" ") for name in names}
    lengths = sorted({len(parts) for parts in words.values()})
    longer: dict[str, list[str]] = {}
    for name, parts in words.items():
        for length in lengths:
            if length >= len(parts):
                break
            end = " ".join(parts[-length:])
            if end in words:
                longer.setdefault(end, []).append(name)
    full: dict[str, str] = {}
    for name in sorted(words, key=lambda name: -len(words[name])):  # longer names have joined theirs before
        candidates = {full[other] for other in longer.get(name, ())}
        full[name] = candidates.pop() if len(candidates) == 1 else name
    return full
