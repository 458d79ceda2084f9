"""Thirty days of a fleet, as they would come: what happens when, and the rows of a day.

Pumps send a row every two hours. Two new ones come, the sensor of one dies, two get a
firmware that moves their temperature, one falls silent, and the file is rotated.
"""

import numpy as np
import polars as pl

START = np.datetime64("2026-03-02T00:00")  # a Monday
DAYS = 30
TRAINING_DAYS = 14
PER_DAY = 12
SENSORS = {"pressure": (4.8, 0.12), "temperature": (62.0, 2.5), "flow": (310.0, 9.0)}
PUMPS = [f"pump {k}" for k in range(1, 11)]
NEW = {"pump 11": 4, "pump 12": 11}  # the day on which a machine comes
DEAD = ("pump 3", "pressure", range(7, 9))
FIRMWARE = (("pump 5", "pump 6"), "temperature", 13)
SILENT = ("pump 7", 17)
ROTATED = 9
KILLED = (8, 20)
ANSWERS = {day for day in range(DAYS) if day % 7 in (1, 4)}  # twice a week


def date_of(day):
    """A day as the time column begins."""
    return str(START + np.timedelta64(day, "D"))[:10]


def rows_of_day(day):
    """Rows of a day, negative before the first, with the column `fault`."""
    parts = []
    for number, pump in enumerate([*PUMPS, *NEW]):
        if day < NEW.get(pump, -TRAINING_DAYS):
            continue
        if pump == SILENT[0] and day >= SILENT[1]:
            continue
        rng = np.random.default_rng([number, day + TRAINING_DAYS])
        place = np.random.default_rng(number).normal(0, 3, len(SENSORS))
        noise = rng.normal(size=(PER_DAY, len(SENSORS)))
        noise[:, 2] = 0.8 * noise[:, 0] + 0.6 * noise[:, 2]  # flow follows pressure
        columns = {"pump": [pump] * PER_DAY}
        minutes = 120 * np.arange(PER_DAY) + 3 * number
        when = START + np.timedelta64(day, "D") + minutes.astype("timedelta64[m]")
        columns["when"] = [str(moment).replace("T", " ") for moment in when]
        for k, (name, (usual, deviation)) in enumerate(SENSORS.items()):
            columns[name] = usual + deviation * (place[k] + noise[:, k])
        is_fault = np.zeros(PER_DAY, dtype=bool)
        if pump == DEAD[0] and day in DEAD[2]:
            columns[DEAD[1]] = np.zeros(PER_DAY)
            is_fault[:] = True
        if pump in FIRMWARE[0] and day >= FIRMWARE[2]:
            columns[FIRMWARE[1]] = columns[FIRMWARE[1]] + 10.0
        columns = {
            name: np.round(values, 3) if name in SENSORS else values
            for name, values in columns.items()
        }
        ids = [f"{pump} {text}" for text in columns["when"]]
        parts.append(pl.DataFrame({"reading": ids, **columns, "fault": is_fault}))
    return pl.concat(parts).sort("when", "pump")


def training_rows():
    """Two weeks before the first day."""
    return pl.concat([rows_of_day(day) for day in range(-TRAINING_DAYS, 0)])
