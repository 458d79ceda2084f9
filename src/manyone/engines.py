"""Rows beyond one kernel matrix: passes over blocks, on one machine or on many."""

from collections.abc import Callable
from typing import TypeVar

from manyone.data.blocks import Block
from manyone.data.sample import Sample, TakeSample
from manyone.data.sweeps import Step, Sweep, local_sweep
from manyone.fitting.left_out import LeaveOut
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import AddUp, Statistics

__all__ = [
    "AddUp",
    "Block",
    "LeaveOut",
    "Plan",
    "Sample",
    "Statistics",
    "Step",
    "TakeSample",
    "fit",
    "local_sweep",
]

Model = TypeVar("Model")


def fit(model: Model, sweep: Sweep) -> Model:
    """Fit an estimator with `landmarks` to rows that only passes over blocks can see.

    The first pass samples rows of every task, from which landmarks and widths are
    chosen. The second adds up the sums that the model is solved from. The third scores
    each row by the model without it, for thresholds and p-values. A whitened metric
    takes one more pass, after the first. Methods that learn from a sample
    (``can.sample_rows``) are fitted as to rows in memory, if the sample has all rows.

    Parameters
    ----------
    model : estimator
        One that declares ``can.landmarks``, with landmarks, or an
        :class:`~manyone.AutoOneClass`, which is fitted to a sample.
    sweep : callable
        Runs a pass: ``sweep(step)`` merges ``step.partial`` of all blocks by
        ``step.merge``.

    Returns
    -------
    model
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR
    >>> from manyone.engines import Block, fit, local_sweep
    >>> rng = np.random.default_rng(0)
    >>> task = ["ann", "bob"] * 25
    >>> blocks = [Block(rng.normal(size=(50, 2)), task) for _ in range(3)]
    >>> model = fit(JointOCKSR(landmarks=20, random_state=0), local_sweep(blocks))
    >>> model.tasks_.tolist(), model.calibration_.counts.tolist()
    (['ann', 'bob'], [75.0, 75.0])
    """
    fit_passes: Callable[[Sweep], Model] | None = getattr(model, "_fit_passes", None)
    if fit_passes is None:
        raise ValueError(
            "engines.fit takes an estimator with landmarks, or an AutoOneClass; got a "
            f"{type(model).__name__}. Transform rows where blocks are made, and fit "
            "the last step. TableModel.fit takes files, functions and Dask frames."
        )
    return fit_passes(sweep)
