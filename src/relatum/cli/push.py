"""`relatum push`: a trained model onto the Hugging Face hub."""

from __future__ import annotations

from typing import Annotated

import typer


def push(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model, or the name of one.")],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The name of the model on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository that only you can read.")] = False,
    branch: Annotated[str | None, typer.Option(metavar="NAME", help="The branch. Default: main.")] = None,
    message: Annotated[str | None, typer.Option(metavar="TEXT", help="The message of the commit.")] = None,
    encoder_inside: Annotated[
        bool, typer.Option("--encoder-inside", help="Push the encoder, too, if the model stores it by name.")
    ] = False,
    license: Annotated[str | None, typer.Option(metavar="ID", help="The licence, such as apache-2.0.")] = None,
    language: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="A language, such as en; may be repeated.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A dataset of the training; may be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A further tag; may be repeated.")] = None,
) -> None:
    """Push a model to the Hugging Face hub. Log in before, with 'hf auth login', or set HF_TOKEN.

    The card gets metadata: what you give here, and the scores of its own table. Anybody can then load the model by its
    name: Extractor.from_pretrained("OWNER/NAME"), or --model OWNER/NAME.
    """
    from relatum.cli.console import say
    from relatum.extractor.extractor import Extractor

    pushed = Extractor.from_pretrained(model, device="cpu").push_to_hub(
        name,
        private=True if private else None,
        branch=branch,
        commit_message=message,
        encoder="inside" if encoder_inside else "as saved",
        license=license,
        language=language,
        datasets=dataset or (),
        tags=tag or (),
    )
    for encoder in pushed.needs:
        say(f"users need the encoder {encoder!r}, too: relatum looks for it in its cache and on the hub")
    if license is None:
        say("the card names no licence unless the model's own does; name one with --license")
    print(f"{pushed.url} at {pushed.revision}")
