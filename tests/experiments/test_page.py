"""The page tells what the results say, stands alone, and works in a browser."""

import html
import json
import re
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from manyone.experiments.charts import THEMES, Axis, Chart, Curve, Panel
from manyone.experiments.figures import Picture, charts
from manyone.experiments.findings import findings
from manyone.experiments.page import render
from manyone.experiments.plan import Cell
from manyone.experiments.png import draw_png
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import compare, summarise


def page_of(plan, outcomes):
    """The page, with one quick drawing in place of all that take long."""
    rows = summarise(outcomes)
    line = Panel("", Axis(""), Axis(""), (Curve((0.0, 1.0), (0.0, 1.0)),))
    still = draw_png(Chart("still", "", "", (line,)))
    pictures = [Picture(chart, still) for chart in charts(outcomes, rows)]
    return render(plan, outcomes, rows, compare(rows), pictures, "manyone <again>")


@pytest.fixture(scope="module")
def page(made_up):
    return page_of(*made_up(("mnist", "face")))


# --- what it says


def outcome(method, aucs, protocol="seen", **result):
    return [
        Outcome(
            Cell("mnist", protocol, method, method, "tuned", 0, repetition),
            {"auc": [auc / 100], **result},
        )
        for repetition, auc in enumerate(aucs)
    ]


def said(outcomes):
    rows = summarise(outcomes)
    return {topic: " ".join(lines) for topic, lines in findings(outcomes, rows, compare(rows), [])}


def test_sentences_follow_the_numbers():
    low, high = [89.0, 90.0, 91.0], [93.0, 94.1, 94.9]
    ahead = said(outcome("OCKSR", low) + outcome("C-OCKSR", high) + outcome("Rival", low))
    behind = said(outcome("OCKSR", high) + outcome("C-OCKSR", low) + outcome("Rival", high))
    assert "C-OCKSR with 94.00 ± 0.55" in ahead["Best method"]
    assert "OCKSR and Rival with 94.00" in behind["Best method"]
    assert "level with" not in behind["Best method"]
    assert "C-OCKSR +4.00" in ahead["Learning the tasks together"]
    assert "C-OCKSR -4.00" in behind["Learning the tasks together"]
    # The paper prints 89.55 for OCKSR and 96.91 for C-OCKSR.
    assert "1 of 2 methods" in ahead["Against the paper's figures"]
    assert "C-OCKSR -2.91" in ahead["Against the paper's figures"]
    assert "C-OCKSR is 4.00 ahead of it" in ahead["Everyday rivals"]
    assert "OCKSR is level with it" in behind["Everyday rivals"]
    close = said(outcome("OCKSR", low) + outcome("SVDD", [88.0, 89.5, 91.2]))
    assert "OCKSR with 90.00 ± 0.58 on seen anomalies, level with SVDD." in close["Best method"]


def test_alarm_rates_are_told_with_their_ends():
    rates = {"OCKSR": 0.04, "C-OCKSR": 0.13, "Rival": 0.8}
    outcomes = [o for m, rate in rates.items() for o in outcome(m, [90], alarms=[0, rate, 0, 0])]
    text = said(outcomes)["False alarms"]
    assert "asked for 10%, 1 of 2 methods" in text
    assert "between 4.0% (OCKSR) and 13.0% (C-OCKSR)" in text
    assert "rivals between 80.0% (Rival)" in text


class Outline(HTMLParser):
    """What a browser would fetch, what is left open, headings, images, and cells of the table."""

    def __init__(self):
        super().__init__()
        self.loads, self.alts, self.open, self.levels, self.ids = [], [], [], [], []
        self.cells = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [values[k] for k in ("src", "href", "srcset", "data") if k in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "img":
            self.alts.append(values["alt"])
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag in ("tr", "td", "th"):
            self.cells.append([] if tag == "tr" else "")
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.cells and {"td", "th"} & set(self.open):
            self.cells[-1] += data


def test_page_is_sound_and_asks_nobody(page):
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert all(link.startswith(("data:", "#")) for link in outline.loads)
    assert {link[1:] for link in outline.loads if link.startswith("#")} <= set(outline.ids)
    assert len(set(outline.ids)) == len(outline.ids)
    assert "default-src 'none'" in page and not re.search(r"https?://|@import|url\(", page)
    assert all(outline.alts)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False))


def test_table_has_every_method_the_best_marked_and_the_paper_beside(made_up):
    plan, outcomes = made_up()
    text = page_of(plan, outcomes)
    rows = summarise(outcomes)
    for row in rows:
        assert f"{row.mean:.2f} ± {row.error:.2f}" in text
        if row.paper is not None:
            assert f">{row.paper:.2f}</td>" in text and f">{row.mean - row.paper:+.2f}</td>" in text
    for protocol in ("seen", "unseen"):
        best = max((r for r in rows if r.protocol == protocol), key=lambda row: row.mean)
        assert f"class='best'>{best.mean:.2f}" in text
    assert len(re.findall("<td[^>]*class='best'", text)) == 2


def test_failures_and_odd_text_are_shown_as_text(made_up):
    plan, outcomes = made_up(repeats=1)
    outcomes[0] = replace(outcomes[0], result=None, error="Bad<script>: & lost")
    text = page_of(plan, outcomes)
    assert "Bad&lt;script&gt;: &amp; lost" in text and "manyone &lt;again&gt;" in text
    assert "What failed" in text and "1 repetition," in text


def test_faces_are_said_to_be_a_stand_in(page):
    assert "Labeled Faces in the Wild" in page and "Replay-Mobile" in page


def test_same_results_give_the_same_page(made_up, page):
    assert page_of(*made_up(("mnist", "face"))) == page


def test_all_three_data_sets_fit_a_letter(made_up):
    # With noise in the matrices, which hardly shrinks when it is packed. The still figures, which
    # are small here, come on top: about 3 MB.
    plan, outcomes = made_up(("mnist", "coil100", "face"), repeats=1)
    assert len(page_of(plan, outcomes)) < 5e6


# --- in a browser


FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("no chromium and chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=chromedriver))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser, page, tmp_path_factory):
    """Function that opens the page in a window of a given width, and gives the browser."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")

    def open_page(width=1280, scheme="light", media="", script=True):
        _command(browser, "Emulation.setDeviceMetricsOverride", width=width, height=800)
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        _command(browser, "Emulation.setEmulatedMedia", media=media, features=features)
        _command(browser, "Emulation.setScriptExecutionDisabled", value=not script)
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # forget what was before
        browser.get(path.as_uri())
        return browser

    yield open_page
    _command(browser, "Emulation.setScriptExecutionDisabled", value=False)


def _command(browser, name, **parameters):
    if name == "Emulation.setDeviceMetricsOverride":
        parameters |= {"deviceScaleFactor": 1, "mobile": parameters["width"] < 500}
    browser.execute_cdp_cmd(name, parameters)


def eventually(true, seconds=60):
    """Wait for something that a busy machine may take long for."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return value


def show(browser, plot):
    """Scroll to a figure and wait until it is drawn."""
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", plot)
    eventually(lambda: browser.execute_script("return !!arguments[0].querySelector('svg')", plot))
    return plot


def plots(browser, chart=""):
    return browser.find_elements("css selector", f"figure#{chart} .plot" if chart else ".plot")


def test_every_figure_is_drawn_without_complaint_or_request(visit, page):
    browser = visit()
    found = plots(browser)
    assert len(found) == len(re.findall("class='plot'", page)) > 20
    for plot in found:
        show(browser, plot)
        marks, size, inside = browser.execute_script(
            """const plot = arguments[0], box = plot.getBoundingClientRect();
            const marks = [...plot.querySelectorAll(
              '.scatterlayer .point, .scatterlayer .js-line, .heatmaplayer image')];
            const svg = plot.querySelector('svg').getBoundingClientRect();
            return [marks.length, marks.reduce((sum, mark) => {
              const b = mark.getBoundingClientRect(); return sum + b.width + b.height; }, 0),
              svg.right <= box.right + 1 && svg.bottom <= box.bottom + 1];""",
            plot,
        )
        assert marks > 0 and size > 50 and inside
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked and all(url.startswith(("file:", "data:", "blob:")) for url in asked)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out(visit, width):
    browser = visit(width)
    for plot in plots(browser):
        show(browser, plot)
    inner, content = browser.execute_script(
        "return [window.innerWidth, document.documentElement.scrollWidth]"
    )
    assert inner == width and content <= width
    boxes = browser.execute_script(
        """return [...document.querySelectorAll('.wide, .plot, .legend button, pre, img')]
          .map(part => part.getBoundingClientRect()).map(box => [box.left, box.right]);"""
    )
    assert all(0 <= left <= right <= width for left, right in boxes)


def column(table, number):
    """Numbers of a column from top to bottom, and how many empty cells there are at its end."""
    texts = table.parent.execute_script(
        "return [...arguments[0].tBodies[0].rows].map(r => r.cells[arguments[1]].textContent)",
        table,
        number,
    )
    filled = len("".join("x" if text else " " for text in texts).rstrip())
    return [float(text.split()[0]) for text in texts if text], len(texts) - filled


def test_table_sorts_by_click_and_by_key(visit):
    from selenium.webdriver.common.keys import Keys

    browser = visit()
    table = browser.find_element("css selector", "table.sortable")
    heads = table.find_elements("css selector", "thead button")
    seen, paper = heads[1], heads[3]
    assert (seen.text[:4], paper.text[:5]) == ("seen", "paper")
    before, _ = column(table, 1)
    assert before != sorted(before)
    seen.click()
    assert column(table, 1) == (sorted(before), 0)
    seen.click()
    assert column(table, 1) == (sorted(before, reverse=True), 0)
    printed, _ = column(table, 3)
    empty = len(before) - len(printed)
    assert 0 < empty < len(before)
    for key, reverse in ((Keys.ENTER, False), (Keys.SPACE, True)):
        paper.send_keys(key)
        assert column(table, 3) == (sorted(printed, reverse=reverse), empty)
    sorted_by = table.find_elements("css selector", "th[aria-sort]")
    assert [head.get_attribute("aria-sort") for head in sorted_by] == ["descending"]


@pytest.mark.parametrize("chart", ["structure_face", "second_kernel_face"])
def test_pointing_at_a_matrix_names_both_tasks(visit, made_up, chart):
    from selenium.webdriver import ActionChains

    browser = visit()
    plot = show(browser, plots(browser, chart)[0])
    names, values = browser.execute_script(
        "return [arguments[0].data[0].x, arguments[0].data[0].z]", plot
    )
    area = plot.find_element("css selector", ".nsewdrag")
    n, size = len(names), area.size
    for row, place in ((1, n - 2), (n - 1, 0)):
        x = (place + 0.5) / n * size["width"] - size["width"] / 2
        y = (row + 0.5) / n * size["height"] - size["height"] / 2
        ActionChains(browser).move_to_element_with_offset(area, round(x), round(y)).perform()

        wanted = [html.unescape(names[row]), html.unescape(names[place])]
        eventually(lambda wanted=wanted: told(plot)[:2] == wanted)
        assert float(told(plot)[2]) == pytest.approx(values[row][place], abs=0.01)


def told(plot):
    """Lines of the label at the pointer: the two tasks, without what they are, and the value."""
    lines = plot.parent.execute_script(
        """const lines = arguments[0].querySelectorAll('.hoverlayer tspan.line');
        return [...lines].map(line => line.textContent);""",
        plot,
    )
    return [re.sub("^((from|to|and) )?task ", "", line).replace("−", "-") for line in lines]


def colours(browser, plot):
    """Of the page, of the text of a figure, and of a matrix at 0."""
    return browser.execute_script(
        """const plot = arguments[0];
        return [getComputedStyle(document.body).backgroundColor,
          getComputedStyle(plot.querySelector('.xtick text')).fill,
          plot._fullData[0].colorscale[1][1]];""",
        plot,
    )


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))})"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_by_the_system_and_by_the_switch(visit, scheme):
    browser = visit(scheme=scheme)
    plot = show(browser, plots(browser, "structure_mnist")[1])
    other = "dark" if scheme == "light" else "light"

    def dressed(theme):
        look = THEMES[theme]
        wanted = [rgb(look["paper"]), rgb(look["ink"]), look["middle"]]
        return eventually(lambda: colours(browser, plot) == wanted)

    assert dressed(scheme)
    browser.find_element("id", "theme").click()
    assert dressed(other)
    browser.find_element("id", "theme").click()
    assert dressed(scheme)


def test_legend_switches_curves_and_groups_in_all_panels(visit):
    browser = visit()
    both = [show(browser, plot) for plot in plots(browser, "alarm_rate")]
    figure = browser.find_element("id", "alarm_rate")

    def hidden(plot):
        return browser.execute_script(
            "return arguments[0].data.filter(d => d.visible === false).map(d => d.name)", plot
        )

    def entry(name):
        return figure.find_element("css selector", f"[data-name='{name}']")

    def press(button):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.send_keys("\n")

    press(entry("OCKSR-N"))
    assert [hidden(plot) for plot in both] == [["OCKSR-N"], ["OCKSR-N"]]
    browser.find_element("id", "theme").click()  # to dress anew must not bring it back
    assert hidden(both[0]) == ["OCKSR-N"]
    press(entry("OCKSR-N"))
    assert hidden(both[0]) == []
    rivals = figure.find_elements("css selector", ".legend div")[-1]
    names = [b.get_attribute("data-name") for b in rivals.find_elements("tag name", "button")[1:]]
    press(rivals.find_element("css selector", ".group"))
    assert set(hidden(both[1])) == set(names) and "OneClassSVM" in names


def displayed(browser, selector):
    return {found.is_displayed() for found in browser.find_elements("css selector", selector)}


def test_paper_gets_still_figures_on_white(visit):
    browser = visit(scheme="dark", media="print")
    assert displayed(browser, ".still") == {True}
    assert displayed(browser, ".plot, nav, #theme") == {False}
    ground = browser.find_element("tag name", "body").value_of_css_property("background-color")
    assert ground == "rgba(255, 255, 255, 1)"


def test_figures_are_there_without_script(visit):
    browser = visit(script=False)
    assert displayed(browser, ".still") == {True}
    assert displayed(browser, ".plot, #theme") == {False}
