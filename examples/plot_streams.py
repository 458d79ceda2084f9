"""
Servers, a satellite, typists: thresholds in time
=================================================

Three real streams, each in the order of its rows, 10 % asked: eight servers in the
weeks after training, channels of the satellite SMAP, and people who type a password
again and again while strangers try it too. Fixed thresholds, thresholds from blocks of
time, and a :class:`~manyone.Monitor` that gets answers about every row, about its
alarms, about half of them, or none. Last, an attacker who knows how a monitor learns
moves away from what is normal, step by step.

(``python benchmarks/bench_time.py servers spacecraft keystrokes attack`` prints the
same for all rows and ten attacks.)

Run ``python examples/plot_streams.py``; it needs the data of
:func:`~manyone.datasets.load_servers`, :func:`~manyone.datasets.load_telemetry` and
:func:`~manyone.datasets.load_keystrokes`.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyone import IndependentOCKSR, JointOCKSR, Monitor, TimeBlocks
from manyone.datasets import load_keystrokes, load_servers, load_telemetry

RATE = 0.1
MARKS = ("C3o", "C4s", "C2o", "C0o", "C7o", "C1o")


def servers():
    """A hundred rows of each server; every third row of the weeks after."""
    train = load_servers()
    test = load_servers(split="test")
    rows_by_task = [
        np.flatnonzero(train.target == t) for t in range(len(train.target_names))
    ]
    first = np.concatenate(
        [rows[np.linspace(0, len(rows) - 1, 100).astype(int)] for rows in rows_by_task]
    )
    later = np.arange(0, len(test.data), 3)
    wrong = test.label[later].astype(bool)
    learned = train.data[first], train.target[first]
    return *learned, test.data[later], test.target[later], wrong


def satellite():
    """Channels that have twenty windows to learn from."""
    train, test = (
        load_telemetry(spacecraft="SMAP", split=split) for split in ("train", "test")
    )
    enough = np.flatnonzero(np.bincount(train.target) >= 20)
    first = np.isin(train.target, enough)
    later = np.isin(test.target, enough)
    wrong = test.label[later].astype(bool)
    learned = train.data[first], train.target[first]
    return *learned, test.data[later], test.target[later], wrong


def typists():
    """Twenty rows of each of 40 people; then more, every third a stranger's."""
    typing = load_keystrokes()
    rng = np.random.default_rng(0)
    strangers = np.flatnonzero(typing.target >= 40)
    rows_by_task = [np.flatnonzero(typing.target == user) for user in range(40)]
    first = np.concatenate([rows[:20] for rows in rows_by_task])
    later = [
        np.insert(rows[20:], np.arange(2, len(rows) - 20, 2), rng.choice(strangers, 15))
        for rows in rows_by_task
    ]
    claim = np.repeat(np.arange(40), list(map(len, later)))
    later = np.concatenate(later)
    bad = typing.target[later] >= 40
    return typing.data[first], typing.target[first], typing.data[later], claim, bad


def watch(model, Z, task, bad, answered):
    """Alarms, the first row of every task, then the second; some answered at once.

    `answered` is the share of the alarms that are answered, 2 says that all rows are.
    """
    monitor = Monitor(model)
    alarm = np.zeros(len(Z), dtype=bool)
    rows_by_task = [np.flatnonzero(task == t) for t in np.unique(task)]
    for step in range(max(map(len, rows_by_task))):
        now = np.array([rows[step] for rows in rows_by_task if step < len(rows)])
        watched = monitor.update(Z[now], task[now], id=now)
        alarm[now] = watched.alarm
        reported = now[(watched.alarm | (answered > 1)) & (now % 2 < 2 * answered)]
        if len(reported):
            monitor.feedback(reported, normal=~bad[reported])
    return alarm


def by_task(values, task, rows):
    """Mean of values over some rows of each task that has any."""
    return np.array([values[rows & (task == t)].mean() for t in np.unique(task[rows])])


# %%
# Every stream is a panel: further left is fewer false alarms, further up is more
# caught. Fixed thresholds raise more than was asked for. Thresholds from blocks of time
# raise less on servers and typists, not on the satellite. A monitor that is told about
# its alarms is near the promise, and catches about what thresholds set with hindsight
# (the line) would. Without answers nobody can know whether lasting alarms are faults or
# the new normal.

faults = IndependentOCKSR(kernel="laplacian", metric="whitened", alarm_rate=RATE)
strangers = JointOCKSR(kernel="laplacian", metric="whitened", alarm_rate=RATE)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
results = {}
for ax, read in zip(axes, (servers, satellite, typists), strict=True):
    model = strangers if read is typists else faults
    X, task, Z, claim, bad = read()
    model.fit(X, task=task)
    scores = model.score_samples(Z, task=claim)
    codes = np.searchsorted(np.unique(task), claim)
    alarms = {"fixed": scores < model.offset_[codes]}
    answers = {
        "rows answered": 2.0,
        "alarms answered": 1.0,
        "half answered": 0.5,
        "no answers": 0.0,
    }
    for name, answered in answers.items():
        alarms[f"monitor, {name}"] = watch(model, Z, claim, bad, answered)
    model.fit(X, task=task, groups=TimeBlocks(np.arange(len(X)), forward=False))
    alarms["fixed, blocks of time"] = scores < model.offset_[codes]
    for mark, (name, alarm) in zip(MARKS, alarms.items(), strict=True):
        false = by_task(alarm, claim, ~bad)
        caught = by_task(alarm, claim, bad).mean()
        results[read.__name__, name] = false.mean(), false.max(), caught
        size = 13 if mark.endswith("s") else 9
        ax.plot(100 * false.mean(), 100 * caught, mark, ms=size, label=name)
    rates = np.linspace(0, 0.5, 26)
    lines = [
        [np.quantile(scores[~bad & (claim == t)], r) for t in np.unique(claim)]
        for r in rates
    ]
    best = [
        by_task(scores < np.array(line)[codes], claim, bad).mean() for line in lines
    ]
    ax.plot(
        100 * rates,
        100 * np.array(best),
        color="0.7",
        lw=1,
        zorder=0,
        label="with hindsight",
    )
    ax.axvline(100 * RATE, color="k", lw=1, ls="--", label="promised")
    ax.set(title=read.__name__, xlabel="false alarms, %", xlim=(0, 50), ylim=(0, 100))
for (stream, name), (false, worst, caught) in results.items():
    print(
        f"{stream:10s} {name:25s} false {false:.1%}, worst {worst:.0%}, caught "
        f"{caught:.1%}"
    )
axes[0].set_ylabel("caught, %")
axes[0].legend(frameon=False, fontsize="small", loc="lower right")
plt.show()

# %%
# The attack. A stranger sees every answer, steps outwards after each accepted row and
# back after each alarm. Whatever is accepted, the border stays within a cap that the
# training rows set. If somebody calls the alarms abnormal, it does not move outwards at
# all.

model = IndependentOCKSR(alarm_rate=RATE).fit(
    np.random.default_rng(0).normal(size=(50, 8))
)
radii = np.linspace(0.0, 12.0, 4000)
way = radii[:, None] * np.full(8, 1 / np.sqrt(8))
scores = model.score_samples(way)


def border(threshold):
    """How far out a row is still accepted."""
    return radii[np.flatnonzero(scores >= threshold)[-1]]


borders = {}
figure, ax = plt.subplots(figsize=(11, 4), layout="constrained")
for answered, name in ((False, "nobody answers"), (True, "alarms are called abnormal")):
    monitor = Monitor(model)
    at = 0
    borders[name] = []
    while len(borders[name]) < 1000:
        watched = monitor.update(way[[at]])
        at = max(at - 40, 0) if watched.alarm[0] else min(at + 10, len(way) - 1)
        if not watched.alarm[0]:
            borders[name].append(border(monitor.thresholds[0]))
        elif answered:
            monitor.feedback(watched.id, normal=False)
    ax.plot(np.arange(1, 1001), borders[name], label=name)
cap = border(monitor.anchors.low[0])
ax.axhline(cap, color="k", lw=1, ls="--", label="cap")
ax.set(
    title="an attack", xlabel="accepted rows of the attacker", ylabel="border: distance"
)
ax.legend(frameon=False)
plt.show()
