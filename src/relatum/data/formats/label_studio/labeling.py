"""Label Studio's labelling configuration: the XML that names the text, the entity types and the relation types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relatum.data.records import BadRecord
from relatum.errors import FormatError
from relatum.schema import Schema

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CONFIG_FILE = "labeling_config.xml"
"""The end of the name of the file with the labelling configuration."""
_CURE = 'expected a <Text name="…" value="$…"/> with <Labels toName="…"> for it'


@dataclass(frozen=True, slots=True)
class LabelingConfig:
    """The names that a project in Label Studio has for a text, the types of its regions and those of its relations."""

    to_name: str
    """The name of the <Text> tag, which regions name."""
    key: str
    """The key of the text in a task's data."""
    labels: Mapping[str, tuple[str, str]]
    """For each entity type, the name of its <Labels> tag and the label that regions have."""
    relations: Mapping[str, str]
    """For each relation type, the label that relations have."""

    @classmethod
    def of_schema(cls, schema: Schema) -> LabelingConfig:
        """Return the names in the configuration that `labeling_config` makes."""
        labels = {label: ("label", label) for label in schema.entity_types}
        return cls("text", "text", labels, {name: name for name in schema.relation_names})

    @classmethod
    def parse(cls, xml: str) -> LabelingConfig:
        """Read a configuration; the first text that has labels counts. Messages do not quote it."""
        from relatum.data.formats.xml_files import DEEPEST, parse_xml  # few read a configuration

        try:
            root = parse_xml(xml, DEEPEST)
        except BadRecord:
            raise FormatError(
                "labelling configuration: found XML that has errors, nests elements too deeply or declares entities; "
                "expected well-formed XML without entities of its own"
            ) from None
        controls: defaultdict[str, list[Element]] = defaultdict(list)
        for tag in _find(root, "labels"):
            for target in tag.get("toName", "").split(",") if tag.get("name") else ():
                controls[target].append(tag)
        for text in _find(root, "text"):
            name, key = text.get("name", ""), text.get("value", "")
            own = controls.get(name)
            if not name or not own:
                continue
            if not key.startswith("$") or not key[1:]:
                raise FormatError(f"labelling configuration: found a <Text> whose value is no $variable; {_CURE}")
            if text.get("valueType", "text") != "text" or text.get("encoding", "none") != "none":
                raise FormatError(
                    "labelling configuration: found a <Text> whose text is at a URL or encoded; expected the text "
                    "itself in the task, as relatum fetches nothing"
                )
            labels = {label: (tag.get("name", ""), shown) for tag in own for label, shown in _offered(tag, "label")}
            relations = {one: shown for tag in _find(root, "relations") for one, shown in _offered(tag, "relation")}
            return cls(name, key[1:], labels, relations)
        raise FormatError(f"labelling configuration: found no text with labels; {_CURE}")


def _find(root: Element, name: str) -> Iterator[Element]:
    return (tag for tag in root.iter() if tag.tag.lower() == name)


def _offered(block: Element, name: str) -> Iterator[tuple[str, str]]:
    """Yield the value of each tag in a block, and the label that Label Studio stores for it."""
    for tag in _find(block, name):
        value, alias = tag.get("value"), tag.get("alias")
        if value:
            yield value, alias or value
        if alias:
            yield alias, alias


def labeling_config(schema: Schema) -> tuple[str, str]:
    """Return the labelling interface to set up in Label Studio before the tasks are imported."""
    from xml.sax.saxutils import quoteattr  # brings half of urllib with it

    lines = ["<View>"]
    if schema.relation_types:
        relations = [f"    <Relation value={quoteattr(name)}/>" for name in schema.relation_names]
        lines += ['  <Relations choice="multiple">', *relations, "  </Relations>"]
    labels = [f"    <Label value={quoteattr(label)}/>" for label in schema.entity_types]
    lines += ['  <Labels name="label" toName="text">', *labels, "  </Labels>"]
    lines += ['  <Text name="text" value="$text"/>', "</View>"]
    return CONFIG_FILE, "\n".join(lines) + "\n"
