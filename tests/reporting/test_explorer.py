"""The explorer in a real browser, offline: clicks, hostile labels, and what it writes."""

import json
import re
from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib.data.raw import digest_of
from netperf_lib.metrics import HEADLINES
from netperf_lib.reporting import explorer

from .test_strangers import HOSTILE as STRANGE

ROWS = """() => [...document.querySelectorAll('.row')].map(row => ({
  name: row.dataset.condition, value: row.querySelector('.value').textContent,
  points: (row.querySelector('.runs').getAttribute('d').match(/M/g) || []).length,
  ink: row.querySelector('.runs').getAttribute('stroke')}))"""
POINT = """row => { const svg = row.ownerSVGElement, box = svg.getBoundingClientRect();
  const zoom = box.width / svg.viewBox.baseVal.width;
  return [box.left + row.points[3][0] * zoom, box.top + row.points[3][1] * zoom]; }"""
ATTACK = """() => { window.refused = [];
  document.addEventListener('securitypolicyviolation', e => refused.push(e.effectiveDirective));
  document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="ran = 1"><p style="top:0">');
  const script = document.createElement('script');
  script.textContent = 'window.ran = 2';
  document.body.append(script); }"""
HOSTILE = [
    *STRANGE,
    "<!-- <script>",
    "$x^{2$ __proto__ !!python/object",
    "\u2028\u202e",
    "ü" * 120,
]


class Page:
    """A page opened without a network; what it asks for, or reports as an error, is collected."""

    def __init__(self, browser, **options):
        view = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(offline=True, **view)
        self.page = self.context.new_page()
        self.bad = []
        self.page.on("console", lambda message: self.bad.append(message.text))
        self.page.on("pageerror", lambda error: self.bad.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: self.bad.append("dialog") or dialog.dismiss()
        )
        self.page.on("request", self.ask)

    def open(self, address):
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.wait_for_selector(".row")

    def ask(self, request):
        if not request.url.startswith(("file:", "about:")):
            self.bad.append(request.url)

    def rows(self):
        return self.page.evaluate(ROWS)

    def level(self, factor, words):
        labels = self.page.locator(f'.filters label:has(input[name="{factor}"])')
        return labels.filter(has_text=re.compile(rf"^{re.escape(words)}$")).locator(
            "input"
        )

    def close(self):
        assert self.bad == []
        self.context.close()


@pytest.fixture(scope="module")
def recorded():
    """The recorded experiment with three of its metrics: a page of all takes seconds."""
    exp = npl.read(npl.recorded())
    others = [name for name in exp.metrics if name not in HEADLINES]
    vars(exp)["runs"] = exp.runs.drop(columns=others)
    return exp


@pytest.fixture(scope="module")
def made(recorded):
    return npl.explore(recorded)


@pytest.fixture(scope="module")
def address(made, tmp_path_factory):
    return made.save(tmp_path_factory.mktemp("e") / "explorer.html").as_uri()


@pytest.fixture(scope="module")
def window(browser):
    """One for many pages: each window is a process of its own."""
    window = Page(browser)
    yield window
    window.close()


@pytest.fixture
def view(window, address):
    window.open(address)
    yield window
    found, window.bad = window.bad, []
    assert found == []


def test_a_filter_leaves_every_other_row_as_it_was(view):
    before = view.rows()
    view.level("tool", "sockperf").click()
    after = view.rows()
    assert 0 < len(after) < len(before)
    assert all(row in before for row in after), (
        "a filter changed a level, a name or a colour"
    )
    assert not any("sockperf" in row["name"] for row in after)
    view.page.get_by_text("Start again").click()
    assert view.rows() == before


def test_clicks_lead_to_a_log_and_the_view_travels(view, recorded):
    page = view.page
    page.select_option('select[name="panels"]', "accelerated")
    assert page.locator("figure section h2").count() == 2
    page.select_option('select[name="metric"]', "throughput_bps")
    page.select_option('select[name="colour"]', "streams")
    assert len({row["ink"] for row in view.rows()}) > 1
    page.select_option('select[name="panels"]', "")
    view.level("accelerated", "no accelerated networking").click()
    first = page.locator(".row").first
    first.scroll_into_view_if_needed()
    x, y = first.evaluate(POINT)
    page.mouse.move(x, y)
    tip = page.locator(".tip").inner_text()
    page.mouse.click(x, y)
    page.wait_for_selector(".log pre")
    run_id = page.locator(".log p").first.inner_text()
    assert run_id in tip
    raw = Path(recorded.folder, "raw", run_id, "client.out").read_text("utf-8")
    assert page.locator(".log pre").text_content()[:200] == raw[:200]
    rows = view.rows()
    view.open(page.url)
    assert view.rows() == rows


def test_a_link_to_a_run_opens_its_log(view, address, recorded):
    digest = digest_of(recorded.folder)[:16]
    assert view.page.get_by_text(f"Digest {digest}").is_visible()
    run_id = recorded.runs["run_id"].iloc[7]
    view.open(f"{address}#run={run_id}")
    view.page.wait_for_selector(".log pre")
    assert view.page.locator(".log p").first.inner_text() == run_id


def test_the_python_of_a_view_gives_its_levels(view):
    view.page.select_option('select[name="metric"]', "throughput_bps")
    view.level("accelerated", "no accelerated networking").click()
    names = {}
    exec(view.page.locator(".code pre").text_content(), names)
    levels, shown = names["levels"], view.rows()
    assert sorted(levels["n"]) == sorted(row["points"] for row in shown)
    assert {str(name) for name in levels.index} <= {row["name"] for row in view.rows()}


def test_the_caveat_is_complete_on_a_phone_that_scrolls_only_down(
    browser, address, recorded
):
    size = {"width": 390, "height": 844}
    view = Page(browser, viewport=size, color_scheme="dark", is_mobile=True)
    view.open(address)
    caveat = " ".join(view.page.locator(".caveat").all_text_contents())
    assert caveat.startswith(recorded.notice.split(";")[0])
    assert caveat.endswith(recorded.notice.split()[-1])
    assert (
        view.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    )
    view.close()


def test_in_jupyterlab_on_a_laptop_the_chart_is_seen_without_scrolling(browser, address):
    size = {"width": 828, "height": 684}  # of the frame, at 1280 by 800 pixels
    view = Page(browser, viewport=size)
    view.open(address)
    rows = view.page.locator(".row")
    assert rows.nth(5).bounding_box()["y"] < size["height"]
    view.close()


def test_hostile_labels_run_nothing(view, made, tmp_path):
    shown = re.search(r'id="data">(.*?)</script>', made.page)
    data = json.loads(shown[1]) | {"name": HOSTILE[0], "notice": HOSTILE[1]}
    for factor in data["factors"]:
        count = len(factor["words"])
        factor["levels"] = factor["words"] = (HOSTILE * count)[:count]
        factor["label"] = HOSTILE[0]
    for metric in data["metrics"]:
        metric["notes"] = HOSTILE
        for i, condition in enumerate(metric["conditions"]):
            condition["name"] = f"{HOSTILE[i % len(HOSTILE)]} {i}"
    file = tmp_path / "hostile.html"
    file.write_text(explorer._page(data, HOSTILE[:1] * len(data["runs"]["id"])), "utf-8")
    view.open(file.as_uri())
    view.page.locator(".row").nth(1).focus()
    for key in ("ArrowRight", "Enter"):
        view.page.keyboard.press(key)
    view.page.wait_for_selector(".log pre")
    assert view.page.locator(".log pre").text_content() == HOSTILE[0]
    for wish in (
        "{",
        "%00",
        "null",
        "[]",
        '{"metric":5,"off":{"__proto__":[1]}}',
        "run=<script>",
    ):
        view.open(f"{file.as_uri()}#{wish}")


def test_the_policy_allows_nothing_else(browser, address):
    view = Page(browser)
    view.open(address)
    page = view.page
    page.evaluate(ATTACK)
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.ran") is None
    refused = set(page.evaluate("() => window.refused"))
    assert {"img-src", "style-src-attr", "script-src-elem"} <= refused


def test_a_notebook_shows_the_page_in_a_frame_without_an_origin(made):
    shown = made._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert shown.count("<") == 2, "the page stands escaped in its attribute"
