"""The page tells what the results say, no more, and all of it in a browser."""

import io
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from manyone.experiments import Plan
from manyone.experiments.figures import drawings
from manyone.experiments.page import auc_table
from manyone.experiments.page import page as make_page
from manyone.experiments.results import Results


def one_dot():
    stream = io.BytesIO()
    Figure(figsize=(1, 1)).savefig(stream, format="png")
    return stream.getvalue()


STILL = one_dot()


def page_of(plan, outcomes):
    """The page, with one quick drawing in place of all that take long."""
    results = Results(outcomes)
    figures = [(drawing, STILL) for drawing in drawings(results)]
    return make_page(plan, results, figures, "manyone <again>")


@pytest.fixture(scope="module")
def page(made_up):
    return page_of(*made_up(("mnist", "face")))


# --- what it says


def test_table_has_every_method_the_best_marked_and_the_paper_beside(made_up):
    plan, outcomes = made_up()
    text = page_of(plan, outcomes)
    rows = Results(outcomes).rows
    for row in rows:
        assert f"{row.mean:.2f} ± {row.error:.2f}" in text
        if row.paper is not None:
            assert f">{row.paper:.2f}</td>" in text
    for protocol in ("seen", "unseen"):
        best = max(
            (r for r in rows if r.protocol == protocol), key=lambda row: row.mean
        )
        assert f'class="best">{best.mean:.2f}' in text
    assert len(re.findall('<td[^>]*class="best"', text)) == 2


def words(text):
    """What a reader sees: no markup, no scripts, no styles, no packed data."""
    text = re.sub(r"(?s)<(style|script).*?</\1>", "", text)
    return " ".join(re.sub("<[^>]*>", " ", text).split())


def test_one_repetition_claims_nothing(made_up):
    plan, outcomes = made_up(repeats=1)
    results = Results(outcomes)
    text = page_of(plan, outcomes)
    assert 'class="best"' not in text and 'class="level"' not in text
    seen = words(text)
    assert "±" not in seen and "p-value" not in seen and "t test" not in seen
    assert "level with" not in seen
    assert "There is one repetition only: no standard errors, no tests" in seen
    table = auc_table("mnist", results)
    assert table.heads == (
        "method",
        "seen anomalies",
        "paper",
        "unseen anomalies",
    )
    assert "one repetition" in table.title
    (drawing,) = (d for d in drawings(results) if d.name == "auc")
    assert "bars" not in drawing.caption
    repeated = words(page_of(*made_up(repeats=2)))
    for claim in ("±", "Best of a column", "t test"):
        assert claim in repeated
    assert "one repetition" not in repeated


def test_a_first_look_names_only_what_it_ran(made_up):
    plan, outcomes = made_up(repeats=1, quick=True)
    results = Results(outcomes)
    run = {row.family for row in results.rows}
    missing = {"OKL", "MT-OCSVM", "KNFST", "KPCA"}
    assert not run & missing
    for drawing in drawings(results):
        shown = set()
        for ax in drawing.figure.axes:
            shown.add(ax.get_title().split(" (")[0])
            shown |= {line.get_label() for line in ax.get_lines()}
        for name in missing:
            assert name not in drawing.caption
        for family in ("OCKSR-NS", "OCKSR-L", "SVDD", "MORVR"):
            named = family in re.findall(r"[\w-]+", drawing.caption)
            assert not named or family in shown
    assert not missing & set(re.findall(r"[\w-]+", words(page_of(plan, outcomes))))


@pytest.mark.parametrize("kind", ["seen", "unseen"])
def test_one_protocol_names_no_other(made_up, kind):
    outcomes = [o for o in made_up()[1] if o.cell.protocol == kind]
    (drawing,) = (d for d in drawings(Results(outcomes)) if d.name == "auc")
    (legend,) = drawing.figure.legends
    names = {text.get_text() for text in legend.get_texts()}
    paper = {"the paper's figure"} if kind == "seen" else set()
    assert names == {f"{kind} anomalies"} | paper
    text = words(page_of(Plan(protocols=(kind,), repeats=3), outcomes))
    assert ("also run with classes" in text) == (kind == "unseen")
    assert ("as in the paper (rows of the other tasks" in text) == (kind == "seen")


def test_failures_and_odd_text_are_shown_as_text(made_up):
    plan, outcomes = made_up(repeats=1)
    outcomes[0] = replace(outcomes[0], result={}, error="Bad<script>: & lost")
    text = page_of(plan, outcomes)
    assert "Bad&lt;script&gt;: &amp; lost" in text and "manyone &lt;again&gt;" in text
    assert "What failed" in text and "1 repetition," in text


def test_a_run_that_failed_altogether_still_has_a_page(made_up):
    plan, outcomes = made_up(repeats=1)
    failed = [replace(outcome, result={}, error="lost") for outcome in outcomes]
    text = page_of(plan, failed)
    assert "What failed" in text and "<table" not in text


def test_faces_are_said_to_be_a_stand_in(made_up, page):
    assert "Labeled Faces in the Wild" in page and "Replay-Mobile" in page
    assert "Replay-Mobile" not in page_of(*made_up(repeats=1))


def test_page_asks_nobody(page):
    assert "default-src 'none'" in page and not re.search(
        r"https?://|@import|url\(", page
    )


def test_same_results_give_the_same_page(made_up, page):
    assert page_of(*made_up(("mnist", "face"))) == page


# --- in a browser


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_shown_and_nothing_sticks_out(visit, page, width, scheme):
    browser = visit(width, scheme)
    images = browser.find_elements("css selector", "figure img")
    assert len(images) == len(re.findall("<figure", page)) == 10
    for image in images:
        assert image.get_attribute("complete") == "true"
        assert int(image.get_attribute("naturalWidth")) > 0
    assert browser.get_log("browser") == []
    inner, content = browser.execute_script(
        "return [window.innerWidth, document.documentElement.scrollWidth]"
    )
    assert inner == width and content <= width


def test_figures_are_there_without_script_and_on_paper(visit):
    for browser in (visit(script=False), visit(media="print")):
        images = browser.find_elements("css selector", "figure img")
        assert images and all(image.is_displayed() for image in images)
