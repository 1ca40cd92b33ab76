"""The `relatum` command: one module a command, errors turned into plain answers."""

from __future__ import annotations

import os
import sys

import click
import typer

from relatum._version import __version__
from relatum.errors import RelatumError

app = typer.Typer(
    name="relatum",
    help="Entities and the relations between them, extracted jointly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"relatum {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 for bad data, 2 for a bad call, 130 after Ctrl-C."""
    try:
        result = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        return int(result or 0)
    except RelatumError as error:
        return _fail(str(error), 1)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _fail("stopped; nothing was written that is not whole", 130)
    except BrokenPipeError:
        # Whoever read our output has left; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)


def _fail(message: str, status: int) -> int:
    print(f"relatum: {message}", file=sys.stderr)
    return status


def run() -> None:
    sys.exit(main())
