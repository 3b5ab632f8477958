"""Real JupyterLab in a real browser: widgets are changed, and what is shown follows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pypdf
import pytest

from netperf_lib.reporting import notebooks
from tests.report import made

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = Path(__file__).parents[2] / ".screenshots"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the notebooks, whose experiment is a made-up one."""
    folder = tmp_path_factory.mktemp("desk")
    experiment = made.experiment(folder / "results")
    lesson = notebooks()["explore"].parent / "workshop" / "2-one-run-is-no-run.ipynb"
    for place in (notebooks()["explore"], lesson):
        book = nbformat.read(place, as_version=4)
        for cell in book.cells:
            if "parameters" in cell.metadata.get("tags", []):
                cell.source = cell.source.replace('"results/lab"', repr(str(experiment)))
        nbformat.write(book, folder / place.name)
    note: Any = nbformat.v4.new_notebook()
    note.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    note.cells = [
        nbformat.v4.new_markdown_cell("# A note for the menu"),
        nbformat.v4.new_code_cell("print(6 * 7 * 1000)"),
    ]
    nbformat.write(note, folder / "note.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(desk: Path) -> Iterator[str]:
    """Address of a JupyterLab at work on the desk."""
    options = ["--no-browser", "--port=0", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=desk"]
    options += [f"--ServerApp.root_dir={desk}", "--expose-app-in-browser"]
    options += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url="]
    home = desk / "home"
    env = {**os.environ, "HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "run"), "JUPYTER_CONFIG_DIR": str(home)}
    home.mkdir()
    with (desk / "lab.log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=env, stdout=log, stderr=log)
        try:
            for _ in range(240):
                found = list((home / "run").glob("jpserver-*.json"))
                if found and found[0].stat().st_size:
                    yield json.loads(found[0].read_text())["url"]
                    break
                assert server.poll() is None, (desk / "lab.log").read_text()[-2000:]
                time.sleep(0.5)
            else:
                pytest.fail((desk / "lab.log").read_text()[-2000:])
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


def opened(browser: Any, lab: str, name: str) -> Any:
    page = browser.new_page(viewport={"width": 1400, "height": 1700})
    page.goto(f"{lab}lab/tree/{name}?token=desk&reset", timeout=120_000)
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=120_000)
    page.wait_for_function("() => window.jupyterapp !== undefined", timeout=60_000)
    # until the kernel answers, nothing is executed
    page.evaluate(
        """async () => {
            const panel = window.jupyterapp.shell.currentWidget;
            await panel.revealed;
            await panel.context.sessionContext.ready;
            window.jupyterapp.commands.execute('notebook:run-all-cells');
        }"""
    )
    return page


def test_the_export_menu_gives_the_pdf(browser: Any, lab: str, tmp_path: Path) -> None:
    page = opened(browser, lab, "note.ipynb")
    page.locator(".jp-OutputArea-output", has_text="42000").wait_for(timeout=120_000)
    downloads: list[Any] = []
    page.on("download", lambda found: downloads.append(found))
    entry = page.locator(".lm-Menu-itemLabel", has_text="Netperf_pdf")
    for _ in range(60):  # the entries arrive some seconds after the notebook, and an open menu does not grow
        page.locator(".lm-MenuBar-itemLabel", has_text="File").click()
        page.locator(".lm-Menu-itemLabel", has_text="Save and Export Notebook As").click()
        page.wait_for_timeout(1000)
        if entry.count():
            break
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    kept(page, "export-menu")
    entry.click()
    for _ in range(120):
        if downloads:
            break
        page.wait_for_timeout(500)
    assert downloads, "nothing came"
    assert downloads[0].suggested_filename == "note.pdf"
    downloads[0].save_as(tmp_path / "note.pdf")
    words = " ".join(p.extract_text() for p in pypdf.PdfReader(tmp_path / "note.pdf").pages)
    assert "A note for the menu" in words
    assert "42000" in words
    page.close()


def kept(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def follows(page: Any, words: str) -> None:
    """Wait until the panel's output says these words."""
    script = "words => document.querySelector('.widget-output').innerText.includes(words)"
    page.wait_for_function(script, arg=words, timeout=60_000)


def test_explore_follows_its_widgets(browser: Any, lab: str) -> None:
    page = opened(browser, lab, "explore.ipynb")
    picture = ".widget-output img[src^='data:image/svg']"
    page.wait_for_selector(picture, timeout=120_000)
    before = page.get_attribute(picture, "src")
    assert "ppg" in page.inner_text(".widget-output")
    page.locator(".widget-dropdown select").nth(0).select_option(label="Throughput at the receiver")
    page.wait_for_function(
        "([selector, old]) => { const i = document.querySelector(selector); return i && i.src !== old; }",
        arg=[picture, before],
        timeout=60_000,
    )
    assert "Gbit/s" in page.inner_text(".widget-output")
    page.locator(".widget-dropdown select").nth(1).select_option(label="streams")
    page.wait_for_function(
        "() => document.querySelector('.widget-output').innerText.includes('16 streams')", timeout=60_000
    )
    box = page.locator(".widget-text input")
    box.fill("no such column > 3")
    box.press("Enter")
    follows(page, "is not understood")
    box.fill("")
    box.press("Enter")
    page.wait_for_selector(picture, timeout=60_000)
    page.locator(".widget-vbox").first.scroll_into_view_if_needed()
    kept(page, "explore")
    page.close()


def test_a_lesson_tells_at_once_whether_an_answer_holds(browser: Any, lab: str) -> None:
    page = opened(browser, lab, "2-one-run-is-no-run.ipynb")
    page.wait_for_function("() => document.body.innerText.includes('Not answered yet')", timeout=120_000)
    for answer, said in (("len(wide) * 1000", "Not yet"), ("len(wide.dropna())", "That holds")):
        cell = page.locator(".jp-CodeCell", has_text="runs.size")
        cell.scroll_into_view_if_needed()
        editor = cell.locator(".cm-content")
        editor.click()
        page.keyboard.press("Control+A")
        page.keyboard.type(f"answer = {answer}")
        page.keyboard.press("Enter")
        page.keyboard.type('npl.check("runs.size", answer, runs)')
        page.keyboard.press("Shift+Enter")
        page.locator(".jp-CodeCell", has_text="runs.size").get_by_text(said).wait_for(timeout=60_000)
    kept(page, "lesson")
    page.close()
