"""The page of 10,000 tasks of 100 rows: how long it takes to make, to open and to use.

Run ``python benchmarks/bench_page.py [--quick]``. The values of the page are made up.
If Chromium and its driver are installed, the page is opened, searched and sorted, and
alarms are answered. Exits with 1 where the page is too large, or making it or a step in
the browser takes too long.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import time
from pathlib import Path

from manyone.page.fleet_page import fleet_page

ROOT = Path(__file__).parents[1]
MOST_MEGABYTES = 15.0  # of a page, data included
MOST_SECONDS = 20.0  # to make it
LONGEST = 2.0  # seconds that opening or an action may take

_ACT = """
const done = arguments[arguments.length - 1], [action, value] = arguments;
const box = document.querySelector('#list-rows'), begin = performance.now();
if (action === 'search') {
  const input = box.querySelector('input[type=search]');
  input.value = value;
  input.dispatchEvent(new Event('input'));
} else if (action === 'sort') {
  [...box.querySelectorAll('.heads button')].find(b => b.textContent === value).click();
} else if (action === 'scroll') {
  box.querySelector('.scroll').scrollTop = value;
} else if (action === 'answer') {
  document.querySelector(`dialog [data-answer=${value}]`).click();
} else {
  document.querySelector(`#list-${value} .open`).click();
}
setTimeout(() => requestAnimationFrame(() => setTimeout(() =>
  done([performance.now() - begin, box.querySelectorAll('.line').length,
        box.querySelector('output').textContent]))), 80);
"""


def made_up(tasks: int) -> object:
    path = ROOT / "tests" / "made_up.py"
    spec = importlib.util.spec_from_file_location("made_up", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.made_up(tasks, 10, 100)


def opened(path: Path) -> list[tuple[str, float, str]]:
    """Seconds of opening the page and of what is done on it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver"))
    )
    try:
        begin = time.perf_counter()
        driver.get(path.as_uri())
        while not driver.execute_script(
            "return 'ready' in document.documentElement.dataset"
        ):
            time.sleep(0.01)
        steps = [("open", time.perf_counter() - begin, "")]
        driver.execute_script(
            "document.querySelector('#list-rows .only input').click()"
        )
        for action, value in (
            *(("search", "feed"), ("search", "press 77"), ("search", "")),
            *(("sort", "task"), ("sort", "score"), ("scroll", 1_500_000)),
            *(("open", "tasks"), ("open", "incidents"), ("answer", "fault")),
        ):
            ms, lines, answer = driver.execute_async_script(_ACT, action, value)
            steps.append(
                (f"{action} {value}", ms / 1e3 - 0.08, f"{answer}, {lines} lines drawn")
            )
        return steps
    finally:
        driver.quit()


if __name__ == "__main__":
    report = made_up(1_000 if "--quick" in sys.argv else 10_000)
    begin = time.perf_counter()
    page = fleet_page(report)
    megabytes = len(page.encode()) / 1e6
    seconds = time.perf_counter() - begin
    print(f"made in {seconds:.1f} s, {megabytes:.2f} MB")
    slow = [] if megabytes <= MOST_MEGABYTES else [f"{megabytes:.2f} MB"]
    slow += [] if seconds <= MOST_SECONDS else [f"made in {seconds:.1f} s"]
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("not opened: no chromium and chromedriver on this machine")
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            path.write_text(page, encoding="utf-8")
            for what, seconds, answer in opened(path):
                print(f"{what:18} {seconds:6.2f} s  {answer}")
                slow += [what] if seconds > LONGEST else []
    if slow:
        sys.exit(f"promise broken: {', '.join(slow)}")
