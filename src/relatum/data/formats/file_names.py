"""Document ids as file names, and back."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from relatum.data.records import BadRecord, show

_UNSAFE = r'[\x00-\x1f\x7f%<>:"/\\|?*]|\A\.|[. ]\Z'
_UNSAFE_FILE = re.compile(_UNSAFE)
# A folder must not have the name that some document's file has.
_UNSAFE_FOLDER = re.compile(_UNSAFE + r"|\.(?=(?:txt|ann|json|tsv|xmi)\Z)", re.IGNORECASE)


class FileNames:
    """File names for document ids, which all file systems can hold, no two ids having the same."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._meanings: dict[str, str] = {}

    def of(self, id: str) -> str:
        """Return the file name for an id, without a suffix, with `/` between folders."""
        if not id or not is_unicode(id):
            raise BadRecord(f"the id {show(id)}", "an id that can be a file name")
        if id in self._ids:
            raise BadRecord(f"the id {show(id)} again", "ids that differ, as their files need names that do")
        self._ids.add(id)
        folder_path = meaning = ""
        *folders, last = re.split(r"(?<=[^/])/(?=[^/])", id)
        for folder in folders:
            meaning += f"{folder}/"
            folder_path += f"{self._name(folder_path, folder, meaning, is_folder=True)}/"
        return folder_path + self._name(folder_path, last, id, is_folder=False)

    def _name(self, folder_path: str, segment: str, meaning: str, is_folder: bool) -> str:
        """Return the segment made safe; escaped in full if another segment differs from it only in case."""
        for name in (_safe(segment, is_folder), _percent(segment)):
            key = unicodedata.normalize("NFC", folder_path + name).casefold() + "/" * is_folder
            if self._meanings.setdefault(key, meaning) == meaning:
                return name
        raise AssertionError("two segments have the same full escape")


def id_of(name: str) -> str:
    """Return the id that a file name stands for; only escapes that `FileNames` would write are resolved."""
    *folders, last = name.split("/")
    return "/".join([*(_meaning(folder, is_folder=True) for folder in folders), _meaning(last, is_folder=False)])


def _meaning(name: str, is_folder: bool) -> str:
    try:
        meaning = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
    return meaning if name in (_safe(meaning, is_folder), _percent(meaning)) else name


def _safe(segment: str, is_folder: bool) -> str:
    return (_UNSAFE_FOLDER if is_folder else _UNSAFE_FILE).sub(lambda match: _percent(match[0]), segment)


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
