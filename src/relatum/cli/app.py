"""The `relatum` command: one module a command, errors turned into plain answers."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys

import typer

from relatum._version import __version__
from relatum.cli import (
    attention,
    calibrate,
    compare,
    config,
    convert,
    doctor,
    encoder,
    evaluate,
    extract,
    init,
    inspect,
    probe,
    reproduce,
    score,
    serve,
    split,
    train,
    tune,
)
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


app.command("extract")(extract.extract)
app.command("serve")(serve.serve)
app.command("init")(init.init)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("compare")(compare.compare)
app.command("probe")(probe.probe)
app.command("attention")(attention.attention)
app.command("reproduce")(reproduce.reproduce)
app.command("convert")(convert.convert)
app.command("inspect")(inspect.inspect)
app.command("split")(split.split)
app.command("score")(score.score)
app.add_typer(config.app)
app.add_typer(encoder.app)
app.command("doctor")(doctor.doctor)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 for bad data, 2 for a bad call, 130 after Ctrl-C."""
    # Documents hold no cycles; looking for some whenever a few more are in memory takes a third of the reading time.
    gc.set_threshold(100_000, 50, 1000)
    _open_streams()
    try:
        app(args=arguments, prog_name="relatum")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except RelatumError as error:
        return _fail(str(error))
    except RecursionError:
        return _fail("found values nested too deeply to be written; expected records of ordinary depth")
    except MemoryError:
        return _fail("there is not enough memory; divide the data into smaller documents or files")
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return 0


def _open_streams() -> None:
    """Make sure that nothing printed can fail: not for want of a stream, nor for a sign that its encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started the program
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    from relatum.cli.console import say

    say(message)
    return 1


def run() -> None:
    status = main()
    if "torch" not in sys.modules:
        sys.exit(status)
    # Taking torch down in order takes half a second; all that has to be done at the end is done here.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
