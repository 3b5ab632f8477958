"""Real JupyterLab in a real browser: widgets are changed, and what is shown follows."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import netperf_lib as npl
from tests.sshd import wait_until

from .test_notebooks import workshop

REPO = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What `make notebooks` needs of a checkout, and no measurement yet; the notebooks are as they
    are committed."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("notebooks", ".ci"):
        shutil.copytree(REPO / name, folder / name)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy2(REPO / name, folder / name)
    (folder / ".venv").symlink_to(REPO / ".venv")
    return folder


@pytest.fixture(scope="module")
def lab(checkout):
    """Address of the JupyterLab that `make notebooks` starts."""
    home = checkout / "home"
    options = (
        "--no-browser --port=0 --IdentityProvider.token=desk --expose-app-in-browser"
    )
    env = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
        "JUPYTER_CONFIG_DIR": str(home),
    }
    home.mkdir()
    with (checkout / "lab.log").open("w") as log:
        # what is installed is what these tests run with: it is not made anew
        words = ["make", "-o", ".venv/ready", "notebooks", f"ARGS={options}"]
        server = subprocess.Popen(
            words, cwd=checkout, env=env, stdout=log, stderr=log, start_new_session=True
        )

        def written():
            """The file in which it says where it is."""
            assert server.poll() is None, (checkout / "lab.log").read_text()[-2000:]
            found = (home / "run").glob("jpserver-*.json")
            return [file for file in found if file.stat().st_size]

        try:
            assert wait_until(written, 240), (checkout / "lab.log").read_text()[-2000:]
            yield json.loads(written()[0].read_text())["url"]
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)


@pytest.fixture(scope="module")
def desk(browser, lab):
    """JupyterLab in one user's browser, loaded once; what moves costs a processor to draw."""
    size = {"width": 1400, "height": 1700}
    page = browser.new_page(viewport=size, reduced_motion="reduce")
    page.goto(f"{lab}lab?token=desk&reset", timeout=360_000)
    waited(page, "() => window.jupyterapp !== undefined")
    yield page
    page.close()


def waited(page, condition, given=None):
    page.wait_for_function(condition, arg=given, polling=250, timeout=540_000)


def opened(page, name):
    """Open a notebook alone and run all its cells, once its kernel answers."""
    page.evaluate(
        """async name => {
            const app = window.jupyterapp;
            await app.restored;
            for (const other of [...app.shell.widgets('main')]) other.dispose();
            const panel = await app.commands.execute('docmanager:open', {path: name});
            await panel.revealed;
            await panel.context.sessionContext.ready;
            app.shell.activateById(panel.id);
            app.commands.execute('notebook:run-all-cells');
        }""",
        name,
    )


def test_a_lesson_tells_at_once_whether_an_answer_holds(desk):
    page = desk
    opened(page, "workshop/2-one-run-is-no-run.ipynb")
    waited(page, "() => document.body.innerText.includes('Not answered yet')")
    assert "Traceback" not in page.inner_text("body")
    for answer, said in (
        ("len(wide) * 1000", "Not yet"),
        ("len(wide.dropna())", "Correct"),
    ):
        cell = page.locator(".jp-CodeCell", has_text="runs.size")
        cell.scroll_into_view_if_needed()
        editor = cell.locator(".cm-content")
        editor.click()
        page.keyboard.press("Control+A")
        page.keyboard.type(f"answer = {answer}")
        page.keyboard.press("Enter")
        page.keyboard.type('npl.workshop.check("runs.size", answer, exp)')
        page.keyboard.press("Shift+Enter")
        page.locator(".jp-CodeCell", has_text="runs.size").get_by_text(said).wait_for(
            timeout=180_000
        )


def test_run_all_works_as_committed_and_follows_choices(desk):
    page = desk
    opened(page, "explore.ipynb")
    # where nothing was measured beside the package, the first thing to read says so
    if not (REPO / "results" / "lab" / "experiment.yaml").exists():
        page.get_by_text("shows the recorded experiment").first.wait_for(timeout=540_000)
    boxes = page.locator(".widget-dropdown select")
    boxes.nth(2).wait_for(timeout=540_000)
    picture = page.locator(".widget-output img").last
    picture.wait_for(timeout=180_000)
    before = picture.get_attribute("src")
    boxes.nth(0).select_option("throughput_bps")
    pictures = "[...document.querySelectorAll('.widget-output img')]"
    waited(page, f"src => {pictures}.some(i => i.src !== src)", before)
    waited(
        page,
        """() => window.jupyterapp.shell.currentWidget.content.widgets.every(
            cell => cell.model.type !== 'code' || cell.model.executionCount)""",
    )
    shown = page.inner_text("body")
    assert "Traceback" not in shown
    assert "Jupyter news" not in shown  # a question that lies over the first screen


@pytest.fixture(scope="module")
def html(recorded):
    """The first page, in one file."""
    (*_, place) = npl.report(recorded, notebooks=["summary"], to="html")
    return place


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_html_fits_a_phone_in_both_themes(browser, html, scheme):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.goto(html.as_uri())
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    widths = page.evaluate(
        "() => [...document.querySelectorAll('main img')].map(s => s.getBoundingClientRect().right)"
    )
    assert widths
    assert max(widths) <= 390  # scaled, not cut
    box = page.get_by_text("where one-way latency matters").first.bounding_box()
    assert box
    assert box["x"] + box["width"] <= 390
    look = (
        "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, "
        "s.color]; }"
    )
    paper, ink = page.evaluate(look)
    cells = "[...document.querySelectorAll('.answers td')]"
    sides = f"() => {cells}.map(cell => getComputedStyle(cell).textAlign)"
    assert {*page.evaluate(sides)} == {"left"}, (
        "a figure alone at the right is overlooked"
    )
    light = [sum(map(int, re.findall(r"\d+", c)[:3])) for c in (paper, ink)]
    assert (light[0] > light[1]) == (scheme == "light")
    page.close()


SIZES = """() => [...document.querySelectorAll('section :is(p, li, pre, td, th)')].map(part =>
    parseFloat(getComputedStyle(part).fontSize) * part.currentCSSZoom)"""


def test_what_a_slide_shows_is_read_from_the_back(browser, tmp_path):
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    for place in workshop.build(tmp_path, ["5-read-a-verdict", "9-paths"])[:-1]:
        page.goto(place.as_uri())
        sizes = page.evaluate(SIZES)
        assert min(sizes) >= 18, place.name
    page.close()
