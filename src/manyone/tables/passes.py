"""A model of a table that is not in memory: Parquet files, Dask data frames, frames of a function.

The first pass gathers exact facts about every column and a sample that no task is missing from;
what is done with each column follows from both. The second sums up what is imputed, and finds the
ranges of all columns. Then the encoded rows are fitted by passes, as in :mod:`manyone.engines`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manyone._types import Array
from manyone.engines.blocks import Block, CheckedBlock
from manyone.engines.fitting import Step, Sweep
from manyone.engines.sample import Sample, TakeSample, refuse_unusable
from manyone.engines.sources import sweep_of
from manyone.hashing import row_hashes
from manyone.labels import as_labels, encode, lookup
from manyone.messages import warn_user
from manyone.models.guards import ColumnRange, column_range_in
from manyone.rows import MISSING
from manyone.tables.encoder import Encoder
from manyone.tables.facts import Facts
from manyone.tables.fitting import Fitted, guarded
from manyone.tables.frames import Column, Labels, Table, as_table, text_column
from manyone.tables.ranges import Ranges, ranges_between, top_two, two_highest
from manyone.tables.reading import TrainingTable, read_training

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# Rows that columns are decided by and settings chosen from.
_SAMPLE = 2**14


class Reader(NamedTuple):
    """How a part of the table is read: roles of columns, and those that are ignored."""

    roles: dict[str, list[str]]
    ignore: Sequence[str]

    def __call__(self, block: Block) -> TrainingTable:
        """Rows of one part."""
        return read_training(as_table(block.X), self.roles, self.ignore)


# -------------------------------------------------------------------------------------- first pass


@dataclass(frozen=True, eq=False)
class Look:
    """What the first pass finds.

    Attributes
    ----------
    facts : dict of str to Facts
        About the normal rows.
    sample : Sample
        Of rows of numbers: what texts are is in `texts`.
    texts : dict of str to dict of float to str
        By column, the texts of the sample.
    """

    facts: dict[str, Facts]
    sample: Sample
    texts: dict[str, dict[float, str]]

    def training(self) -> TrainingTable:
        """The sample as a table."""
        columns = {}
        for k, (name, facts) in enumerate(self.facts.items()):
            values = self.sample.X[:, k]
            columns[name] = Column(facts.kind, values)
            if facts.kind == "text":
                texts = self.texts.get(name, {})
                columns[name] = text_column(
                    [texts.get(number) for number in values.tolist()]
                )
        labels = self.sample.tasks
        if np.any(self.sample.codes == MISSING):
            labels = as_labels([*labels.tolist(), None])
        labels = labels[self.sample.codes]
        outlier = self.sample.outlier
        return TrainingTable(
            columns, labels, outlier, None, None, np.arange(len(outlier))
        )


@dataclass(frozen=True, eq=False)
class TakeLook:
    """The first pass: rows are drawn by their content, so the parts do not matter."""

    reader: Reader
    step: TakeSample

    def partial(self, block: Block) -> Look:
        """Look at one part."""
        training = self.reader(block)
        columns, codes, _ = training.normal()
        tasks = encode(training.labels)[0].tolist()
        looked = {
            name: Facts.of(column, codes, tasks) for name, column in columns.items()
        }
        facts = {name: fact.bounded() for name, fact in looked.items()}
        texts = {}
        words = np.empty((len(training.labels), len(facts)))
        for k, (name, column) in enumerate(training.columns.items()):
            words[:, k] = column.values
            if column.levels is not None:
                numbers = [_number_of(level) for level in column.levels.tolist()]
                texts[name] = dict(zip(numbers, column.levels.tolist(), strict=True))
                known = ~np.isnan(column.values)
                words[known, k] = np.array(numbers)[
                    column.values[known].astype(np.intp)
                ]
        words[np.isnan(words)] = np.nan  # the bits of all of them are the same
        names = np.array(list(facts), dtype=object)
        weight = np.ones(len(words))
        checked = CheckedBlock(words, training.labels, training.outlier, weight, names)
        return _pruned(Look(facts, self.step.partial(checked), texts))

    def merge(self, one: Look, other: Look) -> Look:
        """What both found."""
        sample = self.step.merge(one.sample, other.sample)
        facts = {
            name: fact.merged(other.facts[name], name)
            for name, fact in one.facts.items()
        }
        names = one.texts.keys() | other.texts.keys()
        texts = {
            name: one.texts.get(name, {}) | other.texts.get(name, {}) for name in names
        }
        return _pruned(Look(facts, sample, texts))


def _number_of(text: str) -> float:
    """A number for a text, the same in every process: 53 bits of a hash."""
    return float(
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 11
    )


def _pruned(look: Look) -> Look:
    """Without the texts that no sampled row has."""
    texts = {}
    for k, name in enumerate(look.facts):
        if name in look.texts:
            kept = set(look.sample.X[:, k].tolist())
            texts[name] = {n: text for n, text in look.texts[name].items() if n in kept}
    return Look(look.facts, look.sample, texts)


# ------------------------------------------------------------------------------------- second pass


class ColumnSums(NamedTuple):
    """Sums and counts of known coordinates (T, D), ends of columns of numbers.

    `ends` (2, 2, p) are the two ends on either side, `task_ends` (2, T, p) those of each task; low
    ends come first, and are negated.
    """

    sums: Array
    counts: Array
    ends: Array
    task_ends: Array


@dataclass(frozen=True, eq=False)
class AddCoordinates:
    """The second pass, over the normal rows."""

    reader: Reader
    encoder: Encoder
    tasks: Labels

    def partial(self, block: Block) -> ColumnSums:
        """Sums over one part."""
        training = self.reader(block)
        n_tasks = len(self.tasks)
        normal = np.flatnonzero(~training.outlier)
        codes = lookup(training.labels[normal], self.tasks)
        columns = self.encoder.checked(training.take(normal).columns)
        values = self.encoder.numbers(columns)
        both = np.where(np.isnan(values), -np.inf, np.stack([-values, values]))
        each = np.full((2, n_tasks, values.shape[1]), -np.inf)
        for side, known in zip(each, both, strict=True):
            np.maximum.at(side, codes, known)
        sums, counts = self.encoder.coordinate_sums(columns, codes, n_tasks)
        return ColumnSums(
            sums, counts, np.stack([top_two(side) for side in both]), each
        )

    def merge(self, one: ColumnSums, other: ColumnSums) -> ColumnSums:
        """Sums over both."""
        both = np.concatenate([one.ends, other.ends], axis=1)
        ends = np.stack([top_two(side) for side in both])
        each = np.maximum(one.task_ends, other.task_ends)
        return ColumnSums(one.sums + other.sums, one.counts + other.counts, ends, each)


def _ranges(found: ColumnSums, middle: Array) -> tuple[Ranges, Ranges]:
    """Ranges of all rows, and with whole tasks left out; of a single task, with rows left out."""
    alone = ranges_between(middle, *map(two_highest, found.ends))
    if found.task_ends.shape[1] == 1:
        return alone, alone
    return alone, ranges_between(middle, *map(two_highest, found.task_ends))


# ----------------------------------------------------------------------------------- further passes


@dataclass(frozen=True, eq=False)
class OnEncoded:
    """A pass over encoded rows as one over the table."""

    step: Step
    reader: Reader
    encoder: Encoder
    tasks: Labels

    def partial(self, block: Block) -> Any:
        """What one part gives."""
        training = self.reader(block)
        columns = self.encoder.checked(training.columns)
        codes = lookup(training.labels, self.tasks)
        Z = self.encoder.encode(columns, codes)
        weight = np.ones(len(codes))
        return self.step.partial(
            CheckedBlock(Z, training.labels, training.outlier, weight)
        )

    def merge(self, one: Any, other: Any) -> Any:
        """What two parts give together."""
        return self.step.merge(one, other)


class Encoded(NamedTuple):
    """The table as encoded rows.

    `sweep` passes over them, `sample` is a part of the table, `Z` the sample encoded, `guards` are
    for ranges of all rows and with whole tasks left out, `n_rows` is their number.
    """

    sweep: Sweep
    sample: TrainingTable
    encoder: Encoder
    Z: Array
    guards: list[ColumnRange]
    n_rows: int


def encoded(
    table: Table, roles: dict[str, list[str]], ignore: Sequence[str], linear: float
) -> Encoded:
    """Look at a table twice, and encode it.

    Parameters
    ----------
    table : path, function or Dask data frame
    roles : dict
        Names of the columns for ``task``, ``time`` and ``outlier``.
    ignore : list of str
    linear : float
        How numbers are scaled, see :class:`manyone.tables.maps.NumberMap`.

    Returns
    -------
    Encoded
    """
    if roles["groups"]:
        raise ValueError(
            "groups= needs the whole table in memory, as rows of a group may be in many parts of "
            "it: give a data frame of pandas, polars or pyarrow."
        )
    if roles["time"]:
        warn_user(
            f"The table comes in parts: rows are left out one by one, not in blocks of "
            f"{roles['time'][0]!r}, when thresholds are set. Where rows of a task depend on each "
            "other, more of them will raise an alarm than promised."
        )
    sweep = sweep_of(table)
    reader = Reader(roles, ignore)
    look: Look = sweep(TakeLook(reader, TakeSample(_SAMPLE)))
    refuse_unusable(look.sample)
    sample = look.training()
    tasks = look.sample.tasks
    columns, _, _ = sample.normal()
    decided = Encoder.decided(look.facts, columns, linear)
    found: ColumnSums = sweep(AddCoordinates(reader, decided, tasks))
    codes = lookup(sample.labels, tasks)
    encoder = decided.imputing(found.sums, found.counts).relating(
        columns, codes[~sample.outlier]
    )
    middle = np.nanmedian(encoder.numbers(columns), axis=0)
    Z = encoder.encode(sample.columns, codes)

    def over_encoded(step: Step) -> Any:
        return sweep(OnEncoded(step, reader, encoder, tasks))

    guards = [encoder.guard(ranges) for ranges in _ranges(found, middle)]
    return Encoded(over_encoded, sample, encoder, Z, guards, look.sample.n_rows)


# ---------------------------------------------------------------------------------- rows that come


def enrolled(known: TableModel, more: TrainingTable) -> Fitted:
    """A model of a table in parts with more rows: columns are encoded as they were.

    Views get the rows; ranges are widened to them; what is imputed for a new task is its mean; rows
    that are explained by are drawn anew from those kept and these.

    Parameters
    ----------
    known : TableModel
        Is not changed.
    more : TrainingTable
        With the columns that it uses.

    Returns
    -------
    Fitted
    """
    normal = np.flatnonzero(~more.outlier)
    tasks = encode(as_labels([*known.tasks_.tolist(), *more.labels[normal].tolist()]))[
        0
    ]
    codes = lookup(more.labels, tasks)
    means = known.encoder_.coordinate_sums(
        more.take(normal).columns, codes[normal], len(tasks)
    )
    encoder = known.encoder_.imputing(*means)
    encoder.fill[[*lookup(known.tasks_, tasks), -1]] = known.encoder_.fill
    Z = encoder.encode(more.columns, codes)
    model = copy(known.model_)
    model.enroll(Z, task=more.labels, outlier=more.outlier)
    column_range = column_range_in(known.model_.solution_.scorer)
    assert column_range is not None
    guards = [
        guard.widened(Z[normal]) for guard in (column_range, known.unknown_.guard)
    ]
    training = known.training_.joined(more)
    codes = lookup(training.labels, tasks)
    Z = encoder.encode(training.columns, codes)
    whose = np.column_stack([Z, codes])
    block = CheckedBlock(whose, training.labels, training.outlier, np.ones(len(Z)))
    hashes, first = np.unique(row_hashes(whose), return_index=True)
    kept = np.sort(first[np.isin(hashes, TakeSample(_SAMPLE).partial(block).hashes)])
    found = guarded(training.take(kept), encoder, model, known.choice_, Z[kept], guards)
    return found._replace(n_rows=known.n_rows_ + len(more.labels))
