"""Writing XMI, with the types that INCEpTION has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from relatum.data.documents import Names
from relatum.data.formats.folders import check_text
from relatum.data.formats.utf16 import units_of_characters
from relatum.data.formats.xml_files import NOT_XML, escape_attribute
from relatum.data.records import BadRecord, show
from relatum.types import Document, Span

_ANNOTATION, _STRING = "uima.tcas.Annotation", "uima.cas.String"
_DKPRO = "de.tudarmstadt.ukp.dkpro.core.api"
_TYPES = {
    f"{_DKPRO}.segmentation.type.Token": {},
    f"{_DKPRO}.segmentation.type.Sentence": {},
    f"{_DKPRO}.ner.type.NamedEntity": {"value": _STRING},
    "webanno.custom.Relation": {"Governor": _ANNOTATION, "Dependent": _ANNOTATION, "label": _STRING},
}


def _type_description(name: str, features: dict[str, str]) -> str:
    described = "".join(
        f"<featureDescription><name>{feature}</name><description/><rangeTypeName>{range_type}</rangeTypeName>"
        "</featureDescription>"
        for feature, range_type in features.items()
    )
    return (
        f"<typeDescription><name>{name}</name><description/><supertypeName>{_ANNOTATION}</supertypeName>"
        f"<features>{described}</features></typeDescription>\n"
    )


TYPE_SYSTEM = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier">\n<types>\n'
    + "".join(_type_description(*item) for item in _TYPES.items())
    + "</types>\n</typeSystemDescription>\n"
)
_START = f"""<?xml version="1.0" encoding="UTF-8"?>
<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" \
xmlns:segmentation="http:///{_DKPRO.replace(".", "/")}/segmentation/type.ecore" \
xmlns:ner="http:///{_DKPRO.replace(".", "/")}/ner/type.ecore" \
xmlns:custom="http:///webanno/custom.ecore" xmi:version="2.0">
<cas:NULL xmi:id="0"/>
"""


def file_content(document: Document) -> str:
    """Return the content of a document's file."""
    check_text(document)
    _check(document.text)
    ids = count(2)
    members = []
    lines = []
    for line in _lines(document):
        id = next(ids)
        members.append(str(id))
        lines.append(line.replace("ID", str(id), 1) + "\n")
    text = escape_attribute(document.text)
    sofa = f'<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="{text}"/>\n'
    view = f'<cas:View sofa="1" members="{" ".join(members)}"/>\n'
    return "".join([_START, *lines, sofa, view, "</xmi:XMI>\n"])


def _lines(document: Document) -> Iterator[str]:
    """Yield an element for each annotation, with ID for its number; the numbers of entities are the first from 2 on."""
    units = units_of_characters(document.text)
    entities = document.annotation.entities

    def element(type: str, span: Span, features: str = "") -> str:
        return f'<{type} xmi:id="ID" sofa="1" begin="{units[span.start]}" end="{units[span.end]}"{features}/>'

    for entity in entities:
        if entity.fragments:
            raise BadRecord(f"the discontinuous entity {show(entity.label)}", "entities of one piece")
        yield element("ner:NamedEntity", entity.span, f' value="{_attribute(entity.label)}"')
    names = Names(entities)
    numbers = {name: number for number, name in enumerate(names.all, 2)}
    for relation in document.annotation.relations:
        head, tail = numbers[names.of(relation.head)], numbers[names.of(relation.tail)]
        features = f' Governor="{head}" Dependent="{tail}" label="{_attribute(relation.label)}"'
        yield element("custom:Relation", relation.tail.span, features)
    words = document.words or ()
    for word in words:
        yield element("segmentation:Token", word)
    for first, last in document.sentences or ():
        yield element("segmentation:Sentence", Span(words[first].start, words[last - 1].end))


def _attribute(label: str) -> str:
    _check(label)
    if not label:
        raise BadRecord("an empty label", "labels that are not empty")
    return escape_attribute(label)


def _check(text: str) -> None:
    if match := NOT_XML.search(text):
        raise BadRecord(f"the character {show(match[0])}", "characters that XML can hold")
