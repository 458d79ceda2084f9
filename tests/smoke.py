"""Does manyone work with nothing but its hard dependencies? ``python tests/smoke.py``.

Run it in an environment that holds the wheel alone; the tests need extras and are for
`make test`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory

import numpy as np

import manyone
from manyone.datasets import load_mnist, load_telemetry, make_fleet
from manyone.estimators import METHODS


def refused(kind: type[Exception], word: str, call: Callable[[], object]) -> None:
    """Check that `call` ends in an error of that kind, whose message has the word."""
    try:
        call()
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__} about {word}")


def main() -> None:
    """Fit, score, tune; check the results against what is known of the data."""
    fleet = make_fleet(n_tasks=6, n_samples=30, random_state=0)
    for cls in METHODS.values():
        model = cls(alarm_rate=0.1).fit(fleet.data, task=fleet.task)
        alarm = model.predict(fleet.test_data, task=fleet.test_task) == -1
        p = model.pvalues(fleet.test_data, task=fleet.test_task)
        false = alarm[~fleet.test_fault].mean()
        caught = alarm[fleet.test_fault].mean()
        print(
            f"{cls.__name__:<22}{false:6.1%} false alarms, {caught:4.0%} of the faults "
            "caught"
        )
        assert np.array_equal(alarm, p <= 0.1), "alarms and p-values disagree"
        assert false < 0.2 and caught > false + 0.1, "this model tells nothing apart"

    tuned = manyone.tune(manyone.JointOCKSR(), fleet.data, task=fleet.task)
    assert tuned.predict_task(fleet.data).tolist().count(-1) < len(fleet.data)
    assert load_mnist().data.shape == (6000, 784), "the embedded digits are missing"
    refused(
        FileNotFoundError,
        "nasa_smap_msl.npz",
        lambda: load_telemetry(data_home="nowhere"),
    )
    with TemporaryDirectory() as folder:
        manyone.save(tuned, f"{folder}/model")
        twin = manyone.load(f"{folder}/model")
    assert np.array_equal(
        twin.predict(fleet.data, task=fleet.task),
        tuned.predict(fleet.data, task=fleet.task),
    ), "a model that was saved and loaded is another one"
    print(f"manyone {manyone.__version__} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", manyone.CalibrationWarning)
    main()
