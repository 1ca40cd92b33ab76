"""Reading XML from others: no entities, and nothing from outside."""

from __future__ import annotations

from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from relatum.data.records import BadRecord, show


def parse_xml(data: bytes | str) -> Element:
    """Parse XML into its root element; nothing outside the data is loaded, and declarations of entities are refused."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data

    def declared(name: str, *_: object) -> None:
        raise BadRecord(f"a declaration of the entity {show(name)}", "XML that declares no entities")

    def unknown(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            builder.data(f"&{name};")

    parser.EntityDeclHandler = declared
    parser.SkippedEntityHandler = unknown
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadRecord(f"an error in the XML ({error})", "well-formed XML") from None
    return builder.close()
