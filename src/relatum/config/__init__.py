"""The settings: one frozen, typed tree, read from TOML files and `--set` overrides.

`sections` says which keys there are; the other modules read and show any tree of sections.
"""

from relatum.config.keys import Key, list_keys
from relatum.config.loading import load_config, trace_config
from relatum.config.sections import (
    Config,
    DataConfig,
    EvaluationConfig,
    TaggingConfig,
    TextConfig,
)
from relatum.config.sources import Setting
from relatum.config.toml import dump_config

__all__ = [
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "Key",
    "Setting",
    "TaggingConfig",
    "TextConfig",
    "dump_config",
    "list_keys",
    "load_config",
    "trace_config",
]
