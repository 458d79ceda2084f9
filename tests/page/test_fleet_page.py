"""The page of a table stands alone, and works by click and by key."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from made_up import made_up_findings
from manyone.alerts.evidence import STANDS_OUT
from manyone.cli.answers import read_feedback
from manyone.page.fleet import task_map, time_line, totals_of
from manyone.page.fleet_page import embedded, fleet_page
from manyone.page.html import THEMES
from pages import assert_loads_nothing_from_elsewhere


@pytest.fixture(scope="module")
def report(fleet_report):
    return fleet_report()


@pytest.fixture(scope="module")
def page(report):
    return fleet_page(report)


class Text(HTMLParser):
    """What is read without script, and what would be fetched; every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.text = ""
        self.links = []
        self.ids = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[k] for k in ("src", "href") if k in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text += " " + " ".join(data.split())


# --- what it says


def test_page_is_sound_and_asks_nobody(page, report):
    found = Text(page)
    assert all(link.startswith(("data:", "#")) for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert len(set(found.ids)) == len(found.ids)
    assert "default-src 'none'" in page and not re.search(
        r"https?://|@import|url\(", page
    )
    assert page == fleet_page(report)


def test_names_are_data(page, report):
    assert "<script>alert" not in page and "<b>x" not in page and "<b>9</b>" not in page
    static = Text(page).text
    outstanding = report.findings.incidents[0]
    assert report.tasks.names[outstanding.task] in static
    assert 'pump "<script>alert(1)</script>"' in static  # as text


def test_summary_is_read_without_script(page, report):
    static = Text(page).text
    findings = report.findings
    totals = totals_of(findings, report.rate)
    assert totals["alarms"] == findings.rows.alarm.sum() and totals["rows"] == 960
    for words in (
        str(totals["alarms"]),
        f"up to {findings.most_by_chance}",
        "199 of 200 tables",
    ):
        assert words in static
    number = len(findings.outstanding)
    assert f"{number} incidents stand out among 24 tasks" in static
    order = [
        static.index(f" {title} ") for title in ("Alarms", "Incidents", "Tasks", "Rows")
    ]
    assert order == sorted(order)
    for words in (
        "Related tasks",
        "Columns",
        "What to do next",
        "manyone enroll fleet.manyone",
    ):
        assert words in static


def test_page_of_a_model_alone(report):
    static = Text(fleet_page(replace(report, findings=None, table="", drift=()))).text
    assert "A model of 24 tasks" in static and "Incidents" not in static
    assert (
        "at most 0.05 of normal rows" in static
        and "manyone score fleet.manyone" in static
    )


def test_page_without_alarms(fleet_report):
    report = fleet_report(planted=())
    none = np.zeros(len(report.findings.rows.alarm), dtype=bool)
    calm = replace(report.findings, rows=replace(report.findings.rows, alarm=none))
    static = Text(fleet_page(replace(report, findings=calm))).text
    assert "No alarm in 960 rows" in static and "Fewer than asked for" in static


def test_time_line_counts_every_row_and_marks_drift(report):
    bins = time_line(report.findings, report.drift)
    assert sum(b.rows for b in bins) == 960
    assert sum(b.alarms for b in bins) == report.findings.rows.alarm.sum()
    assert [b.drift for b in bins if b.drift] == ["drift in coolant temp"]


def test_the_band_over_time_knows_that_thresholds_are_uncertain(report):
    """The lowest of 19 scores has a rate of Beta(1, 19) below it."""
    findings = report.findings
    only = np.full_like(findings.tasks.counted, 19.0)
    one_task = np.zeros_like(findings.rows.task)
    made = replace(
        findings,
        tasks=replace(findings.tasks, counted=only),
        rows=replace(findings.rows, task=one_task, time=np.zeros(960)),
    )
    bins = time_line(made, ())
    (whole,) = [b for b in bins if b.rows]
    rate = np.random.default_rng(0).beta(1, 19, 1_000_000)
    alarms = np.random.default_rng(1).binomial(960, rate)
    exceeded = np.mean(alarms > whole.most_by_chance)
    assert exceeded == pytest.approx(STANDS_OUT / len(bins), rel=0.3)


def test_headline_tasks_and_incidents_say_the_same(report):
    """One number of an alarm for incident, task, headline and script."""
    findings = report.findings
    data = embedded(report)
    outstanding = [i for i in findings.incidents if i.stands_out]
    assert len(findings.outstanding) == len(outstanding) > 0
    red_tasks = {t for t, red in enumerate(data["tasks"]["outstanding"]) if red}
    assert red_tasks == {incident.task for incident in outstanding}
    assert sum(data["incidents"]["outstanding"]) == len(outstanding)
    for task in np.flatnonzero(findings.counts[1]).tolist():
        numbers = [i.by_chance for i in findings.incidents if i.task == task]
        assert findings.by_chance[task] == min(numbers)
        assert data["tasks"]["chance"][task] == float(f"{min(numbers):.3g}")


def test_map_shows_relations_both_ways_and_related_tasks_side_by_side(report):
    shown = task_map(report.relations, report.tasks.names)
    at = {(a, b): weight for a, b, weight, _ in shown.cells}
    assert all(at[b, a] == weight for (a, b), weight in at.items())
    assert max(abs(weight) for weight in at.values()) == 1.0
    kind = [report.tasks.names.index(name) % 3 for name in shown.names]  # as planted
    assert sum(a != b for a, b in pairwise(kind)) == 2


def test_only_so_many_rows_are_held_alarms_first(report, monkeypatch):
    monkeypatch.setattr("manyone.page.fleet_page.MOST_ROWS", 100)
    found = report.findings.incidents
    data = embedded(report)
    assert (
        len(data["rows"]["p"]) == 100
        and sum(data["rows"]["alarm"]) == report.findings.rows.alarm.sum()
    )
    for incident, rows in zip(found, data["incidents"]["rows"], strict=True):
        numbers = [data["rows"]["number"][k] for k in rows]
        assert numbers == report.findings.rows.number[list(incident.alarms)].tolist()


# --- in a browser


def ready(browser):
    end = time.monotonic() + 60
    while not browser.execute_script(
        "return 'ready' in document.documentElement.dataset"
    ):
        assert time.monotonic() < end, "the page did not start"
        time.sleep(0.02)
    # Lists are drawn again when they are first measured, which is before the second
    # frame.
    browser.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    )
    return browser


def lines(browser, name, column=0):
    """Texts of the lines of a list in sight, from top to bottom."""
    return browser.execute_script(
        """return [...document.querySelectorAll(`#list-${arguments[0]} .line`)]
          .sort((a, b) => a.dataset.place - b.dataset.place)
          .map(line => line.children[arguments[1]].textContent);""",
        name,
        column,
    )


def said(browser, name):
    return browser.find_element("css selector", f"#list-{name} output").text


def search(browser, name, words):
    box = browser.find_element("css selector", f"#list-{name} input[type=search]")
    box.clear()
    before = said(browser, name)
    box.send_keys(words)
    end = time.monotonic() + 10
    while said(browser, name) == before and time.monotonic() < end:
        time.sleep(0.02)


def sort(browser, name, head):
    heads = browser.find_elements("css selector", f"#list-{name} .heads button")
    browser.execute_script(
        "arguments[0].click()", next(found for found in heads if found.text == head)
    )


def test_page_starts_without_complaint_or_request(visit):
    assert_loads_nothing_from_elsewhere(ready(visit()))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rates_promise_and_drift_stand_on_the_time_line(visit, report, scheme):
    browser = ready(visit(scheme=scheme))
    bins = time_line(report.findings, report.drift)
    bars = browser.find_elements("css selector", ".time i")
    assert len(bars) == len(bins)
    marked = [k for k, bar in enumerate(bars) if "▾" in bar.text]
    assert marked == [k for k, b in enumerate(bins) if b.drift]
    assert "drift in coolant temp" in bars[marked[0]].get_attribute("title")
    assert "drift in coolant temp" in browser.find_element("id", "drift").text
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.time i')].map(bar =>"
        " parseFloat(getComputedStyle(bar, '::after').height) / bar.offsetHeight)"
    )
    promise = browser.execute_script(
        "const line = document.querySelector('.time');"
        "return parseFloat(getComputedStyle(line, '::after').bottom) / "
        "line.offsetHeight"
    )
    rates = np.array([b.share for b in bins])
    np.testing.assert_allclose(
        np.array(shown) * report.rate, rates * promise, atol=0.003
    )


def test_lists_show_the_most_telling_first(visit, report):
    browser = ready(visit())
    found = report.findings.incidents
    names = [report.tasks.names[incident.task] for incident in found]
    seen = lines(browser, "incidents")
    assert len(seen) > 5 and seen == names[: len(seen)]
    assert said(browser, "incidents") == f"{len(found)} incidents"
    assert (
        lines(browser, "tasks")[0]
        == report.tasks.names[np.argmin(report.findings.by_chance)]
    )
    alarms = int(report.findings.rows.alarm.sum())
    assert said(browser, "rows") == f"{alarms} of 960 rows"


def test_search_finds_tasks_reasons_and_row_numbers(visit, report):
    browser = ready(visit())
    search(browser, "tasks", "PRESS 1")
    wanted = {name for name in report.tasks.names if name.startswith("press 1")}
    assert set(lines(browser, "tasks")) == wanted
    search(browser, "tasks", "ЛАМПА")
    assert lines(browser, "tasks") == [report.tasks.names[2]]
    search(browser, "tasks", "nobody")
    assert lines(browser, "tasks") == [] and "0 of 24" in said(browser, "tasks")
    search(browser, "rows", "feed rate")
    led = [
        i
        for i in np.flatnonzero(report.findings.rows.alarm)
        if "feed rate" in report.findings.rows.leading[i]
    ]
    assert said(browser, "rows") == f"{len(led)} of 960 rows"
    browser.find_element("css selector", "#list-rows .only input").click()
    search(browser, "rows", "777")
    assert lines(browser, "rows") == ["777"]


def test_headings_sort_by_numbers_and_by_names(visit, report):
    browser = ready(visit())
    sort(browser, "tasks", "alarms")
    seen = [int(text) for text in lines(browser, "tasks", 4)]
    assert seen == sorted(report.findings.counts[1].tolist(), reverse=True)[: len(seen)]
    sort(browser, "tasks", "alarms")
    assert lines(browser, "tasks", 4)[0] == "0"
    sort(browser, "tasks", "task")
    names = lines(browser, "tasks")
    assert names == sorted(report.tasks.names, key=str.lower)[: len(names)]
    marked = browser.find_elements("css selector", "#list-tasks [aria-sort]")
    assert [head.get_attribute("aria-sort") for head in marked] == ["ascending"]


def test_a_task_opens_by_click_and_by_key_and_closes_by_escape(visit, report):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser = ready(visit())
    search(browser, "tasks", "pump")
    first = browser.find_element("css selector", "#list-tasks .open")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", first)
    first.click()
    dialog = browser.find_element("css selector", "dialog[open]")
    assert dialog.find_element("tag name", "h2").text == report.tasks.names[0]
    rows = dialog.find_elements("css selector", ".reports li")
    assert len(rows) == 40 and "feed rate = " in rows[0].text
    assert (
        dialog.find_elements("css selector", "b b") == []
    )  # a reason is text, not markup
    assert (
        len(dialog.find_elements("css selector", "svg")) == 2
    )  # scores, and over time
    assert browser.execute_script("return location.hash").startswith("#task=pump")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert browser.find_elements("css selector", "dialog[open]") == []
    first.send_keys(Keys.ENTER)
    dialog = browser.find_element("css selector", "dialog[open]")
    chip = dialog.find_element("css selector", ".chips button")
    name = chip.text
    browser.execute_script("arguments[0].click()", chip)  # on to a related task
    assert dialog.find_element("tag name", "h2").text == name
    dialog.find_element("css selector", ".close").click()
    # The browser tells of a closed dialog a moment later, and the address changes then.
    end = time.monotonic() + 10
    while browser.execute_script("return location.hash") and time.monotonic() < end:
        time.sleep(0.02)
    assert browser.execute_script("return location.hash") == ""


def test_an_incident_opens_with_its_rows_in_front(visit, report):
    browser = ready(visit())
    found = report.findings.incidents[1]
    browser.find_elements("css selector", "#list-incidents .open")[1].click()
    marked = browser.find_elements("css selector", "dialog .mine b")
    numbers = [f"row {report.findings.rows.number[k]}" for k in found.alarms]
    assert [mark.text for mark in marked] == numbers


def test_arrows_go_through_a_list_beyond_what_is_in_sight(visit):
    from selenium.webdriver.common.keys import Keys

    browser = ready(visit())
    browser.find_element("css selector", "#list-tasks .open").send_keys(Keys.ARROW_DOWN)
    for _ in range(21):
        browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    place, seen = browser.execute_script(
        """const line = document.activeElement.closest('.line');
        const box = line.closest('.scroll');
        const a = line.getBoundingClientRect(), b = box.getBoundingClientRect();
        return [line.dataset.place, a.top >= b.top && a.bottom <= b.bottom + 1];"""
    )
    assert place == "22" and seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_by_the_system_and_by_the_switch(visit, scheme):
    browser = ready(visit(scheme=scheme))
    other = "dark" if scheme == "light" else "light"

    def paper():
        return browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )

    def rgb(theme):
        colour = THEMES[theme]["paper"]
        return f"rgb({', '.join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))})"

    assert paper() == rgb(scheme)
    browser.find_element("id", "theme").click()
    assert paper() == rgb(other)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(visit, width):
    browser = ready(visit(width))
    inner, content = browser.execute_script(
        "return [window.innerWidth, document.documentElement.scrollWidth]"
    )
    assert inner == width and content <= width
    boxes = browser.execute_script(
        """return [...document.querySelectorAll(
          '.tiles, .track, .time, .scroll, .line, .heads, .map, .next, .tools input')]
          .map(part => part.getBoundingClientRect())
          .map(box => [box.left, box.right]);"""
    )
    assert all(-0.5 <= left <= right <= width + 0.5 for left, right in boxes)
    # The cells of a line stand side by side, or one below the other.
    over = browser.execute_script(
        """return [...document.querySelectorAll('.line')].filter(line => {
          const boxes = [...line.children].map(cell => cell.getBoundingClientRect())
            .filter(box => box.width);
          return boxes.some((a, i) => boxes.some((b, j) => i < j &&
            a.left < b.right - 1 && b.left < a.right - 1 &&
            a.top < b.bottom - 1 && b.top < a.bottom - 1));
        }).length;"""
    )
    assert over == 0
    browser.execute_script("document.querySelector('#list-tasks .open').click()")
    box = browser.execute_script(
        """const box = document.querySelector('dialog').getBoundingClientRect();
        return [box.left, box.right];"""
    )
    assert box[0] >= 0 and box[1] <= width


def test_long_names_show_their_ends_on_a_phone(browser, report, tmp_path):
    names = [f"A welding robot in the long hall {k:02}" for k in range(24)]
    tasks = replace(report.tasks, names=names)
    findings = replace(report.findings, tasks=tasks)
    path = tmp_path / "long.html"
    path.write_text(
        fleet_page(replace(report, tasks=tasks, findings=findings)), "utf-8"
    )
    browser.set_window_size(390, 800)
    browser.get(path.as_uri())
    ready(browser)
    cut = browser.execute_script(
        """return ['incidents', 'tasks', 'rows'].flatMap(list =>
          [...document.querySelectorAll(`#list-${list} .line .name :last-child`)]
            .filter(end => end.scrollWidth > end.clientWidth + 1 ||
              end.getBoundingClientRect().right >
              end.closest('[role=cell]').getBoundingClientRect().right + 1)
            .map(end => end.textContent));"""
    )
    assert cut == []
    ends = browser.execute_script(
        """return [...document.querySelectorAll('#list-tasks .line .name')]
          .map(name => name.textContent);"""
    )
    assert ends == lines(browser, "tasks") and set(ends) <= set(names)


def test_without_script_the_first_incidents_are_a_table(visit, report):
    browser = visit(script=False)
    shown = browser.find_elements("css selector", "#list-incidents tbody tr")
    assert len(shown) == 12
    assert not browser.find_element(
        "css selector", "#list-incidents .tools"
    ).is_displayed()


def test_an_address_with_a_task_opens_it(visit, report):
    from urllib.parse import quote

    browser = ready(visit())
    address = (
        browser.current_url + "#task=" + quote(report.tasks.names[0], safe="!'()*~")
    )
    browser.get("about:blank")
    browser.get(address)
    ready(browser)
    heading = browser.find_element("css selector", "dialog[open] h2")
    assert heading.text == report.tasks.names[0]


# --- answers


def saved_answers(browser):
    """The table that a click on the button saves."""
    return browser.execute_async_script(
        """const done = arguments[0], keep = URL.createObjectURL;
        URL.createObjectURL = blob => { blob.text().then(done); return keep(blob); };
        document.querySelector('dialog[open] .save').click();
        URL.createObjectURL = keep;"""
    )


def press(browser, group, answer):
    button = group.find_element("css selector", f"[data-answer={answer}]")
    browser.execute_script("arguments[0].click()", button)
    return button


def test_alarms_and_incidents_are_answered_by_clicking(visit, report, tmp_path):
    browser = ready(visit())
    incident = report.findings.incidents[1]
    numbers = [int(report.findings.rows.number[row]) for row in incident.alarms]
    browser.find_elements("css selector", "#list-incidents .open")[1].click()
    whole, first, *_ = browser.find_elements("css selector", "dialog .answer")
    assert not browser.find_element("css selector", "dialog .save").is_displayed()
    press(browser, whole, "fault")
    pressed = browser.find_elements("css selector", "dialog .mine [aria-pressed=true]")
    assert [button.text for button in pressed] == ["fault"] * len(numbers)
    press(browser, first, "later")
    wanted = dict.fromkeys(numbers, "fault") | {numbers[0]: "later"}
    path = tmp_path / "answers.csv"
    path.write_text(saved_answers(browser), "utf-8")
    assert {
        int(name): word for name, word in read_feedback(path).words.items()
    } == wanted
    bar = browser.find_element("css selector", "dialog .answers-bar output")
    assert bar.text == f"{len(numbers)} answers, saved as answers.csv"
    # A second click takes an answer back; the browser keeps the others.
    press(browser, first, "later")
    browser.get(browser.current_url.partition("#")[0])
    browser.refresh()
    ready(browser)
    line = browser.find_elements("css selector", "#list-incidents .open")[1]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", line)
    line.click()
    pressed = browser.find_elements("css selector", "dialog .mine [aria-pressed=true]")
    assert len(pressed) == len(numbers) - 1
    browser.execute_script("localStorage.clear()")


def test_answers_name_rows_by_their_ids_and_show_what_was_said(
    browser, report, tmp_path
):
    findings = made_up_findings(named=True)
    rows = findings.rows
    worst = findings.incidents[0].alarms[0]
    said = [""] * len(rows.task)
    said[worst] = "normal"
    findings = replace(findings, rows=replace(rows, answers=tuple(said)))
    assert findings.incidents[0].worst_row == rows.ids[worst]
    path = tmp_path / "named.html"
    path.write_text(fleet_page(replace(report, findings=findings)), "utf-8")
    browser.get(path.as_uri())
    ready(browser)
    assert set(lines(browser, "rows")) <= set(rows.ids)
    search(browser, "rows", rows.ids[worst].upper())
    assert lines(browser, "rows") == [rows.ids[worst]]
    line = browser.find_element("css selector", "#list-incidents .open")
    browser.execute_script("arguments[0].click()", line)
    first = browser.find_elements("css selector", "dialog .reports .answer")[0]
    pressed = first.find_element("css selector", "[aria-pressed=true]")
    assert pressed.text == "normal"
    assert (
        browser.find_element("css selector", "dialog .mine b").text == rows.ids[worst]
    )
    press(browser, first, "fault")
    answers = tmp_path / "answers.csv"
    answers.write_text(saved_answers(browser), "utf-8")
    assert read_feedback(answers).words == {rows.ids[worst]: "fault"}
    browser.execute_script("localStorage.clear()")
