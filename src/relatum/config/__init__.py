"""The settings: one frozen, typed tree, read from TOML files and `--set` overrides.

`sections` says which keys there are; the other modules read and show any tree of sections.
"""

from relatum.config.conditions import find_idle
from relatum.config.inputs import DataConfig, TextConfig
from relatum.config.keys import TAKEN_SECTIONS, Key, list_keys, needed_keys
from relatum.config.loading import (
    OwnFunctionError,
    change_section,
    find_given,
    load_config,
    load_record,
    trace_config,
    without_idle,
)
from relatum.config.sections import (
    CharactersConfig,
    Config,
    DecodingConfig,
    EncoderConfig,
    EvaluationConfig,
    ExtractionConfig,
    ModelConfig,
    SequenceConfig,
    TableConfig,
    TaggingConfig,
    TrainingConfig,
    WordsConfig,
)
from relatum.config.sources import Setting
from relatum.config.toml import dump_config

__all__ = [
    "TAKEN_SECTIONS",
    "CharactersConfig",
    "Config",
    "DataConfig",
    "DecodingConfig",
    "EncoderConfig",
    "EvaluationConfig",
    "ExtractionConfig",
    "Key",
    "ModelConfig",
    "OwnFunctionError",
    "SequenceConfig",
    "Setting",
    "TableConfig",
    "TaggingConfig",
    "TextConfig",
    "TrainingConfig",
    "WordsConfig",
    "change_section",
    "dump_config",
    "find_given",
    "find_idle",
    "list_keys",
    "load_config",
    "load_record",
    "needed_keys",
    "trace_config",
    "without_idle",
]
