"""Pages in a real headless Chromium: what a reader sees, with a mouse, with a keyboard, on a telephone, in the dark."""

import json
import os
import threading
from pathlib import Path

import pytest
from browser import PROGRAM, Browser
from made_runs import FOUR, action_set, make_run

from masp.macros.actions import ActionSet, Macro
from masp.printable import printable
from masp.report.page import write_report
from masp.report.page.document import html, page_json, run_page
from masp.report.page.live import LiveContent, LiveServer
from masp.report.page.runs import ReportRun

pytest.importorskip("websocket", reason="needs websocket-client, to talk to the browser")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here (Debian: apt-get install chromium)")
AXE = Path(os.environ.get("MASP_AXE_JS", "build/axe/node_modules/axe-core/axe.min.js"))
NASTY = "<script>document.title='owned'</script>\"'&amp;<b>[red]\x1b[31m\u202eabc😀"
PLOTS = "[...document.querySelectorAll('.js-plotly-plot')]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of six runs, as an address."""
    folder = tmp_path_factory.mktemp("runs")
    actions = action_set(16)
    paths = [
        make_run(folder / f"{variant}-{seed}", variant, seed, actions=actions)
        for variant in ("rainbow", "macros", "masp")
        for seed in range(2)
    ]
    (paths[-1] / "episode.gif").write_bytes(tiny_gif())
    return write_report(paths, folder / "page.html", "Six runs").as_uri()


def tiny_gif() -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


@pytest.fixture(scope="module")
def desk(browser, page):
    """The page in a large window, opened once; tests leave it as they found it."""
    browser.size(1280, 900)
    browser.dark(False)
    browser.open(page)
    return browser


def outside(browser):
    """Addresses that the page asked for and that are not part of it."""
    return {url for url in browser.requests if not url.startswith("data:")}


def middle_of(browser, selector):
    browser.run(
        f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )
    box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
    return browser.run(f"(() => {{ const b = {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})()")


def test_every_chart_has_marks_and_nothing_is_asked_for_or_complained_about(desk, page):
    marks = f"{PLOTS}.map(p => [p.id, p.querySelectorAll('.trace path, .heatmaplayer image').length])"
    charts = dict(desk.run(marks))
    assert len(charts) >= 15 and all(charts.values()), charts
    assert desk.errors == []
    assert outside(desk) == {page}
    assert desk.run("document.querySelector('.film img').naturalWidth") == 40


def test_pointing_at_a_curve_shows_its_values(desk):
    chart = f"#{desk.run('document.querySelector(`#learning .plot`).id')}"
    x, y = middle_of(desk, f"{chart} .nsewdrag")
    desk.move(x, y)
    desk.wait(f"document.querySelectorAll('{chart} .hoverlayer text').length > 0")
    text = desk.run(f"document.querySelector('{chart} .hoverlayer').textContent")
    assert all(variant in text for variant in ("rainbow", "macros", "masp")) and "2 seeds" in text


def test_pointing_at_the_map_shows_both_actions_with_what_they_play_and_the_value(desk):
    x, y = middle_of(desk, "#similarity-map .nsewdrag")
    desk.move(x - 40, y + 10)
    desk.move(x - 38, y + 12)
    desk.wait("!document.getElementById('tip').hidden")
    first, second, value = desk.run("document.getElementById('tip').textContent").split("\n")
    assert value.startswith("similarity 0.") and any(name in first for name in FOUR) and "(plays " in first + second
    assert desk.run("document.querySelector('#similarity .readout').textContent") == f"{first} {second} {value}"


def test_arrow_keys_walk_over_the_map(desk):
    desk.run("document.getElementById('similarity-map').focus()")
    desk.press("ArrowRight")
    one = desk.run("document.querySelector('#similarity .readout').textContent")
    desk.press("ArrowDown")
    desk.press("ArrowRight")
    assert "similarity 0." in one and desk.run("document.querySelector('#similarity .readout').textContent") != one


def test_arrow_keys_walk_along_a_curve(desk):
    chart = desk.run("document.querySelector('#learning .plot').id")
    desk.run(f"document.getElementById('{chart}').focus()")
    desk.press("ArrowRight")
    desk.wait(f"document.querySelectorAll('#{chart} .hoverlayer text').length > 0")


def test_slider_shows_the_map_at_another_time(desk):
    z = "document.getElementById('similarity-map').data[0].z"
    mean = f"{z}[0][1] + {z}[1][2] + {z}[2][3]"
    late, when = desk.run(mean), desk.run("document.querySelector('#similarity output').textContent")
    picture = desk.run("document.querySelector('#similarity-map .heatmaplayer image').href.baseVal")
    slider = "document.getElementById('similarity-time')"
    desk.run(f"{slider}.value = 0; {slider}.dispatchEvent(new Event('input'))")
    assert desk.run(mean) < late - 0.3 and desk.run("document.querySelector('#similarity output').textContent") != when
    desk.wait(f"document.querySelector('#similarity-map .heatmaplayer image').href.baseVal !== {json.dumps(picture)}")


def test_legend_hides_a_group_in_all_charts(desk):
    lines = "document.querySelectorAll('#learning .plot')[1].data.filter(t => t.meta).map(t => t.meta)"
    assert desk.run(lines) == ["rainbow", "macros", "masp"]
    desk.run("document.querySelector('#learning .legend button').click()")
    assert desk.run(lines) == ["macros", "masp"]
    assert desk.run("document.querySelector('#learning .legend button').getAttribute('aria-pressed')") == "false"
    desk.run("document.querySelector('#learning .legend button').click()")


def test_dark_page_has_dark_colours_and_other_lines(desk):
    line = "document.querySelector('#learning .plot').data.filter(t => t.meta)[0].line.color"
    colours = f"[getComputedStyle(document.body).backgroundColor, {line}]"
    light = desk.run(colours)
    desk.dark(True)
    desk.wait(f"{line} !== {json.dumps(light[1])}")  # charts are drawn anew after the page has its colours
    dark = desk.run(colours)
    desk.dark(False)
    assert light[0] == "rgb(246, 245, 241)" and dark[0] == "rgb(15, 17, 20)" and light[1] != dark[1]


def test_printed_charts_fit_their_cards_and_the_legend_keeps_its_colours(desk):
    """Paper is narrower than the window; the colours of legends are backgrounds, which browsers do not print."""
    widths = f"{PLOTS}.map(p => p._fullLayout.width - p.clientWidth)"
    desk.run(f"window.printed = []; redraws.add(() => printed.push([printing.matches, Math.max(...{widths})])); true")
    desk.call("Page.printToPDF", paperWidth=8.3, paperHeight=11.7)
    desk.wait("!printing.matches && printed.length > 1")
    printed = desk.run("printed")
    assert {on_paper for on_paper, _ in printed} == {True, False}
    assert max(beyond for _, beyond in printed) <= 1, "charts are as wide as their places, on paper and in the window"
    assert desk.run("getComputedStyle(document.querySelector('.swatch')).printColorAdjust") == "exact"


def test_newer_content_leaves_what_was_zoomed_into(desk):
    shown = "[...document.querySelector('#learning .plot')._fullLayout.xaxis.range]"
    before = desk.run(shown)
    x, y = middle_of(desk, "#learning .plot .nsewdrag")
    for kind, at in (("mousePressed", x), ("mouseMoved", x + 30), ("mouseMoved", x + 60), ("mouseReleased", x + 60)):
        desk.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1, clickCount=1)
    desk.wait(f"{shown}[0] > {before[0]} && {shown}[1] < {before[1]}")
    zoomed = desk.run(shown)
    desk.run("redraws.forEach(draw => draw())")
    assert desk.run(shown) == zoomed
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            desk.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
    desk.wait(f"{shown}[1] === {before[1]}")


def test_axe_finds_nothing_serious(desk):
    if not AXE.exists():
        pytest.skip("axe-core is not here: npm install --prefix build/axe axe-core")
    desk.run(AXE.read_text() + "; true")
    found = desk.run(
        "axe.run({resultTypes: ['violations']}).then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []


def test_telephone_does_not_scroll_sideways(browser, page):
    browser.dark(False)
    browser.size(400, 800)
    browser.open(page)
    assert browser.run("[document.documentElement.scrollWidth, innerWidth]") == [400, 400]
    assert browser.run(f"{PLOTS}.every(p => p.getBoundingClientRect().right <= 400)")
    results = "document.querySelector('#summary .scroll')"
    assert browser.run(f"{results}.querySelectorAll('td')[1].getBoundingClientRect().right <= 400"), "figures are whole"
    assert browser.errors == []


def test_names_from_files_are_text(browser, tmp_path):
    actions = ActionSet(2, [Macro((0, 1), NASTY), Macro((1, 0), "[/] $x$ %{y}")], (NASTY, "</script>"))
    paths = [make_run(tmp_path / f"r{seed}", seed=seed, actions=actions, rows=6) for seed in range(2)]
    browser.size(1000, 800)
    browser.open(write_report(paths, tmp_path / "page.html", NASTY, [NASTY], {"masp": NASTY}).as_uri())
    assert browser.run("document.title").startswith("<script>document.title=") and browser.errors == []
    shown = printable(NASTY)
    assert browser.run("document.querySelector('h1').textContent") == shown and "\u202e" not in shown
    cells = browser.run("[...document.querySelectorAll('#macros td')].map(cell => cell.textContent)")
    assert shown in cells and "</script>" in cells
    assert browser.run("document.querySelectorAll('main script, main b, main iframe').length") == 0
    assert "[/] $x$ %{y}" in browser.run("document.querySelector('#macros').textContent")


def test_live_page_follows_its_runs_and_stays_when_its_server_ends(browser, tmp_path):
    path = make_run(tmp_path / "runs" / "one", rows=6)
    row = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    (path / "summary.json").unlink()
    server = LiveServer(LiveContent([tmp_path / "runs"]))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        browser.size(1000, 800)
        browser.open(server.url)
        assert browser.run("document.querySelector('#learning .plot').data.find(t => t.meta).x.at(-1)") == 6000
        browser.run("window.same = document.querySelector('#learning .plot'); true")
        with open(path / "metrics.jsonl", "a") as file:
            file.write(json.dumps({**row, "frames": 7000}) + "\n")
        browser.wait("document.querySelector('#learning .plot').data.find(t => t.meta).x.at(-1) === 7000")
        assert browser.run("window.same === document.querySelector('#learning .plot')"), "the page was not built anew"
        make_run(tmp_path / "runs" / "two", "macros", rows=6)
        browser.wait("document.querySelector('#learning .legend').textContent.includes('macros')")
        assert browser.errors == [] and all(url.startswith(server.url) for url in outside(browser))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    browser.wait("document.getElementById('state').textContent.includes('has ended')")
    assert browser.run("document.querySelectorAll('#learning .plot .trace path').length") > 0


def test_updates_leave_nothing_behind(browser, tmp_path):
    content = run_page([ReportRun.open(make_run(tmp_path / "one", rows=12))])
    (tmp_path / "page.html").write_text(html(content))
    browser.open((tmp_path / "page.html").as_uri())
    browser.run(f"window.content = {page_json(content)}; true")

    def counted_after_updates(number):
        shown = "show(structuredClone(content)); await new Promise(requestAnimationFrame);"
        browser.run(f"(async () => {{ for (let i = 0; i < {number}; i += 1) {{ {shown} }} }})()")
        browser.call("HeapProfiler.collectGarbage")
        counters = browser.call("Memory.getDOMCounters")
        return counters["nodes"], counters["jsEventListeners"]

    handlers = "document.getElementById('similarity-map')._ev.listenerCount('plotly_hover')"
    before, heard = counted_after_updates(5), browser.run(handlers)
    assert counted_after_updates(15) == before and browser.run(handlers) == heard == 1
