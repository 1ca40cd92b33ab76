"""The `relatum` command: one module a command, errors turned into plain answers."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import logging
import os
import sys
from collections.abc import Callable

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
    graph,
    init,
    inspect,
    mcp,
    probe,
    push,
    reproduce,
    score,
    serve,
    split,
    suggest,
    train,
    tune,
)
from relatum.errors import IN_EXTRA_TORCH, NO_SPACE, MissingExtraError, RelatumError, explain_os_error, printable

app = typer.Typer(
    name="relatum",
    help="Extract entities and the relations between them, jointly.",
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
app.command("graph")(graph.graph)
app.command("serve")(serve.serve)
app.command("mcp")(mcp.mcp)
app.command("suggest")(suggest.suggest)
app.command("init")(init.init)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("push")(push.push)
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
    status = _run(lambda: app(args=arguments, prog_name="relatum"))
    # What is still buffered may not fit on the disk: an answer that is lost is an error.
    return _run(sys.stdout.flush) or status


def _run(action: Callable[[], object]) -> int:
    """Call an action and turn what it raises into a message and an exit status."""
    try:
        action()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except RelatumError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in IN_EXTRA_TORCH:
            raise
        return _fail(str(MissingExtraError("this command", "torch")))
    except RecursionError:
        return _fail("found values nested too deeply to be written; expected records of ordinary depth")
    except BrokenPipeError:
        return _drop_output()  # whoever reads, such as head, has seen enough
    except OSError as error:
        is_output = error.filename is None and error.errno in NO_SPACE  # files that are written are named
        return _drop_output(error) if is_output else _fail(explain_os_error(error))
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return _fail(
            f"out of memory ({reason}); close other programs, divide the data into smaller documents or files, or "
            "lower --max-cells or --batch-size where the command has them"
        )
    return 0


def _is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from relatum.extractor.device import is_out_of_memory

    return is_out_of_memory(error)


def _open_streams() -> None:
    """Make sure that no message can fail, even if a stream is missing or its encoding lacks a character.

    Results need a stream: a command that prints some into a closed standard output ends with an error.
    """
    # Without this, the next file that is opened would become the standard output of libraries and child processes.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stdout is None:  # closed by whoever started the program
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:  # it shows warnings, which name files
        logging.lastResort.setFormatter(_PlainFormatter())


class _PlainFormatter(logging.Formatter):
    """Spells out codes that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")


class ClosedOutput(io.TextIOBase):
    """A stand-in for a closed standard output: printing the first result raises an error."""

    def write(self, _text: str) -> int:
        raise RelatumError(
            "standard output is closed, so the results cannot be printed; redirect it to a file or a pipe, or to "
            "/dev/null if you do not want them"
        )


def _drop_output(error: OSError | None = None) -> int:
    """Send standard output, which accepts no more, to nowhere, so that Python does not try again; return the status."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return 1 if error is None else _fail(f"standard output: {explain_os_error(error)}")


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
