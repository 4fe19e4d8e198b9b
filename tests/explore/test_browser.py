"""The page in a browser; skipped where there is none."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from small_data import HOSTILE

from labelprism import PrismClassifier
from labelprism.data.dataset import Dataset
from labelprism.explore import explained, page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"there is no browser: none of {', '.join(BROWSERS)} is on the path")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, text_model: PrismClassifier, test: Dataset) -> Path:
    path = tmp_path_factory.mktemp("page") / "tree.html"
    path.write_text(page(text_model, test, title="Test labels", n_examples=9), encoding="utf-8")
    return path


class Tab:
    """A page that must not complain, and must not fetch anything."""

    def __init__(self, browser: Any, url: str, script: str | None = None, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        self.complaints: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", self._requested)
        if script is not None:
            self.page.add_init_script(script)
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]", timeout=30_000)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", "blob:", "data:", "http://127.0.0.1:")):
            self.complaints.append(request.url)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []


@pytest.fixture(scope="module")
def opened(browser: Any, file: Path) -> Iterator[Tab]:
    tab = Tab(browser, file.as_uri())
    yield tab
    tab.close()


@pytest.fixture
def tab(opened: Tab) -> Iterator[Tab]:
    """The page as it was in the beginning; to load it anew for every test would take too long."""
    opened.page.click("#tab-tree")
    if opened.page.is_visible("#clear"):
        opened.page.click("#clear")
    for field, value in (("shape", "icicle"), ("colour", "purity"), ("which", "0")):
        opened.page.select_option(f"#{field}", value)
    yield opened
    assert opened.complaints == []


def test_a_click_on_a_node_tells_about_it_and_another_zooms(tab: Tab) -> None:
    assert tab.text("#panel h2") == "tree 1"
    sectors = tab.page.locator("#plot .slice")
    assert sectors.count() >= 5
    sectors.nth(1).click()
    title = tab.text("#panel h2")
    assert title != "tree 1"
    assert "Over-represented against its parent" in tab.text("#panel")
    assert "Strongest features of the router" in tab.text("#panel")
    assert tab.page.locator('#outline [aria-selected="true"]').count() == 1
    assert tab.page.locator("#crumbs li").count() == 1
    sectors.nth(1).click()
    assert tab.page.locator("#crumbs li").count() == 2
    tab.page.click("#crumbs button")
    assert tab.page.locator("#crumbs li").count() == 1
    assert tab.text("#panel h2") == "tree 1"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_selected_node_can_be_read_at_once(browser: Any, file: Path, scheme: str) -> None:
    """Its colours change together: the row was white on white for as long as its ground took to turn."""
    tab = Tab(browser, file.as_uri(), color_scheme=scheme)
    colours = tab.page.evaluate(
        """() => {
          const rows = [...document.querySelectorAll('#outline .row')].slice(0, 2);
          rows[1].click();
          return rows.map((row) => [getComputedStyle(row), getComputedStyle(row.querySelector('.name'))])
            .map(([row, name]) => [row.backgroundColor, name.color]);
        }"""
    )
    accent, ink, on_accent = (
        tab.page.evaluate(
            """(name) => {
              const probe = document.createElement('i');
              probe.style.color = `var(--${name})`;
              document.body.append(probe);
              return getComputedStyle(probe).color;
            }""",
            name,
        )
        for name in ("accent", "ink", "on-accent")
    )
    assert colours == [["rgba(0, 0, 0, 0)", ink], [accent, on_accent]]
    tab.close()


def test_shapes_and_colours(tab: Tab) -> None:
    for shape, measure in product(("icicle", "treemap"), ("purity", "balance", "recall", "tail share")):
        tab.page.select_option("#shape", shape)
        tab.page.select_option("#colour", measure)
        assert f"{measure}: " in tab.text("#legend")
        assert tab.page.locator(f"#plot .{shape}layer .slice").count() >= 5
        if shape == "icicle":
            assert f"{measure} 0." in tab.text("#plot") or f"{measure} 1." in tab.text("#plot")


def test_a_label_that_is_searched_for_lights_up(tab: Tab) -> None:
    tab.page.fill("#search", "SUBJECT 5")
    options = tab.page.locator("#found li")
    assert options.count() == 11  # 5 and 50 to 59
    assert options.first.inner_text().startswith("subject 5\n")
    tab.page.press("#search", "ArrowDown")
    tab.page.press("#search", "Enter")
    assert tab.text("#lit").startswith("subject 5: ")
    assert "\u25cf" in tab.text("#plot")
    assert tab.page.is_hidden("#found")
    tab.page.click("#lit li button")
    assert "subject 5" in tab.text("#panel")
    tab.page.click("#clear")
    assert tab.page.is_hidden("#lit")
    assert "\u25cf" not in tab.text("#plot")
    tab.page.fill("#search", "nothing like that")
    assert tab.text("#found") == "no such label"
    tab.page.press("#search", "Escape")
    assert tab.page.is_hidden("#found")


def test_names_are_text_and_never_run(tab: Tab) -> None:
    tab.page.fill("#search", "</script>")
    assert HOSTILE in tab.text("#found")
    tab.page.press("#search", "Enter")
    assert tab.text("#lit").startswith(HOSTILE)
    tab.page.click("#lit li button")
    assert tab.page.evaluate("window.hacked") is None


def test_an_example_is_picked(tab: Tab, test: Dataset) -> None:
    tab.page.click("#tab-example")
    assert tab.page.locator("#pick option").count() == 9
    tab.page.select_option("#pick", "3")
    assert test.texts[55] in tab.text("#example blockquote")
    shown = tab.text("#example")
    for part in ("H (classifier)", "F (forest)", "Its way through tree 1", "margin", "p(turn)", "candidates"):
        assert part in shown
    assert tab.page.is_disabled("#text")
    assert "cannot run the model" in tab.text("#paste-note")
    tab.page.click("text=Show its way in the tree")
    assert tab.page.is_visible("#plot")
    assert tab.text("#lit").startswith("The way of an example")
    assert "p(here) 100%" in tab.text("#plot").replace("\n", " ")
    tab.page.click("#tab-example")
    tab.page.locator("#example .ways button").nth(2).click()
    assert tab.page.is_visible("#panel")


def test_a_text_of_ones_own_goes_to_the_hook(browser: Any, file: Path, text_model: PrismClassifier) -> None:
    answer = explained(text_model, ["own17 also17 group1"])
    script = f"window.labelprismExplain = async (text) => {{ window.asked = text; return {json.dumps(answer)}; }}"
    tab = Tab(browser, file.as_uri(), script)
    tab.page.click("#tab-example")
    tab.page.fill("#text", "own17 also17 group1")
    tab.page.click("#explain")
    tab.page.wait_for_selector("text=Your text")
    assert tab.page.evaluate("window.asked") == "own17 also17 group1"
    assert answer["labels"][0]["name"] in tab.text("#example")
    tab.close()


def test_a_text_of_ones_own_goes_to_the_server(browser: Any, text_model: PrismClassifier) -> None:
    text = page(text_model, explain_url="/explain").encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(text, "text/html; charset=utf-8")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(json.dumps(explained(text_model, [asked["text"]])).encode(), "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        tab = Tab(browser, f"http://127.0.0.1:{server.server_port}/")
        tab.page.click("#tab-example")
        tab.page.fill("#text", "own17 also17 group1")
        tab.page.click("#explain")
        tab.page.wait_for_selector("text=Your text")
        assert "subject 17" in tab.text("#example table")
        tab.close()
        server.shutdown()
        thread.join()


def test_the_whole_model(tab: Tab) -> None:
    tab.page.click("#tab-model")
    assert tab.page.locator("#charts .chart .main-svg").count() >= 4
    for title in ("Recall by depth", "Purity and balance by depth", "Candidates per leaf", "Label coverage"):
        assert title in tab.text("#charts")
    assert "Recall of F: 1.000" in tab.text("#charts")
    tab.page.locator("#charts summary").first.click()
    assert tab.page.locator("#charts table").first.is_visible()
    tab.page.click("#tab-about")
    assert "150 examples" in tab.text("#about")


def test_the_keyboard_alone_is_enough(browser: Any, file: Path) -> None:
    tab = Tab(browser, file.as_uri())
    keyboard = tab.page.keyboard
    tab.page.focus("#tab-tree")
    keyboard.press("ArrowRight")
    assert tab.page.is_visible("#view-example")
    keyboard.press("ArrowLeft")
    tab.page.focus('#outline [tabindex="0"]')
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown"):
        keyboard.press(key)
    at = tab.page.evaluate("document.activeElement.getAttribute('aria-level')")
    assert at == "3"
    keyboard.press("Enter")
    assert "Depth\n2" in tab.text("#panel")
    assert tab.page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    assert "Node " in tab.page.text_content("#status")
    keyboard.press("ArrowLeft")
    keyboard.press("ArrowLeft")
    assert tab.page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    keyboard.press("Shift+Enter")
    assert tab.page.locator("#crumbs li").count() == 2
    keyboard.press("Home")
    assert tab.page.evaluate("document.activeElement.getAttribute('aria-level')") == "1"
    keyboard.press("End")
    keyboard.press(" ")
    assert tab.page.input_value("#which") != "0"
    tab.close()


def contrast(tab: Tab, ink: str, ground: str) -> float:
    values = tab.page.evaluate(
        "names => names.map(n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim())",
        [ink, ground],
    )

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, values))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser: Any, file: Path, scheme: str) -> None:
    tab = Tab(browser, file.as_uri(), color_scheme=scheme)
    theme = "document.documentElement.dataset.theme"
    assert tab.page.evaluate(theme) == scheme
    for _ in range(2):
        for ink in ("ink", "soft", "accent", "mark"):
            for ground in ("ground", "raised"):
                assert contrast(tab, ink, ground) >= 4.5
        assert contrast(tab, "on-accent", "accent") >= 4.5
        assert contrast(tab, "line", "ground") >= 3
        tab.page.click("#theme")
    assert tab.page.evaluate(theme) == scheme
    tab.close()


def test_a_model_of_a_single_leaf(browser: Any, tmp_path: Path) -> None:
    model = PrismClassifier(random_state=0, n_jobs=1).fit([[1.0, 0.0], [0.0, 1.0]], [("a",), ("b",)])
    file = tmp_path / "leaf.html"
    file.write_text(page(model), encoding="utf-8")
    tab = Tab(browser, file.as_uri())
    for name in ("example", "model", "about", "tree"):
        tab.page.click(f"#tab-{name}")
    assert "made without data" in tab.page.text_content("#view-example")
    tab.page.fill("#search", "a")
    tab.page.press("#search", "Enter")
    assert "100% of it" in tab.text("#plot").replace("\n", " ")
    tab.close()


def test_small_screens_do_not_scroll_sideways(browser: Any, file: Path) -> None:
    tab = Tab(browser, file.as_uri(), viewport={"width": 390, "height": 800})
    for name in ("tree", "example", "model", "about"):
        tab.page.click(f"#tab-{name}")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 391, name
    tab.close()


def test_everything_has_a_name(tab: Tab) -> None:
    """What a screen reader calls the parts of the page; every field and every region has a name."""
    unnamed = tab.page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, textarea, [role=tree], [role=img], nav')]
          .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim()
            || e.labels?.length)).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert tab.page.locator("main, header, h1").count() == 3
    assert tab.page.get_by_role("tree", name="Nodes").count() == 1
    assert tab.page.get_by_role("combobox", name="Find a label").count() == 1
    assert tab.page.get_by_role("tab", selected=True).inner_text() == "Tree"
