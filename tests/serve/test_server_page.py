"""The page in a real browser: type, read, click a node, with the keyboard too; nothing may be said on the console.

Screenshots go to `build/screenshots/`, or to the folder that the variable LABELPRISM_SCREENSHOTS names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright for the tests of the page")

expect = playwright.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FOLDER = Path(os.environ.get("LABELPRISM_SCREENSHOTS", Path(__file__).parents[2] / "build" / "screenshots"))

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; on Debian: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def opened_page(browser: Any, url: str, allowed: str | None = None) -> Iterator[Any]:
    """A page in a fresh window; whatever the console says, but for what is allowed, is an error of the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    said: list[str] = []
    context.on("console", lambda message: said.append(message.text))
    context.on("weberror", lambda error: said.append(str(error.error)))
    opened = context.new_page()
    opened.goto(url)
    yield opened
    context.close()
    assert [line for line in said if allowed is None or allowed not in line] == []


@pytest.fixture
def page(browser: Any, server: Any) -> Iterator[Any]:
    with opened_page(browser, server.url) as opened:
        yield opened


def labels(page: Any) -> list[str]:
    found: list[str] = page.locator("#labels b").all_inner_texts()
    return found


def shot(page: Any, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=FOLDER / f"{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_type_read_and_click(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    expect(page.locator("#model")).to_have_value("texts")
    assert "108 labels" in page.locator("#about").inner_text()
    page.locator("#text").press_sequentially("boat sail mast", delay=20)
    expect(page.locator("#status")).to_contain_text("the best is ship")
    assert labels(page)[0] == "ship"
    page.locator("#text").press_sequentially(" bold markup tag quoted tag bold", delay=5)
    name = '<b>bold & "quoted"</b>'  # which is not markup here
    expect(page.locator("#labels b").filter(has_text=name)).to_have_count(1)
    page.locator("#labels summary").first.click()
    assert page.locator("#labels details[open] li").count() > 0
    buttons = page.locator(".way button")
    assert buttons.count() >= 2
    buttons.first.click()
    page.wait_for_selector("#node-title")
    assert "at depth 0" in page.locator("#node-title").inner_text()
    assert buttons.first.get_attribute("aria-pressed") == "true"
    assert page.locator("#node table").first.locator("tr").count() >= 4
    shot(page, f"page-{scheme}")
    page.locator("#text").fill("")
    expect(page.locator("#labels li")).to_have_count(0)


def test_keyboard_alone(page: Any) -> None:
    expect(page.locator("#model")).to_have_value("texts")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the text"
    page.keyboard.press("Enter")
    page.keyboard.type("oak forest leaf")
    expect(page.locator("#status")).to_contain_text("the best is tree")
    first = page.locator(".way button").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.node") != first.get_attribute("data-node")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node-title")


def test_names_for_screen_readers(page: Any) -> None:
    page.locator("#text").fill("hound puppy")
    page.wait_for_selector(".way button")
    unnamed = page.evaluate(
        """[...document.querySelectorAll('input:not([hidden] *), select, textarea, button, a, img')].filter(each =>
             !(each.labels?.length || each.textContent.trim() || each.hasAttribute('alt')
               || each.getAttribute('aria-label'))).map(each => each.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("[role=status][aria-live=polite]").count() == 1
    assert [page.locator(f"h{level}").count() > 0 for level in (1, 2, 3)] == [True] * 3
    assert page.evaluate("document.documentElement.lang") == "en"


def test_a_model_of_rows_and_a_small_window(page: Any) -> None:
    expect(page.locator("#model option")).to_have_count(3)
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator("#model").select_option("rows")
    page.locator("#text").fill("3:1 17:0.5")
    page.wait_for_selector("#labels li")
    assert page.locator("#text-label").inner_text() == "Row"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    shot(page, "page-narrow")
    page.locator("#text").fill("3:x")
    expect(page.locator("#problem")).to_contain_text("index:value")


def test_pages_of_the_api_and_the_explorer(page: Any, server: Any) -> None:
    page.goto(f"{server.url}/docs")
    page.locator("summary", has_text="POST /v1/models/{name}/predict").click()
    assert page.locator("details[open] td", has_text="The body is too large").count() == 1
    shot(page, "api")


def test_the_explorer_explains_texts(page: Any) -> None:
    pytest.importorskip("plotly", reason="the explorer needs plotly: pip install 'labelprism[explore]'")
    expect(page.locator("#model")).to_have_value("texts")
    page.locator("#explorer").click()
    page.locator("#tab-example").click()
    page.locator("#text").fill("boat sail mast")
    page.locator("#explain").click()
    expect(page.locator("#example table").first).to_contain_text("ship")
    shot(page, "explorer")


def test_the_explorer_behind_a_token(browser: Any, start: Any, models: dict[str, Path]) -> None:
    pytest.importorskip("plotly", reason="the explorer needs plotly: pip install 'labelprism[explore]'")
    with (
        start(str(models["texts"]), env={"LABELPRISM_TOKEN": "s3cret"}) as server,
        opened_page(browser, server.url, allowed="401 (Unauthorized)") as page,
    ):
        page.locator("#token").fill("wrong")
        page.locator("#token").blur()
        expect(page.locator("#problem")).to_contain_text("wants its token")
        page.locator("#token").fill("s3cret")
        page.locator("#token").blur()
        expect(page.locator("#model")).to_have_value("texts")
        with page.expect_popup() as opening:
            page.locator("#explorer").click()
        explorer = opening.value
        explorer.locator("#tab-example").click()
        explorer.locator("#text").fill("boat sail mast")
        explorer.locator("#explain").click()
        expect(explorer.locator("#example table").first).to_contain_text("ship")
