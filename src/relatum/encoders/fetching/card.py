"""The README of a fetched encoder: where it comes from, and under which licence."""

from __future__ import annotations

from pathlib import Path

from relatum.encoders.fetching.catalogue import Fetchable, Package

NAME = "README.md"


def write_card(encoder: Fetchable, folder: Path) -> None:
    """Write the card, which says what a user of the encoder must know, into the encoder's folder."""
    (folder / NAME).write_text(make_card(encoder), encoding="utf-8")


def make_card(encoder: Fetchable) -> str:
    """Return the text of the card."""
    case = "cased" if encoder.cased else "uncased"
    shape = (
        f"{encoder.n_layers} layers of width {encoder.width} with {encoder.n_attention_heads} attention heads, {case}"
    )
    lines = [
        f"# {encoder.name}",
        "",
        f"{encoder.title}. {shape}.",
        "",
        f'Put together by `relatum encoder fetch {encoder.name}`; `encoder.name = "{encoder.name}"` uses it.',
        "",
        f"- **Original:** [{encoder.origin}](https://huggingface.co/{encoder.origin})",
        f"- **Licence:** {encoder.licence}, as the original.",
        f"- **Note:** {encoder.remark}.",
        f"- **sha256 of** `model.safetensors`: `{encoder.sha256}` (float32)",
        "- **Changed:** the JSON files are without leftovers of the packages, such as a limit of 128 pieces.",
        "",
        "## Packages",
        "",
        "| package | file | sha256 |",
        "|---|---|---|",
        *(f"| {_link(package)} | `{package.file}` | `{package.sha256}` |" for package in encoder.packages),
        "",
        "## To cite",
        "",
        *(f"- {citation}" for citation in encoder.citations),
    ]
    return "\n".join(lines) + "\n"


def _link(package: Package) -> str:
    if package.registry == "npm":
        address = f"https://www.npmjs.com/package/{package.name}/v/{package.version}"
    else:
        address = f"https://pypi.org/project/{package.name}/{package.version}/"
    return f"[{package.registry} {package.name} {package.version}]({address})"
