"""The settings: what may be written, what is said when it is wrong, and that nothing is lost on the way."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from relatum.config import (
    Config,
    DataConfig,
    EvaluationConfig,
    TaggingConfig,
    TextConfig,
    dump_config,
    list_keys,
    load_config,
    load_record,
    trace_config,
)
from relatum.config.conditions import CONDITIONS, find_idle
from relatum.config.keys import expected, fields
from relatum.config.loading import load
from relatum.config.toml import key_lines, to_toml
from relatum.config.values import Section
from relatum.errors import ConfigError

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / "configs").rglob("*.toml"))


@pytest.fixture(autouse=True)
def _work_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def problems(path: Path | None = None, *overrides: str) -> list[str]:
    """The lines of the error that loading raises."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value).split("\n")


def problem(path: Path | None = None, *overrides: str) -> str:
    found = problems(path, *overrides)
    assert len(found) == 1, found
    return found[0]


def test_config_defaults_are_those_of_the_paper() -> None:
    record = load_config().to_dict()
    tagging = {
        "kind": "words",
        "scheme": "bio",
        "fill": "entire",
        "cells": "entity",
        "directed": True,
        "conflicts": "last",
    }
    assert record["tagging"] == tagging
    assert record["evaluation"] == {"macro_over": "gold", "entities": "predicted"}
    assert record["model"] == {
        "width": 200,
        "n_layers": 3,
        "share_layers": False,
        "interaction": "both",
        "entity_source": "sequence",
        "dropout": 0.5,
        "initialisation": "authors",
    }
    assert record["table"]["directions"] == ["nw", "se"]
    assert record["sequence"]["n_attention_heads"] == 8
    assert record["characters"] == {"kind": "lstm", "width": 30}
    training = {
        "steps": 20_000,
        "batch_size": 24,
        "learning_rate": 1e-3,
        "warmup_steps": 1000,
        "decay_rate": 0.05,
        "decay_steps": 1000,
        "clip_norm": 5.0,
        "loss": "sum",
        "evaluate_every": 500,
        "selection": "micro",
        "selection_relations": "boundaries",
    }
    assert {name: record["training"][name] for name in training} == training


def test_config_is_frozen_and_hashable() -> None:
    config = load_config()
    with pytest.raises(ValidationError, match="frozen"):
        config.text.words = "whitespace"
    assert hash(config) == hash(Config())


def test_config_keys_have_a_meaning_and_a_default_that_validates() -> None:
    for key in list_keys(Config()):
        assert key.description.endswith("."), key
        assert key.expected, key
    Config.model_validate(Config().model_dump())


OPTIONAL = [
    "data.overlaps",
    "encoder.cache_path",
    "encoder.adapters",
    "encoder.lora_modules",
    "words.path",
    "table.width",
    "decoding.entity_threshold",
    "decoding.relation_threshold",
    "training.start",
    "training.unlabelled",
    "training.encoder_learning_rate",
    "training.encoder_warmup_steps",
    "training.part_cells",
    "training.patience",
    "training.checkpoint_every",
]


def test_config_keys_that_may_be_unset_are_unset_by_default() -> None:
    keys = list_keys(Config())
    optional = [key.name for key in keys if key.expected.endswith("left unset")]
    assert optional == [key.name for key in keys if key.default is None] == OPTIONAL


@pytest.mark.parametrize("kind", ["elmo", "none"])
def test_only_encoders_of_hugging_face_are_tuned(kind: str) -> None:
    with pytest.raises(ConfigError, match=r'expected an encoder\.kind "huggingface", as encoder\.tuning is "lora"'):
        load_config(None, [f"encoder.kind={kind}", "encoder.tuning=lora"])


@pytest.mark.parametrize("kind", ["elmo", "none"])
def test_only_encoders_of_hugging_face_read_context(kind: str) -> None:
    with pytest.raises(ConfigError, match=r'expected an encoder\.kind "huggingface", as encoder\.context is 7'):
        load_config(None, [f"encoder.kind={kind}", "encoder.context=7"])
    with pytest.raises(ConfigError, match=r"expected no encoder\.context, which does nothing as encoder\.kind is"):
        load_config(None, [f"encoder.kind={kind}", "encoder.context=0"])
    with pytest.raises(ConfigError, match="context"):
        load_config(None, ["encoder.context=-1"])


def test_passages_are_read_without_context() -> None:
    with pytest.raises(ConfigError, match=r'expected an encoder\.context of 0, as text\.unit is "passage"'):
        load_config(None, ["text.unit=passage", "encoder.context=7"])
    assert load_config(None, ["text.unit=passage", "encoder.context=0"]).text.unit == "passage"


def test_file_sets_what_it_names_and_leaves_the_rest() -> None:
    path = write("a.toml", '[text]\nwords = "my_pkg.split:words"\n[tagging]\ndirected = false\n')
    expected = Config(text=TextConfig(words="my_pkg.split:words"), tagging=TaggingConfig(directed=False))
    assert load_config(path) == expected


@pytest.mark.parametrize("text", ["", "# nothing\n", "[text]\n", "\ufeff[text]\r\nwords = 'rules'\r\n"])
def test_file_may_be_empty_or_come_from_windows(text: str) -> None:
    assert load_config(write("a.toml", text)) == Config()


@pytest.mark.parametrize(
    "words", ["whitespac", "a.b", "a.b:", ":f", "a..b:f", "1a:f", "a.b:f:g", "a.b:f\n", " a:f", ""]
)
def test_words_that_are_neither_a_name_nor_a_function_are_refused(words: str) -> None:
    path = write("a.toml", f"text.words = {to_toml(words)}")
    expected = 'expected "rules", "whitespace" or "package.module:function"'
    assert problem(path) == f"a.toml:1, text.words: found {to_toml(words)}; {expected}"


def test_unknown_key_is_refused_with_its_path_and_the_nearest_name() -> None:
    path = write("a.toml", "\n[text]\n# words\nwrods = 'rules'\n")
    assert problem(path) == (
        "a.toml:4, text.wrods: found an unknown key; expected one of words, sentences, unit (did you mean text.words?)"
    )


def test_unknown_section_is_refused_with_the_nearest_name() -> None:
    assert problem(write("a.toml", "[taging]\nfill = 'lower'\n")) == (
        f"a.toml:1, taging: found an unknown key; expected one of {', '.join(Config.model_fields)} "
        "(did you mean tagging?)"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("fill = 'lower'", "did you mean tagging.fill?"),
        ("[data]\nscheme = 'bio'", "did you mean tagging.scheme?"),
        ("extend = 'b.toml'", "did you mean extends?"),
    ],
)
def test_unknown_key_hint_looks_into_every_section(text: str, hint: str) -> None:
    assert problem(write("a.toml", text)).endswith(f"({hint})")


def test_unknown_key_unlike_all_others_gets_no_hint() -> None:
    assert problem(write("a.toml", "zzz = 1")).endswith(f"expected one of {', '.join(Config.model_fields)}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tagging.directed = 'true'", 'a.toml:1, tagging.directed: found "true"; expected true or false'),
        ("tagging.directed = 1", "a.toml:1, tagging.directed: found 1; expected true or false"),
        ("[tagging]\n\nscheme = 3.5", 'a.toml:3, tagging.scheme: found 3.5; expected "bio" or "bioes"'),
        (
            "data.overlaps = 2024-01-31",
            'a.toml:1, data.overlaps: found 2024-01-31; expected "fail", "drop", "keep-longest" or "keep", '
            "or the key left unset",
        ),
        ("text = 3", "a.toml:1, text: found 3; expected a table with the keys words, sentences, unit"),
        ("text = []", "a.toml:1, text: found []; expected a table with the keys words, sentences, unit"),
        (
            "[[text]]\nwords = 'rules'",
            "a.toml:1, text: found [{'words': 'rules'}]; expected a table with the keys words, sentences, unit",
        ),
        (
            "[tagging.fill]\nx = 1",
            'a.toml:1, tagging.fill: found a table (with x); expected "entire", "lower" or "upper"',
        ),
        (
            "tagging = { fill = [1, 'a'] }",
            'a.toml:1, tagging.fill: found [1, "a"]; expected "entire", "lower" or "upper"',
        ),
    ],
)
def test_wrong_type_is_refused_with_what_was_found_and_expected(text: str, message: str) -> None:
    assert problem(write("a.toml", text)) == message


def test_all_problems_are_reported_at_once_over_files_and_overrides() -> None:
    write("base.toml", "[text]\nwords = 3\nwrods = 4\n")
    path = write("a.toml", "extends = ['base.toml', 'gone.toml']\nnew = 1\n[data]\ncrossing = 'keep'\n")
    found = problems(path, "tagging.fill=half", "nonsense")
    assert sorted(line.partition(": found ")[0] for line in found) == [
        "--set",
        "--set, tagging.fill",
        "a.toml → gone.toml",
        "a.toml:2, new",
        "a.toml:4, data.crossing",
        "base.toml:2, text.words",
        "base.toml:3, text.wrods",
    ]


@pytest.mark.parametrize(
    ("text", "line", "place"),
    [
        ("[text]\nwords = rules\n", ":2", " at column 9"),
        ("x = 1\nx = 2\n", ":2", " at column 6"),
        ("[text\n", ":1", " at column 6"),
        ("y = 1\nx = '''\n\n", ":2", " at the end"),
        ("x = " + "[" * 100_000, "", "nested too deeply"),
        ("x = " + "9" * 5000, "", "value has 5000 digits"),
    ],
)
def test_bad_toml_is_reported_with_line_and_column(text: str, line: str, place: str) -> None:
    found = problem(write("a.toml", text))
    assert found.startswith(f"a.toml{line}: found ")
    assert found.endswith(f"{place}; expected valid TOML (strings stand in quotes)")


def test_file_that_is_not_utf8_is_reported_with_its_line() -> None:
    Path("a.toml").write_bytes(b"# fine\n# caf\xe9\n")
    assert problem(Path("a.toml")) == (
        "a.toml:2: found the byte 0xE9, which is not UTF-8; expected a TOML file in UTF-8"
    )


def test_missing_file_and_folder_are_reported() -> None:
    Path("folder").mkdir()
    assert problem(Path("gone.toml")) == "gone.toml: found no such file; expected a TOML file in UTF-8"
    assert problem(Path("folder")) == "folder: found a folder; expected a TOML file in UTF-8"


def test_file_name_that_cannot_be_is_reported() -> None:
    path = write("a.toml", r'extends = "b\u0000.toml"')
    assert problem(path).startswith(r"a.toml → b\x00.toml: found a name that no file can have")


def test_file_that_cannot_be_read_is_reported() -> None:
    write("a.toml", "")
    assert problem(Path("a.toml/b.toml")) == (
        "a.toml/b.toml: found a file that cannot be read (Not a directory); expected a TOML file in UTF-8"
    )


def test_extends_merges_key_by_key_and_the_extending_file_wins() -> None:
    write("base.toml", "[tagging]\nfill = 'lower'\ncells = 'last'\n[data]\ncrossing = 'drop'\n")
    path = write("a.toml", "extends = 'base.toml'\n[tagging]\nfill = 'upper'\n")
    assert load_config(path) == Config(
        tagging=TaggingConfig(fill="upper", cells="last"), data=DataConfig(crossing="drop")
    )


def test_extends_is_relative_to_the_file_and_the_later_of_a_list_wins() -> None:
    write("shared/one.toml", "tagging.fill = 'lower'\ntagging.cells = 'last'")
    write("shared/two.toml", "extends = 'deep/three.toml'\ntagging.fill = 'upper'")
    write("shared/deep/three.toml", "text.words = 'whitespace'")
    path = write("own/a.toml", "extends = ['../shared/one.toml', '../shared/two.toml']")
    assert load_config(path) == Config(
        tagging=TaggingConfig(fill="upper", cells="last"), text=TextConfig(words="whitespace")
    )


def test_extends_may_be_empty_or_absolute(tmp_path: Path) -> None:
    write("b.toml", "extends = []\ntagging.fill = 'lower'")
    path = write("a.toml", f"extends = {to_toml(str(tmp_path / 'b.toml'))}")
    assert load_config(path).tagging.fill == "lower"


def test_extends_to_a_missing_file_shows_the_chain() -> None:
    write("b.toml", "extends = 'gone.toml'")
    path = write("a.toml", "extends = 'b.toml'")
    assert problem(path) == "a.toml → b.toml → gone.toml: found no such file; expected a TOML file in UTF-8"


def test_extends_in_a_circle_shows_the_chain() -> None:
    write("sub/b.toml", "extends = '../a.toml'")
    path = write("a.toml", "extends = 'sub/b.toml'")
    assert problem(path) == (
        "a.toml → sub/b.toml → sub/../a.toml: found a file that extends itself; expected 'extends' that leads to an end"
    )


def test_extends_itself_is_a_circle() -> None:
    assert problem(write("a.toml", "extends = 'a.toml'")).startswith(
        "a.toml → a.toml: found a file that extends itself"
    )


def test_extends_to_one_file_by_many_ways_reads_it_once() -> None:
    write("f0.toml", "zzz = 1")
    for number in range(1, 40):  # 2 ** 39 ways down to f0
        write(f"f{number}.toml", f"extends = ['f{number - 1}.toml', 'f{number - 1}.toml']")
    assert problem(Path("f39.toml")).startswith("f0.toml:1, zzz: found an unknown key")


@pytest.mark.parametrize("name", ["extends", "unset"])
@pytest.mark.parametrize("value", ["3", "[3]", "['b.toml', true]", "{}"])
def test_extends_and_unset_that_are_no_names_are_refused(name: str, value: str) -> None:
    write("b.toml", "")
    found = problems(write("a.toml", f"\n{name} = {value}"))
    assert f"a.toml:2, {name}: found " in found[0]
    assert found[0].endswith("; expected a string or a list of strings")


def test_unset_takes_back_what_extended_files_say_and_not_what_the_file_says() -> None:
    write("base.toml", "[data]\noverlaps = 'drop'\ncrossing = 'drop'\n[tagging]\nfill = 'lower'\ncells = 'last'\n")
    path = write("a.toml", "extends = 'base.toml'\nunset = ['data.overlaps', 'tagging']\n[tagging]\nfill = 'upper'\n")
    assert load_config(path) == Config(data=DataConfig(crossing="drop"), tagging=TaggingConfig(fill="upper"))


def test_unset_of_an_unknown_name_is_refused() -> None:
    assert problem(write("a.toml", "unset = 'data.overlap'")) == (
        'a.toml:1, unset: found the unknown name "data.overlap"; expected a key or section '
        "(did you mean data.overlaps?)"
    )


@pytest.mark.parametrize(
    "override",
    [
        "text.words=whitespace",
        'text.words="whitespace"',
        " text . words = 'whitespace' ",
        'text={words = "whitespace"}',
    ],
)
def test_override_takes_bare_words_and_toml(override: str) -> None:
    assert load_config(None, [override]) == Config(text=TextConfig(words="whitespace"))


def test_override_takes_functions_and_booleans() -> None:
    config = load_config(None, ["text.sentences=my_pkg.split:sentences", "tagging.directed=false"])
    assert (config.text.sentences, config.tagging.directed) == ("my_pkg.split:sentences", False)


def test_override_wins_over_the_file_and_the_last_override_over_all() -> None:
    path = write("a.toml", "tagging.fill = 'lower'\ntagging.cells = 'last'")
    config = load_config(path, ["tagging.fill=entire", "tagging.fill=upper"])
    assert config.tagging == TaggingConfig(fill="upper", cells="last")


def test_override_none_is_a_value_and_unset_is_not() -> None:
    path = write("a.toml", "data.overlaps = 'drop'\n[tagging]\nfill = 'lower'\ncells = 'last'\n")
    config = load_config(path, ["text.sentences=none", "data.overlaps=unset", "tagging=unset", "tagging.cells=last"])
    assert config == Config(text=TextConfig(sentences="none"), tagging=TaggingConfig(cells="last"))


@pytest.mark.parametrize("override", ["", "  ", "text.words", "=3", "text.=3", ".words=3", "text..words=3"])
def test_override_without_a_key_or_a_sign_is_refused(override: str) -> None:
    found = f'"{override}"' if override.strip() else "an empty override"
    assert problem(None, override) == (
        f"--set: found {found}; expected SECTION.KEY=VALUE, such as text.words=whitespace"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "text.words=",
            "text.words: found nothing after the '='; expected a value, or text.words=unset for the default",
        ),
        (
            "text.wrods=x",
            "text.wrods: found an unknown key; expected one of words, sentences, unit (did you mean text.words?)",
        ),
        (
            "text.wrods=unset",
            'text.wrods: found the unknown name "text.wrods"; expected a key or section (did you mean text.words?)',
        ),
        (
            "text.words.x=1",
            'text.words: found a table (with x); expected "rules", "whitespace" or "package.module:function"',
        ),
        ("text=rules", 'text: found "rules"; expected a table with the keys words, sentences, unit'),
        ("tagging.directed=True", 'tagging.directed: found "True"; expected true or false'),
        (
            "extends=b.toml",
            "extends: found a key that only files have; expected --config FILE to use a file, KEY=unset to unset",
        ),
        (
            "text.words=\udcff",
            r'text.words: found "\udcff"; expected "rules", "whitespace" or "package.module:function"',
        ),
        (
            "text.words=0x" + "f" * 9999,
            'text.words: found a number too large to show; expected "rules", "whitespace" or "package.module:function"',
        ),
    ],
)
def test_override_that_is_wrong_is_refused(override: str, message: str) -> None:
    assert problem(None, override) == f"--set, {message}"


@pytest.mark.parametrize("value", ["[a, b]", '["a"', "{x", '"open', "'a' b", "1\n[data]\ncrossing = 'drop'", "a\nb"])
def test_override_with_broken_toml_is_refused_and_the_shell_suspected(value: str) -> None:
    found = problem(None, f"text.words={value}")
    assert found.startswith("--set, text.words: found ")
    assert found.endswith("""--set 'text.words=["a"]')""")


def test_found_values_are_cut_when_long() -> None:
    assert len(problem(None, "text.words=" + "x" * 10_000)) < 250


def test_trace_config_says_where_values_come_from() -> None:
    write("base.toml", "[tagging]\nfill = 'lower'\ncells = 'last'\n")
    path = write("a.toml", "extends = 'base.toml'\n\ntagging = { cells = 'entity' }\n")
    _, settings = trace_config(path, ["data.crossing=drop"])
    assert {name: setting.origin for name, setting in settings.items()} == {
        "tagging.fill": "base.toml:2",
        "tagging.cells": "a.toml:3",
        "data.crossing": "--set",
    }


def test_key_lines_look_past_strings_and_comments() -> None:
    text = """# '''
a = 1 # x = 1
b.c = '''
d = 1
[e]
''' # '''
"f" . 'g' = [
  "h = 1",
  { i = 1 },
]
[ j . "k" ] # '''
l = "\\"[m]"
[[n]]
o = 1
"""
    lines = {"a": 2, "b.c": 3, "f.g": 7, "j.k": 11, "j.k.l": 12, "n": 13, "n.o": 14}
    assert tomllib.loads(text)
    assert key_lines(text) == lines


FUNCTIONS = st.from_regex(
    r"[a-z_é]\w{0,5}(\.[a-z_]\w{0,5}){0,2}:[a-z_]\w{0,5}",
    fullmatch=True,
    alphabet=st.characters(codec="latin-1"),  # in other scripts not everything that Python takes is a \w
).filter(lambda name: all(part.isidentifier() for part in re.split("[.:]", name)))
CONFIGS = st.builds(
    Config,
    text=st.builds(
        TextConfig,
        words=st.sampled_from(["rules", "whitespace"]) | FUNCTIONS,
        sentences=st.sampled_from(["rules", "lines", "none"]) | FUNCTIONS,
    ),
    data=st.builds(DataConfig),
    tagging=st.builds(TaggingConfig),
    evaluation=st.builds(EvaluationConfig),
)


def load_text(text: str, model: type[Section] = Config) -> Section:
    return load(model, write("round-trip.toml", text), ())[0]


@given(CONFIGS, st.booleans(), st.booleans())
def test_dump_config_loads_back_to_an_equal_config(config: Config, comments: bool, changed: bool) -> None:
    assert load_text(dump_config(config, comments, changed=changed)) == config


@given(CONFIGS)
def test_override_of_every_key_gives_an_equal_config(config: Config) -> None:
    keys = list_keys(config)
    idle = {name for name, _, _ in find_idle(config, [key.name for key in keys])}
    overrides = [
        f"{key.name}={'unset' if key.value is None else to_toml(key.value)}" for key in keys if key.name not in idle
    ]
    assert load_config(None, overrides) == config


def test_dump_config_writes_unset_keys_as_comments_and_origins_at_the_end() -> None:
    config = Config(data=DataConfig(crossing="drop"))
    text = dump_config(config, comments=False, origins={"data.crossing": "a.toml:3", "data.on_error": "--set"})
    assert '[data]\n# overlaps = (unset)\ncrossing = "drop"  # a.toml:3 (default: "fail")\n' in text
    assert 'on_error = "fail"  # --set\n' in text


def test_dump_config_comments_explain_every_key() -> None:
    text = " ".join(dump_config(Config()).replace("# ", "").split())
    for key in list_keys(Config()):
        assert f"{key.description} {key.expected} " in text


def test_dump_config_changed_leaves_out_defaults() -> None:
    assert dump_config(Config(), changed=True) == ""
    config = Config(tagging=TaggingConfig(fill="lower"))
    assert dump_config(config, comments=False, changed=True) == '[tagging]\nfill = "lower"\n'


class Inner(Section):
    """A section in a section."""

    steps: Annotated[int, Field(ge=1)] = Field(default=3, description="How many.")
    rates: tuple[float, ...] = Field(default=(0.5,), description="How fast.")


class Outer(Section):
    """A section with keys and a section."""

    inner: Inner = Inner()
    ways: tuple[Literal["nw", "se"], ...] = Field(default=("nw", "se"), description="Where to.")
    title: str | None = Field(default=None, description="What for.")


class Tree(Section):
    """A tree as later sections may make it."""

    outer: Outer = Outer()
    seed: int = Field(default=0, description="A key without a section.")

    @model_validator(mode="after")
    def _check(self) -> Tree:
        if self.seed < 0 and self.outer.title is None:
            raise ValueError("a title beside a negative seed")
        return self


TREES = st.builds(
    Tree,
    outer=st.builds(
        Outer,
        inner=st.builds(
            Inner,
            steps=st.integers(min_value=1),
            rates=st.lists(st.floats(allow_nan=False) | st.integers(-9, 9).map(float)).map(tuple),
        ),
        ways=st.lists(st.sampled_from(["nw", "se"])).map(tuple),
        title=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    ),
    seed=st.integers(min_value=0),
)


@given(TREES, st.booleans(), st.booleans())
@example(Tree(outer=Outer(title='\x7f\x00\r\n\t"\\\x85\u2028🙂')), True, True)
def test_dump_config_round_trip_holds_for_nested_sections_and_all_types(
    tree: Tree, comments: bool, changed: bool
) -> None:
    assert load_text(dump_config(tree, comments, changed=changed), Tree) == tree


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["outer.inner.steps=0"], "--set, outer.inner.steps: found 0; expected greater than or equal to 1"),
        (["outer.inner.steps=2.0"], "--set, outer.inner.steps: found 2.0; expected a whole number"),
        (['outer.inner.rates=["x", 1]'], '--set, outer.inner.rates: found ["x", 1]; expected a list (each a number)'),
        (['outer.ways=["nw", "up"]'], '--set, outer.ways: found ["nw", "up"]; expected a list (each "nw" or "se")'),
        (["outer.title=3"], "--set, outer.title: found 3; expected a string, or the key left unset"),
        (["seed=-1"], "config: found settings that do not go together; expected a title beside a negative seed"),
    ],
)
def test_new_sections_get_their_messages_from_their_types(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Tree, None, overrides)
    assert str(caught.value) == message


def outcome(path: Path | None, *overrides: str) -> str:
    try:
        load_config(path, overrides)
    except ConfigError as error:
        return str(error)
    return "fine"


@given(st.binary(max_size=60) | st.text("[]{}=.#'\"\n texwordsun123,", max_size=60).map(str.encode))
def test_any_file_gives_a_config_or_a_config_error(data: bytes) -> None:
    Path("fuzz.toml").write_bytes(data)
    assert outcome(Path("fuzz.toml")).startswith(("fuzz.toml", "fine"))


@given(st.text(max_size=30) | st.text("[]{}=.#'\"\n textwordsun123,", max_size=30).map("text.words={}".format))
def test_any_override_gives_a_config_or_a_config_error(override: str) -> None:
    assert outcome(None, override).startswith(("--set", "fine"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_config_loads(path: Path) -> None:
    load_config(path)


@pytest.mark.parametrize("path", sorted((ROOT / "configs/ablations").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_ablation_changes_what_it_names(path: Path) -> None:
    table: dict[str, Any] = tomllib.loads(path.read_text())
    base = load_config(path.parent / table.pop("extends")).to_dict()
    own = load_config(path).to_dict()
    changes = {name: {k: v for k, v in keys.items() if v != base[name][k]} for name, keys in own.items()}
    assert {name: keys for name, keys in changes.items() if keys} == table


def test_documentation_lists_exactly_the_keys_there_are() -> None:
    rows = re.findall(r"^\| `.*$", (ROOT / "docs/configuration.md").read_text(encoding="utf-8"), re.MULTILINE)
    expected = []
    for key in list_keys(Config()):
        default = "unset" if key.default is None else f"`{to_toml(key.default)}`"
        expected.append(f"| `{key.name}` | {default} | {key.expected} | {key.description} |")
    assert rows == expected


def test_documentation_examples_load_and_fail_as_they_say() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    write("paper/conll04.toml", (ROOT / "configs/paper/conll04.toml").read_text())
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        load_config(write(f"docs/{number}.toml", block))
    messages = re.findall(r"^my\.toml:.*$", text, re.MULTILINE)
    path = write("my.toml", blocks[0].replace("words", "wrods").replace('"skip"', "true"))
    assert problems(path) == messages


def test_fp16_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ConfigError, match=r'training\.precision: found "fp16"; expected "fp32" or "bf16" \(losses are summed'
    ):
        load_config(None, ["training.precision=fp16"])
    with pytest.raises(ConfigError, match=r'found "half"; expected "fp32" or "bf16"$'):
        load_config(None, ["training.precision=half"])
    assert load_config(None, ["training.precision=bf16"]).training.precision == "bf16"


def test_width_of_the_table_must_be_divided_among_its_directions() -> None:
    assert load_config(None, ["table.width=66"]).table.width == 66
    with pytest.raises(ConfigError, match=r"table\.width \(65\) that the number of table\.directions \(2\) divides"):
        load_config(None, ["table.width=65"])
    assert load_config(None, ["table.width=65", "table.kind=cnn"]).table.width == 65


@pytest.mark.parametrize(
    ("overrides", "idle", "cure"),
    [
        (["table.kind=cnn", 'table.directions=["nw"]'], "table.directions", 'set table.kind to "md-gru"'),
        (["table.kind=none", "table.width=64"], "table.width", 'set table.kind to "md-gru" or "cnn"'),
        (["table.kernel_size=5"], "table.kernel_size", 'set table.kind to "cnn"'),
        (["encoder.kind=elmo", "encoder.pooling=first"], "encoder.pooling", 'set encoder.kind to "huggingface"'),
        (["encoder.kind=none", "encoder.lora_rank=4"], "encoder.lora_rank", 'set encoder.tuning to "lora"'),
        (["encoder.mixing=learned", "encoder.n_layers=6"], "encoder.n_layers", 'set encoder.mixing to "mean"'),
        (["training.schedule=linear", "training.decay_rate=0.1"], "training.decay_rate", "set training.schedule to"),
        (["training.encoder_learning_rate=1e-4"], "training.encoder_learning_rate", "set encoder.tuning to"),
        (["tagging.kind=spans", "tagging.fill=lower"], "tagging.fill", 'set tagging.kind to "words"'),
        (["tagging.kind=spans", "tagging.cells=last"], "tagging.cells", 'set tagging.kind to "words"'),
        (["tagging.kind=spans", "tagging.directed=false"], "tagging.directed", 'set tagging.kind to "words"'),
        (["tagging.kind=spans", "tagging.conflicts=first"], "tagging.conflicts", 'set tagging.kind to "words"'),
        (["tagging.kind=spans", "decoding.opposite=ignored"], "decoding.opposite", 'set tagging.kind to "words"'),
        (["tagging.kind=spans", "decoding.entities=viterbi"], "decoding.entities", 'set tagging.kind to "words"'),
        (["training.unlabelled=a.txt"], "training.unlabelled", "set training.teachers to a list of trained models"),
        (
            ["training.teacher_weight=0.2"],
            "training.teacher_weight",
            "set training.teachers to a list of trained models",
        ),
        (
            ['training.teachers=["news"]', "training.unlabelled_sentences=9"],
            "training.unlabelled_sentences",
            "set training.unlabelled to a file of text",
        ),
        (["decoding.overlap=any"], "decoding.overlap", 'set tagging.kind to "spans"'),
        (["decoding.relations_of_pair=one"], "decoding.relations_of_pair", 'set tagging.kind to "spans"'),
    ],
)
def test_setting_that_does_nothing_is_refused_with_its_cure(overrides: list[str], idle: str, cure: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, overrides)
    (line,) = str(caught.value).splitlines()
    assert f"expected no {idle}, which does nothing" in line
    assert f"leave it out ({idle}=unset), or {cure}" in line
    load_config(None, [*overrides, f"{idle}=unset"])


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("table.kind=none", r'a table\.kind other than "none", as tagging\.kind is "spans"'),
        ("training.diagonal_loss=false", r'a training\.diagonal_loss that is true, as tagging\.kind is "spans"'),
    ],
)
def test_span_tagging_needs_all_cells(override: str, wanted: str) -> None:
    load_config(None, [override])
    with pytest.raises(ConfigError, match=wanted):
        load_config(None, ["tagging.kind=spans", override])


def test_dump_config_writes_keys_that_do_nothing_as_comments() -> None:
    text = dump_config(load_config(None, ["table.kind=none"]), comments=False)
    assert '# kernel_size = 3  (only if table.kind is "cnn")\n' in text
    assert '# directions = ["nw", "se"]  (only if table.kind is "md-gru")\n' in text
    assert load_text(text) == load_config(None, ["table.kind=none"])


def test_settings_of_a_record_are_not_given_by_anybody() -> None:
    config = load_config(None, ["table.kind=cnn"])
    assert load_record(config.to_dict()) == config, "it names every key, table.directions too"


def test_record_without_newer_settings_has_the_values_of_its_time() -> None:
    """Models without model.initialisation began with torch's values, which is no longer the default."""
    older = Config().to_dict()
    del older["model"]["initialisation"], older["tagging"]["conflicts"]
    assert load_record(older).model.initialisation == "torch"
    assert load_record(older).tagging.conflicts == "first"
    assert load_record(Config().to_dict()) == Config()


def test_removed_settings_are_refused_only_if_they_did_something() -> None:
    older = Config().to_dict()
    older["training"]["consistency"] = 0.0
    assert load_record(older) == Config()
    older["training"]["consistency"] = 1.0
    with pytest.raises(ConfigError, match=r"training\.consistency"):
        load_record(older)


def test_conditions_name_settings_and_values_that_there_are() -> None:
    known = fields(Config)
    for condition in CONDITIONS:
        assert {*condition.names, condition.key} <= set(known)
        assert {f'"{value}"' for value in condition.values} <= set(
            re.findall(r'"[\w-]+"', expected(known[condition.key]))
        )
