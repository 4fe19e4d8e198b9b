"""The files of a release: versions that agree, licences that are there, what is compiled in."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest

import labelprism

ROOT = Path(__file__).parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools/release" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


versions = tool("versions")


def test_versions_agree() -> None:
    assert versions.disagreements(ROOT) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that is ready to be released as 1.2.0."""
    (tmp_path / "src/labelprism").mkdir(parents=True)
    (tmp_path / "src/labelprism/__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0, 2030-01-31\n\n- News.\n\n## 1.1.0, 2029-12-01\n")
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\ndate-released: 2030-01-31\n")
    return tmp_path


def test_ready_for_release(project: Path) -> None:
    assert versions.disagreements(project) == []
    assert versions.disagreements(project, "v1.2.0") == []


@pytest.mark.parametrize(
    ("file", "text", "tag", "complaint"),
    [
        ("CHANGELOG.md", "## 1.3.0, unreleased\n", None, "newest section of CHANGELOG.md is that of '1.3.0'"),
        ("CITATION.cff", "cff-version: 1.2.0\nversion: 1.1.0\n", None, "CITATION.cff has the version '1.1.0'"),
        ("CHANGELOG.md", "## 1.2.0, unreleased\n", "v1.2.0", "'unreleased' where the date"),
        ("CITATION.cff", "version: 1.2.0\ndate-released: 2030-02-01\n", "v1.2.0", "date-released: '2030-02-01'"),
        ("CITATION.cff", "version: 1.2.0\n", "v1.2.0", "date-released: ''"),
        ("src/labelprism/__init__.py", '__version__ = "1.2"\n', None, "write MAJOR.MINOR.PATCH"),
        ("src/labelprism/__init__.py", '__version__ = "1.2.0"\n', "v1.2.1", "the tag is 'v1.2.1'"),
        ("src/labelprism/__init__.py", '__version__ = "1.2.0"\n', "1.2.0", "the tag is '1.2.0'"),
    ],
)
def test_what_does_not_agree(project: Path, file: str, text: str, tag: str | None, complaint: str) -> None:
    (project / file).write_text(text)
    assert any(complaint in sentence for sentence in versions.disagreements(project, tag))


def test_licences_are_in_the_package() -> None:
    files = {str(path).rpartition(".dist-info/")[2] for path in distribution("labelprism").files or []}
    assert {"licenses/LICENSE", "licenses/THIRD_PARTY_LICENSES.md", "sboms/labelprism.cdx.json"} <= files


def test_what_is_compiled_in_is_listed() -> None:
    bill = json.loads(distribution("labelprism").read_text("sboms/labelprism.cdx.json") or "")
    assert bill["metadata"]["component"]["version"] == labelprism.__version__
    parts = {part["name"]: part for part in bill["components"]}
    assert {"nanobind", "robin-map", "Unicode Character Database", "Tate collection metadata"} <= parts.keys()
    assert re.fullmatch(r"\d+\.\d+\.\d+", parts["nanobind"]["version"])
    assert parts["nanobind"]["purl"] == f"pkg:pypi/nanobind@{parts['nanobind']['version']}"
    assert parts["robin-map"]["purl"] == f"pkg:github/tessil/robin-map@v{parts['robin-map']['version']}"
    unicode = (ROOT / "src/core/unicode_tables.inc").read_text(encoding="utf-8").partition("\n")[0]
    assert parts["Unicode Character Database"]["version"] in unicode
    listed = (ROOT / "THIRD_PARTY_LICENSES.md").read_text(encoding="utf-8")
    for part in bill["components"]:
        (licence,) = part["licenses"]
        assert licence["license"]["id"] in listed, part["name"]


def test_licences_of_dependencies_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    licences = tool("licences")
    page = tmp_path / "licences.md"
    shutil.copy(ROOT / "docs/licences.md", page)
    monkeypatch.setattr(licences, "PAGE", page)
    monkeypatch.setattr(licences, "FOR_DEVELOPERS", set(licences.distribution_extras()))  # the core alone: it is here
    licences.main("check")
    page.write_text(page.read_text(encoding="utf-8").replace("| scipy |", "| other |"), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"lacks \['scipy'\]"):
        licences.main("check")
