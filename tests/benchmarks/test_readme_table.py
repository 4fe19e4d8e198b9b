"""The table and the picture of README.md are those of docs/benchmarks.md."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest


@pytest.fixture(scope="module")
def found() -> object:
    import readme

    return readme.results(readme.PAGE.read_text("utf-8"))


def test_readme_has_the_numbers_of_the_page(found: object) -> None:
    import readme

    text = readme.README.read_text("utf-8")
    assert readme.with_table(text, found) == text, "run python benchmarks/readme.py"


def test_picture_is_of_these_numbers(found: object) -> None:
    import readme

    svg = readme.picture(found)
    assert readme.PICTURE.read_text("utf-8") == svg, "run python benchmarks/readme.py"
    drawn = ElementTree.fromstring(svg)
    marks = drawn.findall("{*}circle/{*}title") + drawn.findall("{*}path/{*}title")  # those that lie below point down
    n_results = sum(system in results for results in found.values() for system in list(readme.SYSTEMS)[1:])  # type: ignore[attr-defined]
    assert len(marks) == n_results
    for circle in drawn.findall("{*}circle"):
        assert 0 < float(circle.attrib["cx"]) < readme.WIDTH
        assert 0 < float(circle.attrib["cy"]) < readme.HEIGHT


def test_a_page_without_tables_is_refused() -> None:
    import readme

    with pytest.raises(ValueError, match="has no table of"):
        readme.results("# Beside other systems\n")
    with pytest.raises(ValueError, match="<!-- table -->"):
        readme.with_table("# labelprism\n", {})
