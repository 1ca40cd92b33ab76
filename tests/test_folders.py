from __future__ import annotations

from pathlib import Path

import pytest

from relatum.errors import RelatumError
from relatum.folders import cache_folder


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RELATUM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_cache_folder_is_in_the_home_folder() -> None:
    assert cache_folder() == Path.home() / ".cache" / "relatum"


def test_cache_folder_follows_xdg_cache_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "relatum"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_cache_folder_ignores_an_invalid_xdg_cache_home(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == Path.home() / ".cache" / "relatum"


def test_cache_folder_is_relatum_cache_above_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RELATUM_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"


def test_cache_folder_of_an_unknown_user_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELATUM_CACHE", "~no-such-user-here")
    with pytest.raises(RelatumError, match=r"~no-such-user-here: the home folder .* write the path out"):
        cache_folder()
