"""The cases that are measured."""

from __future__ import annotations

from dataclasses import dataclass

from manyone.bench.contenders import CONTENDERS, FLOOR, OURS

_ALL = tuple(CONTENDERS)
# It holds all kernel values.
_LIGHT = tuple(name for name in _ALL if name != "himalaya KernelRidge")
_LINEAR = (OURS, FLOOR, "Nystroem + Ridge")


@dataclass(frozen=True)
class Case:
    """Rows of a fleet, and who is fitted to them.

    Attributes
    ----------
    study : {"rows", "tasks", "landmarks", "strong", "weak"}
        What grows from case to case: of the last two the workers, with the same rows or with as
        many rows each.
    n_rows, n_tasks, n_features, landmarks : int
    contenders : tuple of str
        Names in :data:`manyone.bench.contenders.CONTENDERS`.
    workers : int
        Single-threaded ones, of Dask; 0: everybody in this process.
    """

    study: str
    n_rows: int
    n_tasks: int
    n_features: int
    landmarks: int
    contenders: tuple[str, ...] = _LINEAR
    workers: int = 0

    @property
    def size(self) -> int:
        """The number that grows."""
        sizes = {
            "rows": self.n_rows,
            "tasks": self.n_tasks,
            "landmarks": self.landmarks,
        }
        return self.workers or sizes[self.study]


def scaling(rows: int, landmarks: int) -> tuple[Case, ...]:
    """The same rows on one worker and on two, and twice the rows on two."""
    grown = (
        ("strong", rows, 1),
        ("strong", rows, 2),
        ("weak", rows, 1),
        ("weak", 2 * rows, 2),
    )
    fixed = 100, 32, landmarks, (OURS, FLOOR)
    return tuple(
        Case(study, n_rows, *fixed, workers) for study, n_rows, workers in grown
    )


#: A first look, in a minute or two.
QUICK = (
    Case("rows", 1_000, 20, 8, 100, _ALL),
    Case("rows", 4_000, 20, 8, 100),
    Case("tasks", 2_000, 20, 8, 100, (OURS, FLOOR)),
    Case("tasks", 2_000, 100, 8, 100, (OURS, FLOOR)),
    Case("landmarks", 2_000, 20, 8, 25, (OURS, FLOOR)),
    Case("landmarks", 2_000, 20, 8, 200, (OURS, FLOOR)),
    *scaling(20_000, 600),
)
#: The whole, in some minutes on two cores.
CASES = (
    Case("rows", 3_000, 100, 32, 1_000, _ALL),
    Case("rows", 10_000, 100, 32, 1_000, _LIGHT),
    Case("rows", 30_000, 100, 32, 1_000),
    Case("rows", 100_000, 100, 32, 1_000),
    Case("tasks", 30_000, 30, 32, 500),
    Case("tasks", 30_000, 300, 32, 500),
    Case("tasks", 30_000, 3_000, 32, 500, (OURS, FLOOR)),
    *(Case("landmarks", 30_000, 100, 32, m) for m in (50, 150, 500, 1_500)),
    *scaling(200_000, 1_000),
)
