"""`relatum config`: what the settings are, where they come from, and whether files of them are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file of settings; see 'relatum config show'.")
]
Override = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, such as text.words=whitespace; may be repeated."),
]

app = typer.Typer(
    name="config", help="Show and check settings.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A TOML file of settings.")] = None,
    override: Override = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, keyed by dotted names.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Show only values that differ from the defaults.")] = False,
) -> None:
    """Show every setting and the origin of its value.

    The output is a TOML file that you can save and edit. Values without an origin are the defaults.
    """
    from relatum.cli.console import show, show_json
    from relatum.config import dump_config, list_keys, trace_config

    config, settings = trace_config(file, override or ())
    origins = {name: setting.origin for name, setting in settings.items()}
    if not as_json:
        settings_file = dump_config(config, origins=origins, changed=changed) or "# every setting has its default\n"
        show(settings_file.removesuffix("\n"))
        return
    record = {
        key.name: {
            "value": key.value,
            "default": key.default,
            "origin": origins.get(key.name, "default"),
            "expected": key.expected,
            "description": key.description,
        }
        for key in list_keys(config)
        if not changed or key.value != key.default
    }
    show_json(record)


@app.command()
def check(files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="TOML files of settings.")]) -> None:
    """Check settings files and the files they extend.

    All problems are shown. The exit status is 1 if there are any.
    """
    from relatum.cli.console import show
    from relatum.config import load_config
    from relatum.errors import ConfigError

    failed = False
    for file in files:
        try:
            load_config(file)
        except ConfigError as error:
            failed = True
            show(str(error))
        else:
            show(f"{file}: ok")
    if failed:
        raise typer.Exit(1)
