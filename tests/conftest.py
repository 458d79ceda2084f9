"""Shared data; scikit-learn's array-API checks need a switch before scipy."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from fleets import gaussian_tasks


def pytest_configure(config):
    """The same examples in every run, unless ``--hypothesis-seed`` asks for others."""
    repeatable = config.getoption("--hypothesis-seed", None) is None
    settings.register_profile("manyone", deadline=None, derandomize=repeatable)
    settings.load_profile("manyone")


@pytest.fixture
def fleet():
    """Five tasks of different sizes in four dimensions: (X, task)."""
    X, codes = gaussian_tasks((12, 7, 20, 9, 12), 4, apart=1.5, shuffled=True)
    return X, np.array(["ada", "bea", "cleo", "dora", "eve"])[codes]


@pytest.fixture
def data_home():
    """Folder with the prepared real data, or a visible skip."""
    home = Path(
        os.environ.get("MANYONE_DATA", Path(__file__).parents[2] / "shared" / "data")
    )
    if not (home / "mnist.npz").exists():
        pytest.skip(f"no real data: set MANYONE_DATA, or put mnist.npz into {home}")
    return home


FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ),
    "--hide-scrollbars",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium, or a visible skip."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("no chromium and chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    driver = webdriver.Chrome(
        options=options, service=Service(executable_path=chromedriver)
    )
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser, page, tmp_path_factory):
    """Function that opens the module's `page` in a browser of a given width."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")

    def open_page(width=1280, scheme="light", media="", script=True):
        metrics = {
            "width": width,
            "height": 800,
            "deviceScaleFactor": 1,
            "mobile": width < 500,
        }
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        look = {"media": media, "features": features}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        browser.execute_cdp_cmd(
            "Emulation.setScriptExecutionDisabled", {"value": not script}
        )
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # forget what was before
        browser.get(path.as_uri())
        return browser

    yield open_page
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
