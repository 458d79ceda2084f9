"""A page made of values stands alone, escapes values, works in a browser."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from manyone.page.html import THEMES, Cell, Row, Table, templates
from pages import assert_loads_nothing_from_elsewhere


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
    return {
        "title": "A page <of> values",
        "who": "<me>",
        "text": "Plain <text>.",
        "table": table,
    }


TEMPLATE = """{% extends "page.html" %}{% from "macros.html" import show_table %}
{% block title %}{{ title }}{% endblock %}
{% block intro %}Made by <b>{{ who }}</b>{% endblock %}
{% block nav %}<a href="#short">In short</a><a href="#numbers">Numbers</a>{% endblock %}
{% block main %}
<section id="short"><h2>In short</h2><p>{{ text }}</p>
<pre>a
 b</pre></section>
<section id="numbers"><h2>The numbers</h2>{{ show_table(table) }}</section>
{% endblock %}"""


def render(values):
    return templates("manyone.page").from_string(TEMPLATE).render(values).lstrip()


@pytest.fixture(scope="module")
def page():
    return render(made_up())


class Outline(HTMLParser):
    """What a browser would fetch; open tags, headings, images, cells."""

    def __init__(self):
        super().__init__()
        self.loads = []
        self.alts = []
        self.open = []
        self.levels = []
        self.ids = []
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
    for text in ("A page &lt;of&gt; values", "Plain &lt;text&gt;."):
        assert text in page
    assert "A &lt;table&gt;" in page and "a &lt;i&gt;</th>" in page
    assert "Made by <b>&lt;me&gt;</b>" in page and "<pre>a\n b</pre>" in page
    assert '<td data-value="3" class="best">3.0</td>' in page


def test_same_values_give_the_same_page(page):
    assert render(made_up()) == page


def test_a_page_of_words_is_small():
    template = '{% extends "page.html" %}{% block main %}Only words.{% endblock %}'
    text = templates("manyone.page").from_string(template).render()
    assert "Only words." in text and len(text) < 20_000


# --- in a browser


def test_nobody_is_asked(visit):
    assert_loads_nothing_from_elsewhere(visit())


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out(visit, width):
    browser = visit(width)
    inner, content = browser.execute_script(
        "return [window.innerWidth, document.documentElement.scrollWidth]"
    )
    assert inner == width and content <= width
    boxes = browser.execute_script(
        """return [...document.querySelectorAll('.wide, pre')]
          .map(part => part.getBoundingClientRect())
          .map(box => [box.left, box.right]);"""
    )
    assert all(0 <= left <= right <= width for left, right in boxes)


def column(table, number):
    """Texts of a column from top to bottom."""
    return table.parent.execute_script(
        "return [...arguments[0].tBodies[0].rows]"
        ".map(r => r.cells[arguments[1]].textContent)",
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


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))})"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_by_the_system_and_by_the_switch(visit, scheme):
    browser = visit(scheme=scheme)
    other = "dark" if scheme == "light" else "light"

    def in_theme(theme):
        body = browser.find_element("tag name", "body")
        ground = body.value_of_css_property("background-color")
        red, green, blue = re.findall(r"\d+", rgb(THEMES[theme]["paper"]))
        return ground == f"rgba({red}, {green}, {blue}, 1)"

    assert in_theme(scheme)
    for theme in (other, scheme):
        browser.find_element("id", "theme").click()
        assert in_theme(theme)


def displayed(browser, selector):
    elements = browser.find_elements("css selector", selector)
    return {element.is_displayed() for element in elements}


def test_paper_is_white_and_has_no_switches(visit):
    browser = visit(scheme="dark", media="print")
    assert displayed(browser, "nav, #theme") == {False}
    body = browser.find_element("tag name", "body")
    assert body.value_of_css_property("background-color") == "rgba(255, 255, 255, 1)"


def test_words_and_tables_are_there_without_script(visit):
    browser = visit(script=False)
    assert displayed(browser, "table, pre") == {True}
    assert displayed(browser, "#theme") == {False}


def _luminance(colour):
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )
    return linear @ [0.2126, 0.7152, 0.0722]


def _contrast(a, b):
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out_as_the_accessibility_guidelines_ask(theme):
    look = THEMES[theme]
    assert re.fullmatch("#[0-9a-f]{6}", look["ink"])
    for text in ("ink", "soft", "link", "bad"):
        assert _contrast(look[text], look["paper"]) >= 4.5
    for ground in ("card", "best", "level"):
        assert _contrast(look["ink"], look[ground]) >= 4.5
    assert set(look) == set(THEMES["light"])
