"""One self-contained page made from values: sections of text and tables."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from manyone.files import toml_beside

if TYPE_CHECKING:
    from jinja2 import Environment

#: Colours of the page by name, for light and for dark surroundings.
THEMES: dict[str, dict[str, str]] = toml_beside(__file__, "look.toml")["themes"]


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
    blocks: tuple[str | Table, ...]
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
    template = templates("manyone.page").get_template("page.html")
    data = _packed_json(page.data) if page.app else ""
    return template.render(page=page, data=data).lstrip()


@lru_cache
def templates(*packages: str) -> Environment:
    """Templates in the folders ``templates`` of packages; their values are escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(package) for package in packages])
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=loader,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["themes"] = THEMES
    environment.globals["verbatim"] = lambda name: loader.get_source(environment, name)[
        0
    ]
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode()
    return environment


def sentence(package: str, template: str, macro: str, *values: object) -> str:
    """Text of a macro of a template for some values, on one line."""
    words = getattr(templates(package).get_template(template).module, macro)(*values)
    return " ".join(words.unescape().split())


def _packed_json(values: dict[str, Any]) -> str:
    """Packed JSON, which the page unpacks; without a date: equal values give equal pages."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
