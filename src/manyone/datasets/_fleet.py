"""A synthetic fleet of related machines with planted faults and strangers."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from manyone._types import Array, Codes, Mask
from manyone.datasets._cache import choose, loader

OWN = ("shift", "decoupling", "drift")
STRANGER = ("swap",)
KINDS = {"own": OWN, "stranger": STRANGER, "both": OWN + STRANGER}

_NOISE = 0.4  # standard deviation of a sensor's own noise; its total variance is 1


@loader
def make_fleet(
    n_tasks: int = 20,
    n_samples: int = 20,
    n_features: int = 8,
    *,
    n_test: int = 40,
    fault_rate: float = 0.25,
    fault_size: float = 4.0,
    fault: str = "both",
    relatedness: float = 0.8,
    n_types: int = 3,
    n_factors: int = 2,
    random_state: int | RandomState | None = None,
) -> Bunch:
    r"""Make related machines with few normal rows each, and test rows with faults.

    Every machine is a task and every row one reading of its sensors. A few hidden
    factors (load, temperature, ...) drive all sensors, in nearly the same way on every
    machine; machines of one type run at similar levels.

    Parameters
    ----------
    n_tasks : int, default=20
        Machines :math:`T`.
    n_samples : int, default=20
        Normal training rows per machine.
    n_features : int, default=8
        Sensors :math:`d`, at least 2.
    n_test : int, default=40
        Test rows per machine.
    fault_rate : float, default=0.25
        Fraction of the test rows that are faulty: ``round(fault_rate * n_test)`` rows
        of every machine.
    fault_size : float, default=4.0
        Size :math:`a` of shifts and drifts, in standard deviations of a sensor.
    fault : {"own", "stranger", "both"}, default="both"
        What anomalies are: the machine itself gone wrong (shifts, decouplings, drifts),
        readings of another machine (swaps), or all of them in equal parts.
    relatedness : float in [0, 1], default=0.8
        How much of a machine is shared, :math:`\rho` below. 0: machines have nothing in
        common; 1: machines of one type follow one and the same distribution.
    n_types : int, default=3
        Types of machine, dealt out evenly.
    n_factors : int, default=2
        Hidden factors :math:`q`.
    random_state : int, RandomState or None, default=None
        Seed. The normal rows do not depend on `n_test` or on the faults.
    return_X_y : bool, default=False
        Return ``(data, task)`` only.

    Returns
    -------
    Bunch
        ``data`` (n_tasks * n_samples, n_features) and ``task``, the normal training
        rows and their machines (``target`` is the same array as ``task``);
        ``test_data`` (n_tasks * n_test, n_features), ``test_task``, ``test_fault``
        (bool) and ``fault_kind`` (``"none"`` or one of ``"shift"``, ``"decoupling"``,
        ``"drift"``, ``"swap"``), the test rows in the order of time; ``machine_type``
        (n_tasks,), ``mean`` (n_tasks, n_features) and ``covariance`` (n_tasks,
        n_features, n_features), the truth behind the normal rows; ``target_names`` and
        ``DESCR``.

    Notes
    -----
    A normal row of machine :math:`t` of type :math:`c` is

    .. math::
        x = m_t + s_t \odot (L_t z + \sigma e), \qquad
        z \sim N(0, I_q),\; e \sim N(0, I_d)

    with :math:`\sigma = 0.4`. The level, scale and loadings mix a shared part with an
    own one,

    .. math::
        m_t = 3 (\sqrt\rho\, M_c + \sqrt{1 - \rho}\, N_t), \quad
        \log s_t = \tfrac12 (\sqrt\rho\, S_c + \sqrt{1 - \rho}\, U_t), \quad
        L_t \propto \sqrt\rho\, L + \sqrt{1 - \rho}\, G_t,

    all capitals being standard normal, and the rows of :math:`L_t` are scaled to the
    length :math:`\sqrt{1 - \sigma^2}`: each sensor :math:`j` has the standard deviation
    :math:`s_{tj}` and the covariance is
    :math:`\mathrm{diag}(s_t) (L_t L_t^T + \sigma^2 I)\, \mathrm{diag}(s_t)`.
    The anomalies, in equal parts:

    - *shift*: one sensor moves by :math:`\pm a s_{tj}`;
    - *decoupling*: half of the sensors follow another, independent draw of the factors.
      Every sensor keeps its own distribution, so no single sensor shows the fault;
    - *drift*: half of the sensors move together; the k-th of the machine's K drifting
      rows by :math:`a s_{tj} k / K`, so the first of them are hard to see;
    - *swap*: the row comes from another machine, of another type where there is one.
      With one machine there is no swap.

    Normal rows are Gaussian, so a Mahalanobis distance is the right model of a
    machine's own faults and hard to beat there; methods that learn the machines
    together are at their best on swaps. Compare on both kinds.

    Examples
    --------
    >>> from manyone.datasets import make_fleet
    >>> fleet = make_fleet(n_tasks=5, n_samples=10, random_state=0)
    >>> fleet.data.shape, fleet.test_data.shape, int(fleet.test_fault.sum())
    ((50, 8), (200, 8), 50)
    """
    for name, count, least in (
        ("n_tasks", n_tasks, 1),
        ("n_samples", n_samples, 1),
        ("n_features", n_features, 2),
        ("n_test", n_test, 0),
        ("n_types", n_types, 1),
        ("n_factors", n_factors, 1),
    ):
        if not isinstance(count, Integral) or count < least:
            raise ValueError(
                f"{name} must be an integer of at least {least}, got {count!r}."
            )
    for name, fraction in (("fault_rate", fault_rate), ("relatedness", relatedness)):
        if not 0 <= fraction <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {fraction}.")
    choose("fault", fault, tuple(KINDS))
    if fault == "stranger" and n_tasks < 2:
        raise ValueError(
            'fault="stranger" needs n_tasks of at least 2: one machine has no other.'
        )

    rng = check_random_state(random_state)
    machine_type = rng.permutation(np.arange(n_tasks) % n_types)
    machines = _draw_machines(
        machine_type, n_types, n_features, n_factors, relatedness, rng
    )
    task = np.repeat(np.arange(n_tasks), n_samples)
    data = machines.read(task, rng)
    fault_kind = _plan_faults(
        KINDS[fault], n_tasks, n_test, round(fault_rate * n_test), rng
    )
    return Bunch(
        data=data,
        task=task,
        target=task,
        target_names=np.array([f"machine{t}" for t in range(n_tasks)]),
        test_data=_test_rows(machines, fault_kind, fault_size, rng),
        test_task=np.repeat(np.arange(n_tasks), n_test),
        test_fault=fault_kind.ravel() != "none",
        fault_kind=fault_kind.ravel(),
        machine_type=machine_type,
        mean=machines.mean,
        covariance=machines.covariance,
        DESCR="Synthetic fleet of machines with planted faults; see make_fleet.",
    )


class _Machines(NamedTuple):
    """The law of normal rows: type (T,), mean, scale (T, d), loadings (T, d, q)."""

    machine_type: Codes
    mean: Array
    scale: Array
    loadings: Array

    @property
    def covariance(self) -> Array:
        """Covariance of the normal rows of each machine, (T, d, d)."""
        shared = self.loadings @ self.loadings.transpose(0, 2, 1)
        correlation = shared + _NOISE**2 * np.eye(self.mean.shape[1])
        return self.scale[:, :, None] * correlation * self.scale[:, None, :]

    def read(self, task: Codes, rng: RandomState, other: Mask | None = None) -> Array:
        """Draw a normal row for each entry of `task`.

        Sensors in the mask `other` follow a second, independent draw of the factors.
        """

        def driven() -> Array:
            factors = rng.standard_normal((len(task), self.loadings.shape[2]))
            return np.einsum("njq,nq->nj", self.loadings[task], factors)

        signal = driven()
        if other is not None:
            signal = np.where(other, driven(), signal)
        noise = _NOISE * rng.standard_normal(signal.shape)
        return self.mean[task] + self.scale[task] * (signal + noise)


def _draw_machines(
    machine_type: Codes,
    n_types: int,
    d: int,
    q: int,
    relatedness: float,
    rng: RandomState,
) -> _Machines:
    """Draw machines with d sensors and q factors, as in the notes of `make_fleet`."""

    def mix(common: Array) -> Array:
        size = (len(machine_type), *common.shape[1:])
        single = rng.standard_normal(size)
        return np.sqrt(relatedness) * common + np.sqrt(1 - relatedness) * single

    mean = 3.0 * mix(rng.standard_normal((n_types, d))[machine_type])
    scale = np.exp(0.5 * mix(rng.standard_normal((n_types, d))[machine_type]))
    loadings = mix(rng.standard_normal((1, d, q)))
    loadings *= np.sqrt(1 - _NOISE**2) / np.linalg.norm(loadings, axis=2, keepdims=True)
    return _Machines(machine_type, mean, scale, loadings)


def _test_rows(
    machines: _Machines,
    fault_kind: NDArray[np.str_],
    fault_size: float,
    rng: RandomState,
) -> Array:
    """Test rows (T * n_test, d) with the faults of `fault_kind` (T, n_test)."""
    n_tasks, n_test = fault_kind.shape
    n_features = machines.mean.shape[1]
    task = np.repeat(np.arange(n_tasks), n_test)
    kind = fault_kind.reshape(-1, 1)
    half = _pick(len(task), n_features, n_features // 2, rng)
    single = _pick(len(task), n_features, 1, rng)
    sign = rng.choice([-1.0, 1.0], size=(len(task), 1))
    strange = _other_machine(task, machines.machine_type, rng)
    source = np.where(kind[:, 0] == "swap", strange, task)
    rows = machines.read(source, rng, half & (kind == "decoupling"))

    step = machines.scale[task] * fault_size
    rows += np.where((kind == "shift") & single, sign * step, 0.0)
    # One fixed group of sensors per machine drifts, in one direction.
    moving = np.repeat(_pick(n_tasks, n_features, n_features // 2, rng), n_test, axis=0)
    drifting = fault_kind == "drift"
    number = np.maximum(drifting.sum(axis=1, keepdims=True), 1)
    progress = np.cumsum(drifting, axis=1) / number
    rows += np.where((kind == "drift") & moving, progress.reshape(-1, 1) * step, 0.0)
    return rows


def _plan_faults(
    among: tuple[str, ...], n_tasks: int, n_test: int, n_faults: int, rng: RandomState
) -> NDArray[np.str_]:
    """Kinds of test rows (T, n_test), of which `n_faults` a machine are faults."""
    kinds = np.array(among if n_tasks > 1 else OWN)
    plan = np.full((n_tasks, n_test), "none", dtype="U10")
    for t in range(n_tasks):
        # Starting at another kind on each machine keeps the kinds even over the fleet.
        dealt = kinds[(t * n_faults + np.arange(n_faults)) % len(kinds)]
        plan[t, rng.permutation(n_test)[:n_faults]] = dealt
    return plan


def _pick(n_rows: int, n_features: int, k: int, rng: RandomState) -> Mask:
    """Mask (n_rows, n_features) with `k` random entries set in each row."""
    # Sorting twice gives ranks.
    return rng.uniform(size=(n_rows, n_features)).argsort(axis=1).argsort(axis=1) < k


def _other_machine(task: Codes, machine_type: Codes, rng: RandomState) -> Codes:
    """For every row a machine other than its own, of another type if there is one."""
    group = machine_type if np.ptp(machine_type) else np.arange(len(machine_type))
    by_group = np.argsort(group, kind="stable")
    # A machine's own group is one block.
    start = np.searchsorted(group[by_group], group)
    size = np.bincount(group)[group]
    choices = np.maximum(len(group) - size, 1)
    k = (rng.uniform(size=len(task)) * choices[task]).astype(np.intp)
    k += np.where(k >= start[task], size[task], 0)  # skip the block
    return by_group[k % len(group)]
