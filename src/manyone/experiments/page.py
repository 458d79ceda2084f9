"""One self-contained page: what was run, the table, the figures, and where the paper differs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from manyone.experiments import runner
from manyone.experiments.data import DATASETS
from manyone.experiments.figures import Picture
from manyone.experiments.methods import AS_IN_PAPER, PAPER_AUC
from manyone.experiments.runner import Outcome, Plan
from manyone.experiments.tables import Pair, Row

_LEVEL = 0.05


def render(
    plan: Plan,
    outcomes: Sequence[Outcome],
    rows: Sequence[Row],
    pairs: Sequence[Pair],
    pictures: Sequence[Picture],
    command: str,
) -> str:
    """The page.

    Parameters
    ----------
    plan : Plan
    outcomes : sequence of Outcome
    rows : sequence of Row
    pairs : sequence of Pair
    pictures : sequence of Picture
    command : str
        What to type to run it again.

    Returns
    -------
    str
        HTML that loads nothing from elsewhere.
    """
    return _PAGE.substitute(
        style=_STYLE,
        script=_SCRIPT,
        repeats=plan.repeats,
        seed=plan.seed,
        version=escape(runner.code_version()),
        command=escape(command),
        findings="".join(f"<li>{line}</li>" for line in _findings(plan, rows, pairs)),
        setup="".join(_setup(plan)),
        failures=_failures(outcomes),
        tables="".join(_table(name, rows, pairs) for name in plan.datasets),
        figures="".join(map(_figure, pictures)),
        differences="".join(f"<dt>{head}</dt><dd>{text}</dd>" for head, text in _DIFFERENCES),
    )


def _findings(plan: Plan, rows: Sequence[Row], pairs: Sequence[Pair]) -> Iterable[str]:
    """What the table says, in sentences made from its numbers."""
    for name in plan.datasets:
        for protocol in plan.protocols:
            mine = [row for row in rows if (row.dataset, row.protocol) == (name, protocol)]
            if not mine:
                continue
            best = max(mine, key=lambda row: row.mean)
            level = [row.method for row in mine if row is not best and _level(row, best, pairs)]
            also = f", level with {escape(_and(level))}" if level else ""
            yield (
                f"<b>{DATASETS[name].title}, {protocol} anomalies:</b> best is "
                f"{escape(best.method)} with {_value(best)}{also}."
            )
        printed = PAPER_AUC.get(name, {})
        gaps = [
            f"{escape(row.family)} {row.mean - row.paper:+.2f}"
            for row in rows
            if row.dataset == name and row.paper is not None and row.method == row.family
        ]
        if gaps and printed:
            yield f"<b>{DATASETS[name].title}, against the paper's figures:</b> {', '.join(gaps)}."


def _setup(plan: Plan) -> Iterable[str]:
    for name in plan.datasets:
        dataset = DATASETS[name]
        yield f"<h3>{dataset.title}</h3><p>{escape(dataset.note)}</p><ul>"
        for kind in plan.protocols:
            p = dataset.protocols[kind].smaller(plan.shrink)
            source = (
                "rows of the other tasks" if kind == "seen" else f"{p.n_unseen} classes never met"
            )
            yield (
                f"<li><b>{kind}</b>: {p.n_tasks} tasks, {p.n_train} training rows each; tested on "
                f"{p.n_positive} normal rows and {p.n_negative} anomalies per task, drawn from "
                f"{source}.</li>"
            )
        yield "</ul>"


def _table(name: str, rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    mine = {(row.method, row.protocol): row for row in rows if row.dataset == name}
    methods = list(dict.fromkeys(method for method, _ in mine))
    protocols = [p for p in ("seen", "unseen") if any(key[1] == p for key in mine)]
    best = {
        p: max((row for row in mine.values() if row.protocol == p), key=lambda row: row.mean)
        for p in protocols
    }
    heads = ["method", *(f"{p} anomalies" for p in protocols)]
    if "seen" in protocols:
        heads[2:2] = ["paper", "difference"]
    lines = []
    for method in methods:
        cells = [f"<th scope='row'>{escape(method)}</th>"]
        for p in protocols:
            row = mine.get((method, p))
            cells.append(_auc_cell(row, best[p], pairs))
            if p == "seen":
                paper = row.paper if row else None
                gap = row.mean - paper if row and paper is not None else None
                cells.append(_cell(paper, "" if paper is None else f"{paper:.2f}"))
                cells.append(_cell(gap, "" if gap is None else f"{gap:+.2f}"))
        kind = " class='second'" if method.endswith(AS_IN_PAPER) else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    buttons = "".join(
        f"<th scope='col'><button type='button'>{escape(head)}</button></th>" for head in heads
    )
    return (
        f"<h3>{DATASETS[name].title}: AUC in percent, mean ± standard error</h3>"
        f"<div class='wide'><table class='sortable'><thead><tr>{buttons}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _auc_cell(row: Row | None, best: Row, pairs: Sequence[Pair]) -> str:
    if row is None:
        return _cell(None, "")
    mark = "best" if row is best else "level" if _level(row, best, pairs) else ""
    return _cell(row.mean, _value(row), mark)


def _cell(value: float | None, text: str, mark: str = "") -> str:
    data = "" if value is None else f" data-value='{value:.6f}'"
    kind = f" class='{mark}'" if mark else ""
    return f"<td{data}{kind}>{text}</td>"


def _value(row: Row) -> str:
    return f"{row.mean:.2f}" + ("" if row.error is None else f" ± {row.error:.2f}")


def _level(row: Row, best: Row, pairs: Sequence[Pair]) -> bool:
    """Whether the paired test does not tell a method from the best one."""
    return any(
        (pair.dataset, pair.protocol) == (row.dataset, row.protocol)
        and {pair.better, pair.worse} == {row.method, best.method}
        and pair.p is not None
        and pair.p >= _LEVEL
        for pair in pairs
    )


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _failures(outcomes: Sequence[Outcome]) -> str:
    lines = dict.fromkeys(
        f"<li>{escape(o.cell.method)} on {DATASETS[o.cell.dataset].title} ({o.cell.protocol}): "
        f"{escape(o.error)}</li>"
        for o in outcomes
        if o.error
    )
    return f"<h3>What failed</h3><ul class='bad'>{''.join(lines)}</ul>" if lines else ""


def _figure(picture: Picture) -> str:
    content = base64.b64encode(picture.png).decode()
    return (
        f"<figure id='{picture.name}'><h3>{escape(picture.title)}</h3>"
        f"<img src='data:image/png;base64,{content}' alt='{escape(picture.title)}'>"
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


_DIFFERENCES = (
    (
        "What the protocol measures",
        "The anomalies of the paper's tests come from the other tasks, whose rows the joint "
        "methods are trained on. That is telling known classes apart, not meeting something new: "
        "most of the step from OCKSR to C-OCKSR is paid for by these known negatives. So "
        "everything is also run with classes that are never enrolled (<i>unseen</i>).",
    ),
    (
        "Gradients of the linear method",
        "As printed, the gradient for A has B where its transpose belongs, its closed form "
        "repeats this, and the gradient for B has the wrong sign, shapes that do not fit and a "
        "factor 1/n that the objective lacks. Corrected here. The nuclear norm has no "
        "gradient at zero singular values: it needs a proximal step on the singular "
        "value decomposition.",
    ),
    (
        "Global optimum",
        "The paper calls the linear objective convex. It is convex in each of its two matrices "
        "but not in both, and with a nuclear norm the zero solution is always a local minimum to "
        "fall into.",
    ),
    (
        "The non-linear objective has no minimum while its width is learned",
        "Shrinking the first layer and widening the kernel of the second by the same amount "
        "leaves the fit as it is and makes the penalty vanish. Running it long drifts to no "
        "regularisation at all; the paper's convergence is early stopping. Here the width stays "
        "fixed unless it is asked for.",
    ),
    (
        "The sparse penalty",
        "Printed with squared group norms, which is a ridge and makes nothing sparse. Here the "
        "norms are not squared, and a group is a pair of tasks, so that a task can help another "
        "or not, as the text of the paper has it. The solver it names also counts the squared "
        "error by half.",
    ),
    (
        "MORVR",
        "On responses that are all zeros but for one 1, the usual starting covariance is "
        "exactly singular, which the paper does not mention.",
    ),
    (
        "Unequal tasks",
        "The general loss divides by the number of rows of a task, the matrix form does not; "
        "they differ as soon as tasks differ in size. In these protocols they do not.",
    ),
    (
        "Faces",
        "The videos of the paper need a licence and its network is not public; Labeled Faces in "
        "the Wild with dlib's descriptors stands in.",
    ),
    (
        "What the paper leaves open",
        "It names no kernel width and no preparation of the pixels, and prints no spread. Rows "
        "marked <i>as in the paper</i> use its regulariser 1 and an RBF kernel whose width is "
        "chosen on the training rows; the others choose kernel, width, regulariser and metric "
        "there.",
    ),
)

_STYLE = """
:root { --ink:#1c2127; --soft:#5b6570; --paper:#fff; --card:#f4f6f8; --line:#d9dee3;
  --best:#cdeccf; --level:#eaf6ea; --link:#0b62a8 }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ec; --soft:#a2adb8; --paper:#14181c;
  --card:#1e242a; --line:#37404a; --best:#1f5a2b; --level:#1b3523; --link:#7cc0ff } }
* { box-sizing:border-box }
html { color-scheme: light dark }
body { margin:0 auto; padding:1rem; max-width:60rem; background:var(--paper); color:var(--ink);
  font:16px/1.55 system-ui, sans-serif }
h1 { font-size:1.7rem; line-height:1.2 } h2 { margin-top:2.5rem } h3 { margin:1.6rem 0 .5rem }
nav a { margin-right:1rem; color:var(--link) }
.soft, figcaption { color:var(--soft); font-size:.92rem }
.wide { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums }
th, td { padding:.35rem .6rem; border-bottom:1px solid var(--line); text-align:right;
  white-space:nowrap }
th:first-child { text-align:left; font-weight:500; position:sticky; left:0;
  background:var(--paper) }
th button { font:inherit; font-weight:600; color:inherit; background:none; border:0; padding:0;
  cursor:pointer }
th button::after { content:" ↕"; color:var(--soft) }
th[aria-sort=ascending] button::after { content:" ↑" }
th[aria-sort=descending] button::after { content:" ↓" }
.best { background:var(--best); font-weight:700 } .level { background:var(--level) }
.second th { color:var(--soft) }
figure { margin:1.5rem 0 } img { display:block; width:100%; height:auto; background:#fff;
  border-radius:.5rem; padding:.4rem }
code, pre { font:.9rem/1.4 ui-monospace, monospace; background:var(--card); border-radius:.3rem }
code { padding:.1rem .3rem } pre { padding:.8rem; overflow-x:auto }
dt { font-weight:600; margin-top:1rem } dd { margin:.2rem 0 0 }
.bad { color:#c0392b }
@media (max-width:36rem) { th, td { padding:.3rem .4rem; font-size:.85rem }
  th:first-child { white-space:normal; min-width:7.5rem } }
"""

_SCRIPT = """
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstChild.addEventListener('click', () => {
    const down = column > 0 ? head.ariaSort !== 'descending' : head.ariaSort === 'ascending';
    heads.forEach(h => h.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const value = row => column ? parseFloat(row.cells[column].dataset.value)
                                : row.cells[0].textContent;
    const empty = v => v !== v;
    body.append(...[...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (empty(x) || empty(y)) return empty(x) - empty(y);
      return (down ? -1 : 1) * (x < y ? -1 : x > y ? 1 : 0);
    }));
  }));
}
"""

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Multi-task one-class classification, reproduced</title>
<style>$style</style>
</head>
<body>
<header>
<h1>Multi-task one-class classification, reproduced</h1>
<p class="soft">The experiments of S. R. Arashloo and J. Kittler, <i>Multi-Task Kernel Null-Space
for One-Class Classification</i> (2019, arXiv 1905.09173), redone with manyone $version:
$repeats repetitions, seed $seed.</p>
<nav><a href="#table">Table</a><a href="#figures">Figures</a><a href="#differences">Differences</a>
<a href="#again">Run it again</a></nav>
</header>
<main>
<section id="findings"><h2>In short</h2><ul>$findings</ul>$failures</section>
<section id="setup"><h2>What was run</h2>
<p>Each task learns what is normal from a few rows and is then judged by the area under the ROC
curve (AUC). A repetition draws classes and rows anew; every method gets the same rows, and all
that is chosen is chosen on the training rows.</p>$setup</section>
<section id="table"><h2>The table</h2>
<p>Click a heading to sort. <span class="best">Best</span> of a column, and
<span class="level">level with it</span>: a paired t test over repetitions does not tell them apart
at 5 %. Repetitions share rows, so its p-values (all in <code>pairs.csv</code>) are somewhat too
small.</p>$tables</section>
<section id="figures"><h2>Figures</h2>$figures</section>
<section id="differences"><h2>Where we differ from the paper, and why</h2>
<dl>$differences</dl></section>
<section id="again"><h2>Run it again</h2><pre>$command</pre>
<p>Seeds fix every split, and the number of workers changes nothing but the time. A run that was
stopped goes on where it was: each finished cell lies in <code>cells/</code>.</p></section>
</main>
<script>$script</script>
</body>
</html>
""")
