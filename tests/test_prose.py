"""Pages are in short sentences; ``python tests/test_prose.py`` lists long ones."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(
        str(path.relative_to(ROOT))
        for folder in ("docs", "docs/evidence")
        for path in (ROOT / folder).glob("*.rst")
    ),
)
#: Words of a sentence: at most, and on average over a page.
LONGEST = 40
MEAN = 20.0


def sentences(text):
    """Sentences of a page in Markdown or reStructuredText, without code and tables."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^( *)\.\. [\w-]+::.*(?:\n(?:\1 +.*)?)*", "\n", text, flags=re.M)
    text = re.sub(r"::\n(?:\n|   .*\n)+", ":\n\n", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\|))", text):
        is_table = re.search(r"^\s*(?:\||={3,}|\+-)", paragraph, flags=re.M)
        if is_table or paragraph.lstrip().startswith((">>>", "#")):
            continue
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        words = re.sub(r":[a-z:]+:`~?([^`<]*)[^`]*`", r"\1", words)
        words = re.sub(r"``[^`]*``|`[^`]*`", "code", words)
        for sentence in re.split(r"(?<=[.!?:])[)*\"]*\s+", words):
            yield " ".join(sentence.split())


def lengths(page):
    """Each sentence of a page with the number of its words."""
    text = (ROOT / page).read_text("utf-8")
    return [
        (len(sentence.split()), sentence)
        for sentence in sentences(text)
        if len(sentence.split()) > 3
    ]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page):
    counted = lengths(page)
    long = [f"{words} words: {text}" for words, text in counted if words > LONGEST]
    assert not long, "\n".join([f"{page}:", *long])
    mean = sum(words for words, _ in counted) / max(len(counted), 1)
    assert mean < MEAN, f"{page}: {mean:.1f} words a sentence"


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_pages_begin_with_what_the_reader_can_do_after_them(page):
    text = (ROOT / page).read_text("utf-8")
    after_title = re.search(r"={3,}\n\s*(.*)", text)
    assert after_title[1].startswith("After this page you "), page


def test_long_sentences_are_found():
    long = "word " * 41 + "end."
    page = f"Title\n=====\n\nShort one here. {long}\n\n.. code::\n\n   {long}\n\nMore."
    found = [len(text.split()) for text in sentences(page)]
    assert max(found) == 42 and found.count(42) == 1


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        for number, line in lengths(name):
            if number > LONGEST:
                print(f"{name}: {number} words: {line}")
