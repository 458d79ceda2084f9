"""A page made of values stands alone, escapes what it is given, and works in a browser."""

import html
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from markupsafe import Markup

from manyone.report.charts import (
    COLOURS,
    THEMES,
    Axis,
    Chart,
    Curve,
    Panel,
    task_matrix,
)
from manyone.report.page import Cell, Page, Picture, Row, Section, Table, Topics, render
from manyone.report.png import draw_png
from pages import assert_loads_nothing_from_elsewhere

# Names that a page must not take for its own.
PEOPLE = ("Ann", "Bo <b>&'", "Cy", 'D"ee', "a_very_long_name")


def charts():
    rng = np.random.default_rng(0)
    x = (0.05, 0.1, 0.2, 0.3)
    share = Axis("asked for", percent=True, limits=(0, 0.35))
    groups = {"ours": ("A", "B"), "rivals": ("C", "D")}
    lines = [
        Curve(x, tuple(rng.uniform(0, 0.4, 4)), name, group, COLOURS[k], "circle")
        for k, (group, name) in enumerate(
            (g, n) for g, names in groups.items() for n in names
        )
    ]
    promised = Curve((0.0, 0.35), (0.0, 0.35), "as promised", line="dotted")
    panels = [
        Panel(title, share, Axis("measured", percent=True), (promised, *lines))
        for title in ("first", "second")
    ]
    yield Chart("rates", "Rates & shares", "Two panels.", tuple(panels))
    square = task_matrix(rng.normal(size=(5, 5)), list(PEOPLE), signed=True)
    rows = task_matrix(np.abs(rng.normal(size=(15, 15))), list(PEOPLE), 3, signed=False)
    for name, matrix in (("square", square), ("rows", rows)):
        panel = Panel("a matrix", Axis("to task"), Axis("from task"), matrix)
        yield Chart(name, f"Matrix of {name}", "One panel.", (panel, panel), (5.0, 4.3))
    long = Axis(
        "",
        names=tuple(f"a method with a long name, {k}" for k in range(4)),
        reverse=True,
    )
    dots = Curve(
        (90.0, 91.0, 95.0, 99.0), (0.0, 1.0, 2.0, 3.0), "dots", symbol="bar", line=""
    )
    yield Chart(
        "dots",
        "Dots",
        "Wide.",
        (Panel("", Axis("AUC"), long, (dots, dots)),),
        (6.4, 3.0),
    )


def made_up():
    table = Table(
        "A <table>",
        ("who", "score", "of old", "remark"),
        tuple(
            Row(
                name,
                (Cell(f"{v:.1f}", v, mark), old, Cell(remark, mark="text")),
                soft=v > 4,
            )
            for name, v, mark, old, remark in (
                ("b", 3.0, "best", Cell("7.0", 7.0), "late"),
                ("a <i>", 10.0, "", Cell(), "early"),
                ("c", 2.5, "level", Cell("-1.0", -1.0), ""),
            )
        ),
    )
    line = Panel("", Axis(""), Axis(""), (Curve((0.0, 1.0), (0.0, 1.0)),))
    still = draw_png(Chart("still", "", "", (line,)))
    topics = Topics(
        (("Best & worst", ("one <line>", "another")), ("Rest", ("a third",)))
    )
    return Page(
        "A page <of> values",
        Markup("Made by <b>{}</b>").format("<me>"),
        (
            Section(
                "short",
                "In short",
                ("Plain <text>.", topics, Markup("<pre>a\n b</pre>")),
            ),
            Section("numbers", "The numbers", (table,), "Numbers"),
            Section(
                "figures", "Figures", tuple(Picture(chart, still) for chart in charts())
            ),
        ),
    )


@pytest.fixture(scope="module")
def page():
    return render(made_up())


class Outline(HTMLParser):
    """What a browser would fetch, what is left open, headings, images, and cells of the table."""

    def __init__(self):
        super().__init__()
        self.loads, self.alts, self.open, self.levels, self.ids = [], [], [], [], []
        self.cells = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [
            values[k] for k in ("src", "href", "srcset", "data") if k in values
        ]
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
    assert {link[1:] for link in outline.loads if link.startswith("#")} <= set(
        outline.ids
    )
    assert len(set(outline.ids)) == len(outline.ids)
    assert "default-src 'none'" in page and not re.search(
        r"https?://|@import|url\(", page
    )
    assert all(outline.alts)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(
        b <= a + 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False)
    )


def test_values_are_escaped_and_markup_is_not(page):
    for text in ("A page &lt;of&gt; values", "Plain &lt;text&gt;.", "Best &amp; worst"):
        assert text in page
    assert (
        "one &lt;line&gt;" in page
        and "A &lt;table&gt;" in page
        and "a &lt;i&gt;</th>" in page
    )
    assert "Made by <b>&lt;me&gt;</b>" in page and "<pre>a\n b</pre>" in page
    assert '<td data-value="3" class="best">3.0</td>' in page


def test_same_values_give_the_same_page(page):
    assert render(made_up()) == page


def test_a_page_without_figures_does_without_their_library():
    text = render(Page("Small", "", (Section("a", "A", ("Only words.",)),)))
    assert "Only words." in text and len(text) < 20_000


# --- in a browser


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
    eventually(
        lambda: browser.execute_script(
            "return !!arguments[0].querySelector('svg')", plot
        )
    )
    return plot


def plots(browser, chart=""):
    return browser.find_elements(
        "css selector", f"figure#{chart} .plot" if chart else ".plot"
    )


def test_every_figure_is_drawn_without_complaint_or_request(visit, page):
    browser = visit()
    found = plots(browser)
    assert len(found) == len(re.findall('class="plot"', page)) == 7
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
    assert_loads_nothing_from_elsewhere(browser)


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
    """Texts of a column from top to bottom."""
    return table.parent.execute_script(
        "return [...arguments[0].tBodies[0].rows].map(r => r.cells[arguments[1]].textContent)",
        table,
        number,
    )


def test_table_sorts_by_click_and_by_key(visit):
    from selenium.webdriver.common.keys import Keys

    browser = visit()
    table = browser.find_element("css selector", "table.sortable")
    who, score, old, remark = table.find_elements("css selector", "thead button")
    assert column(table, 1) == ["3.0", "10.0", "2.5"]
    score.click()
    assert column(table, 1) == ["2.5", "3.0", "10.0"]  # as numbers
    score.click()
    assert column(table, 1) == ["10.0", "3.0", "2.5"]
    for key, order in (
        (Keys.ENTER, ["-1.0", "7.0", ""]),
        (Keys.SPACE, ["7.0", "-1.0", ""]),
    ):
        old.send_keys(key)
        assert column(table, 2) == order  # empty cells stay last
    sorted_by = table.find_elements("css selector", "th[aria-sort]")
    assert [head.get_attribute("aria-sort") for head in sorted_by] == ["descending"]
    who.click()
    assert column(table, 0) == ["a <i>", "b", "c"]
    remark.click()
    assert column(table, 3) == ["early", "late", ""]


@pytest.mark.parametrize("chart", ["square", "rows"])
def test_pointing_at_a_matrix_names_both_tasks(visit, chart):
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
        ActionChains(browser).move_to_element_with_offset(
            area, round(x), round(y)
        ).perform()

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
    return [
        re.sub("^((from|to|and) )?task ", "", line).replace("−", "-") for line in lines
    ]


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
    plot = show(browser, plots(browser, "square")[1])
    other = "dark" if scheme == "light" else "light"

    def in_theme(theme):
        look = THEMES[theme]
        wanted = [rgb(look["paper"]), rgb(look["ink"]), look["middle"]]
        return eventually(lambda: colours(browser, plot) == wanted)

    assert in_theme(scheme)
    browser.find_element("id", "theme").click()
    assert in_theme(other)
    browser.find_element("id", "theme").click()
    assert in_theme(scheme)


def test_legend_switches_curves_and_groups_in_all_panels(visit):
    browser = visit()
    both = [show(browser, plot) for plot in plots(browser, "rates")]
    figure = browser.find_element("id", "rates")

    def hidden(plot):
        return browser.execute_script(
            "return arguments[0].data.filter(d => d.visible === false).map(d => d.name)",
            plot,
        )

    def entry(name):
        return figure.find_element("css selector", f"[data-name='{name}']")

    def press(button):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.send_keys("\n")

    press(entry("B"))
    assert [hidden(plot) for plot in both] == [["B"], ["B"]]
    browser.find_element(
        "id", "theme"
    ).click()  # a change of theme must not bring it back
    assert hidden(both[0]) == ["B"]
    press(entry("B"))
    assert hidden(both[0]) == []
    rivals = figure.find_elements("css selector", ".legend div")[-1]
    names = [
        b.get_attribute("data-name")
        for b in rivals.find_elements("tag name", "button")[1:]
    ]
    press(rivals.find_element("css selector", ".group"))
    assert set(hidden(both[1])) == set(names) == {"C", "D"}


def displayed(browser, selector):
    return {
        found.is_displayed()
        for found in browser.find_elements("css selector", selector)
    }


def test_paper_gets_still_figures_on_white(visit):
    browser = visit(scheme="dark", media="print")
    assert displayed(browser, ".still") == {True}
    assert displayed(browser, ".plot, nav, #theme") == {False}
    ground = browser.find_element("tag name", "body").value_of_css_property(
        "background-color"
    )
    assert ground == "rgba(255, 255, 255, 1)"


def test_figures_are_there_without_script(visit):
    browser = visit(script=False)
    assert displayed(browser, ".still") == {True}
    assert displayed(browser, ".plot, #theme") == {False}
