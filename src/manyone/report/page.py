"""One self-contained page made from values: sections of text, topics, tables and figures."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from manyone.report import interactive
from manyone.report.charts import THEMES, Chart


@dataclass(frozen=True)
class Topics:
    """Headings, each with one or more sentences beside it."""

    items: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
    number : float or None
        What its column is sorted by; None sorts by the text, or last among numbers.
    mark : {"", "best", "level", "soft", "text"}
        Highlighted; highlighted less; in the background; words rather than a number.
    """

    text: str = ""
    number: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """A line of a table: its name and its other cells; `soft` puts it in the background."""

    name: str
    cells: tuple[Cell, ...]
    soft: bool = False


@dataclass(frozen=True)
class Table:
    """A table that is sorted by a click on a heading; the first of `heads` is that of the names."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Picture:
    """A chart and its PNG, for paper and for browsers without script."""

    chart: Chart
    png: bytes


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name : str
        Of its place on the page.
    title : str
    blocks : tuple
        A `str` is a paragraph of text, `Markup` goes in as it is.
    label : str
        In the list of sections; empty is the title.
    """

    name: str
    title: str
    blocks: tuple[str | Topics | Table | Picture, ...]
    label: str = ""


@dataclass(frozen=True)
class Page:
    """A title, a few words under it, and sections.

    Attributes
    ----------
    title, intro : str
    sections : tuple of Section
    app : str
        Name of templates, ``app.css`` and ``app.js``, with a style and a script of its own.
    data : dict
        What the script works on, as JSON can hold it.
    """

    title: str
    intro: str
    sections: tuple[Section, ...]
    app: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def render(page: Page) -> str:
    """HTML that loads nothing from elsewhere; the same values give the same text.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str
    """
    blocks = [block for section in page.sections for block in section.blocks]
    charts = [block.chart for block in blocks if isinstance(block, Picture)]
    figures = {chart.name: interactive.panels(chart) for chart in charts}
    data = _packed_json(page.data) if page.app else ""
    library, drawn = (_library(), _packed_json(figures)) if charts else ("", "")
    template = templates("manyone.report").get_template("page.html")
    given = {"library": library, "charts": drawn, "data": data}
    return template.render(page=page, themes=THEMES, **given).lstrip()


@lru_cache
def templates(package: str) -> Environment:
    """Templates in the folder ``templates`` of a package; their values are escaped."""
    loader = PackageLoader(package)
    found = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    found.trim_blocks = found.lstrip_blocks = True
    found.globals["verbatim"] = lambda name: loader.get_source(found, name)[0]
    found.filters["base64"] = lambda data: base64.b64encode(data).decode()
    found.filters["shape"] = interactive.shape
    return found


def sentence(package: str, template: str, macro: str, *values: Any) -> str:
    """Text of a macro of a template for some values, on one line."""
    words = getattr(templates(package).get_template(template).module, macro)(*values)
    return " ".join(words.unescape().split())


@lru_cache
def _library() -> str:
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())


def _packed_json(values: Any) -> str:
    return _packed(json.dumps(values, separators=(",", ":"), allow_nan=False))


def _packed(text: str) -> str:
    """Packed text, which the page unpacks; without a date, so that equal texts give equal pages."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
