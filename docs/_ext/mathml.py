"""Formulas become MathML when the site is built: its pages need no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# LaTeX that docutils does not know, or (the first one) silently takes for something else.
_SPELLINGS = {
    r"\\([dt]?frac) *(\d) *(\d)": r"\\\1{\2}{\3}",
    r"\\dots(?![a-z])": r"\\ldots",
}
# The bars of a norm: without these attributes one grows with its neighbours and the other does not.
_BARS = re.compile(r'<mo class="mathopen">([|‖])</mo>(.*?)<mo>\1</mo>', re.DOTALL)
_SMALL_BARS = (
    r'<mo form="prefix" stretchy="false">\1</mo>\2'
    r'<mo form="postfix" stretchy="false">\1</mo>'
)


def render(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write one formula; one that cannot be converted is a warning, and with -W an error."""
    block, text = isinstance(node, nodes.math_block), node.astext()
    for pattern, spelling in _SPELLINGS.items():
        text = re.sub(pattern, spelling, text)
    try:
        formula = _BARS.sub(_SMALL_BARS, latex2mathml.tex2mathml(text, as_block=block))
    except MathError as error:
        logger.warning("formula %r: %s", text, error, location=node)
        formula = f"<code>{translator.encode(text)}</code>"
    tag = "div" if block else "span"
    start = translator.starttag(node, tag, "", CLASS="formula")
    translator.body.append(f"{start}{formula}</{tag}>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer to ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (render, None), (render, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
