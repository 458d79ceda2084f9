"""A synthetic fleet of related machines with planted faults."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

__all__ = ["FAULT_KINDS", "make_fleet"]

FAULT_KINDS = ("shift", "decoupling", "drift", "swap")

_NOISE = 0.4  # standard deviation of a sensor's own noise; its total variance is 1
_SPREAD = 3.0  # standard deviation of the machines' means, in units of a sensor's own deviation
_SCALE_SPREAD = 0.5  # standard deviation of the logarithm of the sensors' scales


def make_fleet(
    n_tasks: int = 20,
    n_samples: int = 20,
    n_features: int = 8,
    *,
    n_test: int = 40,
    fault_rate: float = 0.25,
    fault_size: float = 4.0,
    relatedness: float = 0.8,
    n_types: int = 3,
    n_factors: int = 2,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.float64], NDArray[np.intp]]:
    r"""Make a fleet of related machines, each with few normal rows, and test rows with faults.

    Every machine is a task and every row one reading of its sensors. A few hidden factors
    (load, temperature, ...) drive all sensors, in nearly the same way on every machine; machines
    of one type run at similar levels.

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
        Fraction of the test rows that are faulty: ``round(fault_rate * n_test)`` rows of every
        machine.
    fault_size : float, default=4.0
        Size :math:`a` of shifts and drifts, in standard deviations of a sensor.
    relatedness : float in [0, 1], default=0.8
        How much of a machine is shared, :math:`\rho` below. 0: machines have nothing in common;
        1: machines of one type follow one and the same distribution.
    n_types : int, default=3
        Types of machine, dealt out evenly.
    n_factors : int, default=2
        Hidden factors :math:`q`.
    random_state : int, RandomState or None, default=None
        Seed. The normal rows do not depend on `n_test`, `fault_rate` or `fault_size`.
    return_X_y : bool, default=False
        Return ``(data, task)`` only.

    Returns
    -------
    Bunch
        ``data`` (n_tasks * n_samples, n_features) and ``task``, the normal training rows and
        their machines (``target`` is the same array as ``task``);
        ``test_data`` (n_tasks * n_test, n_features), ``test_task``, ``test_fault`` (bool) and
        ``fault_kind`` (``"none"`` or one of ``"shift"``, ``"decoupling"``, ``"drift"``,
        ``"swap"``), the test rows in the order of time;
        ``machine_type`` (n_tasks,), ``mean`` (n_tasks, n_features) and ``covariance``
        (n_tasks, n_features, n_features), the truth behind the normal rows; ``target_names``
        and ``DESCR``.

    Notes
    -----
    A normal row of machine :math:`t` of type :math:`c` is

    .. math:: x = m_t + s_t \odot (L_t z + \sigma e), \qquad z \sim N(0, I_q),\; e \sim N(0, I_d)

    with :math:`\sigma = 0.4`. The level, scale and loadings mix a shared part with an own one,

    .. math::
        m_t = 3 (\sqrt\rho\, M_c + \sqrt{1 - \rho}\, N_t), \quad
        \log s_t = \tfrac12 (\sqrt\rho\, S_c + \sqrt{1 - \rho}\, U_t), \quad
        L_t \propto \sqrt\rho\, L + \sqrt{1 - \rho}\, G_t,

    all capitals being standard normal, and the rows of :math:`L_t` are scaled to the length
    :math:`\sqrt{1 - \sigma^2}`: each sensor :math:`j` has the standard deviation :math:`s_{tj}`
    and the covariance is :math:`\mathrm{diag}(s_t) (L_t L_t^T + \sigma^2 I)\,
    \mathrm{diag}(s_t)`. The faults, in equal parts:

    - *shift*: one sensor moves by :math:`\pm a s_{tj}`;
    - *decoupling*: half of the sensors follow another, independent draw of the factors. Every
      sensor keeps its own distribution, so no single sensor shows the fault;
    - *drift*: half of the sensors move together; the k-th of the machine's K drifting rows by
      :math:`a s_{tj} k / K`, so the first of them are hard to see;
    - *swap*: the row comes from another machine, of another type where there is one. With one
      machine there is no swap.

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
        if count < least:
            raise ValueError(f"{name} must be at least {least}, got {count}.")
    for name, fraction in (("fault_rate", fault_rate), ("relatedness", relatedness)):
        if not 0 <= fraction <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {fraction}.")

    rng = check_random_state(random_state)
    machine_type = rng.permutation(np.arange(n_tasks) % n_types)
    own, shared = np.sqrt(1 - relatedness), np.sqrt(relatedness)

    def mix(common: NDArray[Any]) -> NDArray[Any]:
        return shared * common + own * rng.standard_normal((n_tasks, *common.shape[1:]))

    mean = _SPREAD * mix(rng.standard_normal((n_types, n_features))[machine_type])
    scale = np.exp(_SCALE_SPREAD * mix(rng.standard_normal((n_types, n_features))[machine_type]))
    loadings = mix(rng.standard_normal((1, n_features, n_factors)))
    loadings *= np.sqrt(1 - _NOISE**2) / np.linalg.norm(loadings, axis=2, keepdims=True)
    correlation = loadings @ loadings.transpose(0, 2, 1) + _NOISE**2 * np.eye(n_features)

    def read(task: NDArray[Any], other: NDArray[Any] | None = None) -> NDArray[Any]:
        """One normal row for each entry of `task`; sensors in `other` follow other factors."""
        factors = rng.standard_normal((len(task), n_factors))
        driven = np.einsum("njq,nq->nj", loadings[task], factors)
        if other is not None:
            factors = rng.standard_normal((len(task), n_factors))
            driven = np.where(other, np.einsum("njq,nq->nj", loadings[task], factors), driven)
        noise = _NOISE * rng.standard_normal((len(task), n_features))
        return mean[task] + scale[task] * (driven + noise)

    task = np.repeat(np.arange(n_tasks), n_samples)
    data = read(task)
    if return_X_y:
        return data, task

    test_task = np.repeat(np.arange(n_tasks), n_test)
    fault_kind = _plan_faults(n_tasks, n_test, round(fault_rate * n_test), rng)
    half = _pick(len(test_task), n_features, n_features // 2, rng)
    one = _pick(len(test_task), n_features, 1, rng)
    sign = rng.choice([-1.0, 1.0], size=(len(test_task), 1))

    step = scale[test_task] * fault_size
    drifting = (fault_kind == "drift").reshape(n_tasks, n_test)
    progress = np.cumsum(drifting, axis=1) / np.maximum(drifting.sum(axis=1, keepdims=True), 1)

    swap = fault_kind == "swap"
    source = np.where(swap, _other_machine(test_task, machine_type, rng), test_task)
    test_data = read(source, half & (fault_kind == "decoupling")[:, None])
    test_data += np.where((fault_kind == "shift")[:, None] & one, sign * step, 0.0)
    # One fixed group of sensors per machine drifts, in one direction.
    moving = np.repeat(_pick(n_tasks, n_features, n_features // 2, rng), n_test, axis=0)
    test_data += np.where(drifting.reshape(-1, 1) & moving, progress.reshape(-1, 1) * step, 0.0)

    return Bunch(
        data=data,
        task=task,
        target=task,
        target_names=np.array([f"machine{t}" for t in range(n_tasks)]),
        test_data=test_data,
        test_task=test_task,
        test_fault=fault_kind != "none",
        fault_kind=fault_kind,
        machine_type=machine_type,
        mean=mean,
        covariance=scale[:, :, None] * correlation * scale[:, None, :],
        DESCR="Synthetic fleet of related machines with planted faults; see make_fleet.",
    )


def _plan_faults(
    n_tasks: int, n_test: int, n_faults: int, rng: np.random.RandomState
) -> NDArray[np.str_]:
    """Kind of every test row, (n_tasks * n_test,): `n_faults` random rows of each machine."""
    kinds = np.array(FAULT_KINDS if n_tasks > 1 else FAULT_KINDS[:-1])
    plan = np.full((n_tasks, n_test), "none", dtype="U10")
    for t in range(n_tasks):
        # Starting at another kind on each machine keeps the kinds even over the fleet.
        dealt = kinds[(t * n_faults + np.arange(n_faults)) % len(kinds)]
        plan[t, rng.permutation(n_test)[:n_faults]] = dealt
    return plan.ravel()


def _pick(n_rows: int, n_features: int, k: int, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Mask (n_rows, n_features) with `k` random entries set in each row."""
    ranks = rng.uniform(size=(n_rows, n_features)).argsort(axis=1).argsort(axis=1)
    return ranks < k


def _other_machine(
    task: NDArray[np.intp], machine_type: NDArray[np.intp], rng: np.random.RandomState
) -> NDArray[np.intp]:
    """For every row another machine than its own, of another type where there is one."""
    group = machine_type if np.ptp(machine_type) else np.arange(len(machine_type))
    by_group = np.argsort(group, kind="stable")
    start = np.searchsorted(group[by_group], group)  # a machine's own group is one block
    size = np.bincount(group)[group]
    choices = np.maximum(len(group) - size, 1)
    k = (rng.uniform(size=len(task)) * choices[task]).astype(np.intp)
    k += np.where(k >= start[task], size[task], 0)  # skip the block
    return by_group[k % len(group)]
