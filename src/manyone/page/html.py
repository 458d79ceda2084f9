"""What self-contained pages share: templates, tables, and data for their scripts."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
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
    """A line of a table: its name and other cells; `soft` greys it out."""

    name: str
    cells: tuple[Cell, ...]
    soft: bool = False


@dataclass(frozen=True)
class Table:
    """A table sorted by a click on a heading; the first head is that of the names."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


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


def packed_json(values: dict[str, Any]) -> str:
    """Packed JSON, which the page unpacks; without a date, so pages compare."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
