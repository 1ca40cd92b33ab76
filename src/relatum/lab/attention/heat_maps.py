"""Attention as small heat maps, on a page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import printable
from relatum.lab.attention.alignment import PATTERNS, make_patterns
from relatum.lab.attention.heads import HeadScores
from relatum.lab.attention.weights import Attention, Head
from relatum.types import Annotation

_Array = NDArray[np.floating[Any]] | NDArray[np.bool_]

_STYLE = """
body { margin: 0 auto; max-width: 80rem; padding: 0.5rem 1rem; font: 1rem/1.5 system-ui, sans-serif;
  background: #ffffff; color: #1a1a1a; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
p { overflow-wrap: anywhere; margin: 0.25rem 0; }
div { display: flex; flex-wrap: wrap; gap: 0.75rem; align-items: flex-end; margin-top: 1rem; }
figure { margin: 0; } .large { flex: 0 1 31%; min-width: 17rem; } figcaption { font-size: 0.75rem; }
img, image { image-rendering: pixelated; }
img { display: block; width: 7rem; height: 7rem; border: 1px solid #767676; }
svg { display: block; width: 100%; height: auto; background: #ffffff; }
rect { fill: none; stroke: #767676; }
text { font: 10px system-ui, sans-serif; fill: #1a1a1a; }
summary { cursor: pointer; margin-top: 1rem; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #f2f2f2; } }
"""

_CELL = 12
"""The size of a cell on a large map, in units of the drawing."""
_LETTER = 6
"""The room for a letter, in units of the drawing."""
_LONGEST_LABEL = 18


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """The attention of a window beside the patterns that it should follow."""

    attention: Attention
    patterns: dict[str, NDArray[np.bool_]]
    """The patterns of the gold annotation, or of the annotation that the model finds."""
    is_gold: bool
    scores: HeadScores | None
    """The scores of the attention heads over a corpus; None if they were not measured."""

    @classmethod
    def of(cls, attention: Attention, gold: Annotation | None = None, scores: HeadScores | None = None) -> Picture:
        """Make a picture with the sentence's gold annotation, in words, or with what the model finds in the window."""
        start, end = attention.window
        if gold is None:
            return cls(attention, make_patterns(attention.found, end - start), False, scores)
        n_words = max([end, *(entity.span.end for entity in gold.entities)])
        whole = make_patterns(gold, n_words)
        inside = {name: pattern[start:end, start:end] for name, pattern in whole.items()}
        return cls(attention, inside, True, scores)


def page(pictures: Iterable[tuple[str, Picture]]) -> str:
    """Return a page with all pictures below each other, each under its name."""
    title = "Who attends to whom"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        "<p>Rows attend to columns: the darker a cell, the more weight; the darkest of a map is its highest weight "
        "between different words.</p>\n"
        + "".join(_picture(name, picture) for name, picture in pictures)
        + "</body>\n</html>\n"
    )


def _picture(name: str, picture: Picture) -> str:
    attention = picture.attention
    parts = [f"<h2>{escape(printable(name))}</h2>\n<p>{escape(printable(' '.join(attention.words)))}</p>\n"]
    truth = "ground truth" if picture.is_gold else "what the model finds"
    patterns = {name: _large(picture.patterns[name], attention.words, f"{name}: {truth}") for name in PATTERNS}
    if picture.scores is None:
        parts.append(f"<div>{''.join(patterns.values())}</div>\n")
    else:
        for pattern, shown in patterns.items():
            best = (_best(picture, pattern, of_encoder) for of_encoder in (False, True))
            beside = (
                _large(attention.of(head), attention.words, _caption(picture, head, pattern)) for head in best if head
            )
            parts.append(f"<div>{shown}{''.join(beside)}</div>\n")
    for of_encoder, title in ((False, "All heads of the network"), (True, "All heads of the encoder")):
        heads = [head for head in attention.heads if head.of_encoder == of_encoder]
        if heads:
            shown = "".join(_small(attention.of(head), str(head)) for head in heads)
            parts.append(
                f"<details{'' if of_encoder else ' open'}><summary>{title}</summary><div>{shown}</div></details>\n"
            )
    return "".join(parts)


def _best(picture: Picture, pattern: str, of_encoder: bool) -> Head | None:
    """Return the attention head that does best over the corpus; None if that was not measured."""
    scores = picture.scores
    if scores is None or not scores.alignments[pattern].n_connected:
        return None
    return next((head for head, _ in scores.best(pattern, of_encoder)), None)


def _caption(picture: Picture, head: Head, pattern: str) -> str:
    assert picture.scores is not None
    average_precision = dict(picture.scores.best(pattern, head.of_encoder))[head]
    return f"{head}: average precision {100 * average_precision:.1f}%"


def _small(weights: _Array, caption: str) -> str:
    caption = escape(caption)
    return f'<figure><img src="{_image(weights)}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


def _large(weights: _Array, words: tuple[str, ...], caption: str) -> str:
    """Draw a map with the words on both axes."""
    shown = [
        escape(printable(word if len(word) <= _LONGEST_LABEL else f"{word[: _LONGEST_LABEL - 1]}…")) for word in words
    ]
    side = _CELL * len(words)
    margin = _LETTER * min(_LONGEST_LABEL, max(map(len, words))) + 6
    labels = []
    for index, word in enumerate(shown):
        middle = margin + _CELL * index + 9
        labels.append(f'<text x="{margin - 3}" y="{middle}" text-anchor="end">{word}</text>')
        labels.append(f'<text transform="translate({middle},{margin - 3}) rotate(-90)">{word}</text>')
    size = margin + side
    caption = escape(caption)
    return (
        f'<figure class="large"><svg viewBox="0 0 {size} {size}" role="img" aria-label="{caption}">'
        f'{"".join(labels)}<image x="{margin}" y="{margin}" width="{side}" height="{side}" href="{_image(weights)}"/>'
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}"/>'
        f"</svg><figcaption>{caption}</figcaption></figure>"
    )


def _image(weights: _Array) -> str:
    """Return the data URL of a grey PNG with one pixel per cell."""
    values = np.clip(np.asarray(weights, dtype=np.float64), 0, None)
    others = values[~np.eye(len(values), dtype=np.bool_)]
    top = others.max(initial=0.0) or values.max(initial=0.0) or 1.0
    grey = (255 - 255 * np.minimum(values / top, 1)).round().astype(np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in grey)
    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")):
        checksum = zlib.crc32(kind + body)
        data += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)
    return f"data:image/png;base64,{b64encode(data).decode()}"
