"""Take the two pictures of docs/looking.md with Chromium, from the copies task of the demo.

masp demo
masp report demo/copies --title "Copies of four moves" --out report.html
python docs/figures/report.py report.html
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "report"))

from browser import Browser

HERE = Path(__file__).parent
WIDTH = 1180
MOMENT = 0.75
"""Share of training at which the map is shown."""
ROWS = 24
"""Rows from the top, of whose pairs the most alike one is pointed at."""
SHOW_MAP = f"""(() => {{
  document.documentElement.style.scrollBehavior = "auto";
  document.getElementById("similarity").scrollIntoView();
  scrollBy(0, 24);
  const slider = document.getElementById("similarity-time");
  slider.value = Math.round(slider.max * {MOMENT});
  slider.dispatchEvent(new Event("input"));
}})()"""
PLACE_OF_PAIR = f"""(() => {{
  const plot = document.getElementById("similarity-map"), box = plot.getBoundingClientRect();
  const {{ xaxis, yaxis }} = plot._fullLayout, pairs = [];
  plot.data[0].z.slice(0, {ROWS}).forEach((row, i) => row.forEach((value, j) => j > i && pairs.push([value, i, j])));
  const [, i, j] = pairs.sort((one, other) => other[0] - one[0])[0];
  return [box.left + xaxis._offset + xaxis.l2p(j), box.top + yaxis._offset + yaxis.l2p(i)];
}})()"""


def take(browser: Browser, page: str) -> None:
    """Both pictures: the beginning of the page, and the map before the end of training."""
    browser.size(WIDTH, 1130)
    browser.dark(False)
    browser.open(page)
    save(browser, "report-page.png")
    browser.size(WIDTH, 1090)
    browser.dark(True)
    browser.open(page)
    browser.run(SHOW_MAP)
    x, y = browser.run(PLACE_OF_PAIR)
    for shift in (2, 0):
        browser.move(x + shift, y)
    browser.wait("!document.getElementById('tip').hidden")
    save(browser, "report-map.png")


def save(browser: Browser, name: str) -> None:
    """Write what the window shows with 256 colours."""
    Image.open(io.BytesIO(browser.picture())).convert("RGB").quantize(256).save(HERE / name, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        try:
            take(browser, Path(sys.argv[1]).absolute().as_uri())
        finally:
            browser.close()
