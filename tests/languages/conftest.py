from __future__ import annotations

from pathlib import Path

import pytest

from kernelevolve.languages.build_cache import BUILD_DIRECTORY_VARIABLE


@pytest.fixture(autouse=True)
def build_directory(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds of a test session lie in a directory of its own."""
    place = tmp_path_factory.getbasetemp() / "builds"
    monkeypatch.setenv(BUILD_DIRECTORY_VARIABLE, str(place))
    return place
