"""The explorer in a real browser, offline: clicks, hostile labels, and what it writes in Python and yaml."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.reporting import explorer

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"
    ),
]
ROWS = """() => [...document.querySelectorAll('.row')].map(row => ({
  name: row.dataset.condition, value: row.querySelector('.value').textContent,
  points: (row.querySelector('.runs').getAttribute('d').match(/M/g) || []).length,
  ink: row.querySelector('.runs').getAttribute('stroke')}))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


class Page:
    """A page that is opened without a network; what it asks for, or reports as an error, is collected."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.context = browser.new_context(
            offline=True, **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console",
            lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "dialog",
            lambda dialog: self.errors.append(f"dialog {dialog.message}") or dialog.dismiss(),
        )
        self.page.on(
            "request", lambda r: None if r.url.startswith("file:") else self.requests.append(r.url)
        )
        self.page.goto(file.as_uri())
        self.page.wait_for_selector(".row")

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.page.evaluate(ROWS)
        return rows

    def level(self, factor: str, words: str) -> Any:
        labels = self.page.locator(f'.filters label:has(input[name="{factor}"])')
        return labels.filter(has_text=re.compile(rf"^{re.escape(words)}$")).locator("input")

    def code(self, number: int) -> str:
        return str(self.page.locator(".code pre").nth(number).text_content())

    def run_point(self) -> tuple[float, float]:
        row = self.page.locator(".row").first
        row.scroll_into_view_if_needed()
        x, y = row.evaluate(
            """row => { const box = row.ownerSVGElement.getBoundingClientRect(), [x, y] = row.points[3];
            const zoom = box.width / row.ownerSVGElement.viewBox.baseVal.width;
            return [box.left + x * zoom, box.top + y * zoom]; }"""
        )
        return x, y

    def close(self) -> None:
        assert (self.errors, self.requests) == ([], [])
        self.context.close()


@pytest.fixture(scope="module")
def recorded() -> Any:
    return npl.read(npl.recorded())


@pytest.fixture(scope="module")
def file(recorded: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npl.explore(recorded).save(tmp_path_factory.mktemp("explorer") / "explorer.html")


def test_a_filter_leaves_every_other_row_as_it_was(browser: Any, file: Path) -> None:
    view = Page(browser, file)
    before = view.rows()
    assert any("sockperf" in row["name"] for row in before)
    view.level("tool", "sockperf").click()
    after = view.rows()
    assert after
    assert len(after) < len(before)
    assert all(row in before for row in after), "a filter changed a level, a name or a colour"
    assert not any("sockperf" in row["name"] for row in after)
    view.page.get_by_text("Start again").click()
    assert view.rows() == before
    view.close()


def test_ten_clicks(browser: Any, file: Path, recorded: Any, tmp_path: Path) -> None:
    view = Page(browser, file)
    page = view.page
    page.select_option('select[name="panels"]', "accelerated")
    assert page.locator("figure section h2").count() == 2
    page.select_option('select[name="metric"]', "throughput_bps")
    page.select_option('select[name="colour"]', "streams")
    assert len({row["ink"] for row in view.rows()}) > 1
    page.select_option('select[name="panels"]', "")
    page.select_option('select[name="axis"]', "linear")
    page.locator(".verdict summary").first.click()
    page.locator(".verdict[open] button").first.click()
    assert len(view.rows()) == 2
    verdict = page.locator(".verdict[open] summary b").inner_text()
    assert f"), {verdict}; " in page.locator("figure").inner_text(), (
        "the picture says what the verdict says"
    )
    x, y = view.run_point()
    page.mouse.move(x, y)
    tip = page.locator(".tip").inner_text()
    page.mouse.click(x, y)
    page.wait_for_selector(".log pre")
    run_id = page.locator(".log p").first.inner_text()
    assert run_id in tip
    with recorded.store.raw(run_id) as folder:
        raw = Path(folder.path, "client.out").read_text("utf-8")
    assert page.locator(".log pre").text_content()[:200] == raw[:200]
    # the view travels: in the address, and in a file that is saved from it
    rows = view.rows()
    other = view.context.new_page()
    other.goto(page.url)
    other.wait_for_selector(".row")
    assert other.evaluate(ROWS) == rows
    with page.expect_download() as download:
        page.get_by_text("Save this view").click()
    download.value.save_as(tmp_path / "view.html")
    mailed = Page(browser, tmp_path / "view.html")
    assert mailed.rows() == rows
    mailed.close()
    view.close()


def test_the_page_tells_which_folder_it_shows(browser: Any, file: Path, recorded: Any) -> None:
    view = Page(browser, file)
    assert view.page.get_by_text(f"Root digest {recorded.store.root_digest()[:16]}").is_visible()
    view.close()


def test_a_link_to_a_run_opens_its_log(browser: Any, file: Path, recorded: Any) -> None:
    run_id = recorded.runs["run_id"].iloc[7]
    view = Page(browser, file)
    view.page.goto("about:blank")
    view.page.goto(f"{file.as_uri()}#run={run_id}")
    view.page.wait_for_selector(".log pre")
    assert view.page.locator(".log p").first.inner_text() == run_id
    view.close()


def test_keys_alone_reach_a_log(browser: Any, file: Path) -> None:
    view = Page(browser, file)
    view.page.locator(".row").first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        view.page.keyboard.press(key)
    view.page.wait_for_selector(".log pre")
    view.page.keyboard.press("Escape")
    view.page.locator(".row").nth(2).focus()
    view.page.keyboard.press("b")
    assert "▸" in view.page.locator(".row .base").text_content()
    assert "exploratory" in view.page.locator("figure").inner_text()
    view.close()


def test_the_python_of_a_view_gives_its_levels(
    browser: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Page(browser, file)
    view.page.select_option('select[name="metric"]', "throughput_bps")
    view.level("accelerated", "no accelerated networking").click()
    shown = view.rows()
    names: dict[str, Any] = {}
    exec(view.code(0), names)
    levels = names["levels"]
    assert sorted(levels["n"]) == sorted(row["points"] for row in shown)
    data = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text("utf-8"))[1])
    metric = next(m for m in data["metrics"] if m["name"] == "throughput_bps")
    written = {c["name"]: c for c in metric["conditions"]}
    on_page = sorted(written[row["name"]]["median"] for row in shown)
    assert on_page == pytest.approx(sorted(levels["median"]), rel=1e-4)
    view.close()


def test_the_yaml_of_a_view_declares_contrasts(browser: Any, file: Path) -> None:
    view = Page(browser, file)
    declared = yaml.safe_load(view.code(1))["contrasts"]
    assert declared
    for c in declared:
        assert c["metric"] == "latency_oneway_us"
        assert c["b"]["placement"] == "same-zone", "the baseline is the declared one"
        assert sum(c["a"][name] != level for name, level in c["b"].items()) == 1
    view.close()


def test_the_caveat_is_complete_in_the_figure(browser: Any, file: Path, recorded: Any) -> None:
    view = Page(browser, file, viewport={"width": 600, "height": 800})
    lines = view.page.locator(".caveat").all_text_contents()
    assert " ".join(lines).startswith(recorded.notice.split(";")[0])
    assert recorded.notice.endswith(lines[-1])
    view.close()


def test_a_phone_in_the_dark_scrolls_only_down(browser: Any, file: Path) -> None:
    view = Page(
        browser, file, viewport={"width": 390, "height": 844}, color_scheme="dark", is_mobile=True
    )
    assert view.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    view.close()


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!-- <script>",
    "${alert(3)}`'\"\\",
    "$x^{2$ __proto__ =HYPERLINK(1) !!python/object",
    "\u2028\u202e<svg onload=alert(4)>",
    "javascript:alert(5)",
    "ü" * 120,
]


def test_hostile_labels_run_nothing(browser: Any, recorded: Any, tmp_path: Path) -> None:
    data = explorer._data(recorded)
    for factor in data["factors"]:
        factor["words"] = [HOSTILE[i % len(HOSTILE)] for i in range(len(factor["words"]))]
        factor["levels"] = list(factor["words"])
        factor["label"] = HOSTILE[0]
    data |= {"name": HOSTILE[0], "notice": HOSTILE[1]}
    for metric in data["metrics"]:
        metric["notes"] = list(HOSTILE)
        for i, condition in enumerate(metric["conditions"]):
            condition["name"] = f"{HOSTILE[i % len(HOSTILE)]} {i}"
    page = tmp_path / "hostile.html"
    page.write_text(explorer._page(data, iter([HOSTILE[0]] * len(data["runs"]["id"]))), "utf-8")
    view = Page(browser, page)
    view.page.locator(".row").nth(1).focus()
    for key in ("ArrowRight", "Enter"):
        view.page.keyboard.press(key)
    view.page.wait_for_selector(".log pre")
    assert view.page.locator(".log pre").text_content() == HOSTILE[0]
    sides = [c["a"] for c in yaml.safe_load(view.code(1))["contrasts"]]
    assert {level for side in sides for level in side.values()} <= set(HOSTILE)
    view.page.goto("about:blank")
    for address in (
        "#{",
        "#%00",
        "#null",
        "#[]",
        '#{"metric":5,"off":{"__proto__":[1]}}',
        "#run=<script>",
    ):
        view.page.goto(page.as_uri() + address)
        view.page.wait_for_selector(".row")
        view.page.goto("about:blank")
    view.close()


def test_the_policy_allows_nothing_else(browser: Any, file: Path) -> None:
    view = Page(browser, file)
    view.page.evaluate(
        """() => { window.refused = [];
        document.addEventListener('securitypolicyviolation', event => window.refused.push(event.effectiveDirective));
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = 1"><p style="color:red">');
        const script = document.createElement('script');
        script.textContent = 'window.ran = 2';
        document.body.append(script); }"""
    )
    view.page.wait_for_timeout(300)
    assert view.page.evaluate("() => window.ran") is None
    assert {"img-src", "style-src-attr", "script-src-elem"} <= set(
        view.page.evaluate("() => window.refused")
    )
    view.errors.clear()
    view.requests.clear()
    view.close()


def test_a_notebook_shows_the_page_in_a_frame_without_an_origin(recorded: Any) -> None:
    shown = npl.explore(recorded)._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert shown.count("<") == 2, "the page stands escaped in its attribute"
