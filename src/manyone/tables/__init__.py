"""Tables nobody prepared: a model of data frames, its answers, and reasons for them.

To learn, a table becomes a `TrainingTable` (:mod:`~manyone.tables.training`), of large
tables a sample (`sampling`). About each column there is a `Decision` (`decisions`) with
the map that turns it into coordinates (`maps`); all of them make the `Encoder`
(`encoder`). The model of the encoded rows is fitted in `fitting`.

To score, a table becomes `TableRows` (`rows`), which are read once, with their past.
From these come `Answers` (`answers`: scores, p-values, alarms), an `Explanation` of
some of them (`explain`), and the values that :mod:`manyone.alerts` finds incidents in
(`incidents`).
"""

from manyone.tables.model import TableModel

__all__ = ["TableModel"]
