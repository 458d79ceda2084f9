"""Rows in the order of time for ``manyone watch``, made from the files of tests/cli."""

import sqlite3
from contextlib import closing

import polars as pl

WATCH = ["watch", "fleet.manyone", "today.csv", "--state", "s"]


def query(sql, store="s"):
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def in_time(table, days=1):
    """Rows of all machines side by side, in the order of time."""
    place = pl.int_range(pl.len()).over("machine")
    when = pl.datetime(2026, 2, 1) + pl.duration(hours=place * 24 * days)
    return table.with_columns(when=when.dt.strftime("%Y-%m-%d %H:%M")).sort(
        "when", "machine", maintain_order=True
    )


def calm_rows(copies=1):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    return in_time(pl.concat([table] * copies))


def broken(table, machine="pump 2", columns="b", by=9.0):
    """The table with a machine whose columns are off."""
    is_it = pl.col("machine") == machine
    return table.with_columns(
        pl.when(is_it).then(pl.col(name) + by).otherwise(name).alias(name)
        for name in columns
    )
