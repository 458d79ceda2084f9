"""The picture of the page in the README: ``python docs/page_picture.py``.

Goes the path of ``manyone demo`` in a folder that is thrown away, and takes the page in Chromium:
on a desk in light colours, on a phone in dark ones.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from manyone.cli import main

OUT = Path(__file__).parent / "_static" / "page.png"
SCALE = 1.25  # pixels of the picture to one of the page
DESK, PHONE = (1160, 1060), (390, 800)
PLACE, CANVAS = (1146, 240), (1560, 1108)  # of the phone, and of the whole


def pictures(page: Path) -> tuple[Image.Image, Image.Image]:
    """The page on a desk, and a task opened on a phone."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver"))
    )

    def take(size: tuple[int, int], scheme: str, script: str) -> Image.Image:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": SCALE}
        metrics["mobile"] = size[0] < 500
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get(page.as_uri())
        time.sleep(2)
        driver.execute_script(script)
        time.sleep(1)
        return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")

    try:
        desk = take(DESK, "light", "")
        open_first = "document.querySelector('#list-tasks .open').click()"
        return desk, take(PHONE, "dark", open_first)
    finally:
        driver.quit()


def composed(desk: Image.Image, phone: Image.Image) -> Image.Image:
    """Both on one sheet, with round corners and a soft shadow."""
    sheet = Image.new("RGB", tuple(round(SCALE * side) for side in CANVAS), "#e9edf0")
    for picture, place, radius in ((desk, (24, 24), 10), (phone, PLACE, 28)):
        corner = tuple(round(SCALE * side) for side in place)
        mask = Image.new("L", picture.size, 0)
        box = (0, 0, picture.width - 1, picture.height - 1)
        ImageDraw.Draw(mask).rounded_rectangle(box, round(SCALE * radius), fill=255)
        shade = Image.new("L", sheet.size, 0)
        shade.paste(mask.point(lambda value: value * 0.4), (corner[0], corner[1] + 8))
        blurred = shade.filter(ImageFilter.GaussianBlur(14 * SCALE))
        sheet.paste("#3a4650", mask=blurred)
        sheet.paste(picture, corner, mask)
    return sheet


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if main(["demo", "--out", folder]):
            raise SystemExit("the demo failed")
        sheet = composed(*pictures(Path(folder) / "page.html"))
    sheet.quantize(256, dither=Image.Dither.NONE).save(OUT, optimize=True)
    print(f"{OUT}: {OUT.stat().st_size // 1000} kB")
