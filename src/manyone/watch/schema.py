"""Tables of the store, and the views that dashboards read.

Other programs should read the views, which do not change. Tables may change with
`FORMAT`.

=============  =========================================================================
view           its columns
=============  =========================================================================
scores         id, task, time, score, p_value, alarm, basis, drift, answer, file, row,
               seen
alarms         the same and reason, muted, incident, for rows that raised an alarm
tasks          task, rows, alarms, latest, drift_since, drift_flagged, silent
rates_by_day   day, task, rows, alarms
answers        id, answer, given, used
files          path, rows, bytes, read
incidents      task, column, alarms, rows, begin, end, by_chance, stands_out, worst_row,
               reason, id, answer, seen, changed
messages       id, task, kind, text, made, due, tries, problem, sent
=============  =========================================================================

``time`` and ``latest`` are as the table had them. ``seen``, ``given`` and ``read`` are
when it happened, in UTC. ``alarm``, ``drift`` and ``stands_out`` are 0 or 1. ``answer``
is normal, fault or nothing, in ``answers`` also later. An incident is normal only if
all its alarms were called so. It was first ``seen`` and last ``changed``; its ``id`` is
that of its first alarm. ``muted`` says why an alarm counts for nothing. ``silent`` is
the p-value of the time since the last row of a task that has been silent for too long.
"""

#: "many" in ASCII: tells stores from databases of other programs.
APPLICATION = 0x6D616E79
#: Number of the tables below. A store of another number is refused.
FORMAT = 2

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The state of the Monitor, without the rows that it remembers: they are in judged_row.
CREATE TABLE monitor (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    state BLOB NOT NULL
);

-- Each file that was read, under its full path. A file that was replaced by another is
-- read as a new one: the last of a path is the one that can go on.
CREATE TABLE file (
    number INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,   -- SHA-256 of both ends of what was read
    form TEXT NOT NULL,     -- JSON: how it is written
    read TEXT NOT NULL
);
CREATE INDEX file_by_path ON file (path);

-- Every row once, in the order in which rows came.
CREATE TABLE judged_row (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    file INTEGER NOT NULL REFERENCES file (number),
    file_row INTEGER NOT NULL,
    task TEXT,
    time TEXT,
    moment REAL,            -- the time in seconds since 1970, or as a number
    score REAL NOT NULL,
    p_value REAL NOT NULL,
    alarm INTEGER NOT NULL,
    raised INTEGER NOT NULL,-- by the monitor, before --at-least and --direction
    muted TEXT,             -- why, where the alarm is muted
    basis TEXT NOT NULL,
    drift INTEGER NOT NULL,
    weight REAL NOT NULL,   -- with which it was taken as normal
    answer INTEGER NOT NULL DEFAULT -1, -- 1 normal, 0 fault, -1 none
    kept TEXT,              -- JSON object of the columns of --keep
    reasons TEXT,           -- JSON array of the reasons for an alarm
    depth REAL NOT NULL,    -- below the threshold of the model, in units of the task
    rank_p REAL NOT NULL,   -- p-values that incidents go by
    depth_p REAL NOT NULL,
    leading TEXT,           -- column that explains most of an alarm
    incident TEXT,          -- id of the incident that the alarm belongs to
    seen TEXT NOT NULL
);
CREATE INDEX row_by_task ON judged_row (task);
CREATE INDEX alarm_by_number ON judged_row (number) WHERE alarm = 1;
CREATE INDEX alarm_by_incident ON judged_row (incident) WHERE incident IS NOT NULL;

-- What stood in the rows, for reasons and refits; --keep-days prunes it.
CREATE TABLE row_values (
    number INTEGER PRIMARY KEY REFERENCES judged_row (number),
    content TEXT NOT NULL,  -- JSON object
    seen TEXT NOT NULL
);
CREATE INDEX row_values_by_age ON row_values (seen);

CREATE TABLE task (
    name TEXT PRIMARY KEY,
    rows INTEGER NOT NULL,
    alarms INTEGER NOT NULL,
    first_row INTEGER NOT NULL, -- its number
    stretch INTEGER,            -- number of the alarm that began one that may go on
    latest TEXT,
    latest_moment REAL,
    drift_since TEXT,
    drift_flagged TEXT,
    drift_moment REAL,          -- when it was flagged, as a number
    gaps BLOB,                  -- the last ones between its rows, float32
    silent REAL                 -- p-value of its present gap, where that is too low
);

-- Every answer that somebody gave, whether its row has come or not. The last one of an
-- id counts.
CREATE TABLE answer (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('normal', 'fault', 'later')),
    given TEXT NOT NULL,
    used INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX answer_by_id ON answer (id);
CREATE INDEX answer_unused ON answer (number) WHERE used = 0;

CREATE TABLE incident (
    id TEXT PRIMARY KEY,        -- of its first alarm
    stretch INTEGER NOT NULL,   -- number of the row that its stretch begins with
    task TEXT NOT NULL,
    "column" TEXT NOT NULL,
    alarms INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    "begin" NOT NULL,           -- times of its first and last alarm, or numbers of rows
    "end" NOT NULL,
    by_chance REAL NOT NULL,
    stands_out INTEGER NOT NULL,
    worst_row TEXT NOT NULL,    -- its id
    reason TEXT NOT NULL,
    seen TEXT NOT NULL,
    changed TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX incident_by_stretch ON incident (stretch);

-- What people are told, once each; see outbox.py.
CREATE TABLE message (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,    -- of the incident, where it is about one
    task TEXT NOT NULL,
    content TEXT NOT NULL,      -- JSON object
    made TEXT NOT NULL,
    due TEXT NOT NULL,          -- not to be sent before
    tries INTEGER NOT NULL DEFAULT 0,
    problem TEXT NOT NULL DEFAULT '',
    sent TEXT
);
CREATE INDEX message_by_task ON message (task, due);
CREATE INDEX message_unsent ON message (number) WHERE sent IS NULL;

-- What --mute asked for last.
CREATE TABLE mute (
    task TEXT,                  -- nothing: all tasks
    "from" REAL NOT NULL,       -- infinite where there is no limit
    until REAL NOT NULL,
    why TEXT NOT NULL
);

-- Copies of the scores that --out asked for, and how far each was written.
CREATE TABLE output (
    path TEXT PRIMARY KEY,
    columns TEXT NOT NULL,  -- JSON array
    last_row INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    digest TEXT NOT NULL
) WITHOUT ROWID;
"""

VIEWS = """
CREATE VIEW scores AS
SELECT id, task, time, score, p_value, alarm, basis, drift,
    CASE answer WHEN 1 THEN 'normal' WHEN 0 THEN 'fault' END AS answer,
    file.path AS file, file_row AS row, seen
FROM judged_row JOIN file ON file.number = judged_row.file;

CREATE VIEW alarms AS
SELECT id, task, time, score, p_value, alarm, basis, drift,
    CASE answer WHEN 1 THEN 'normal' WHEN 0 THEN 'fault' END AS answer,
    file.path AS file, file_row AS row, seen, json_extract(reasons, '$[0]') AS reason,
    muted, incident
FROM judged_row JOIN file ON file.number = judged_row.file
WHERE alarm = 1;

CREATE VIEW tasks AS
SELECT name AS task, rows, alarms, latest, drift_since, drift_flagged, silent FROM task;

CREATE VIEW rates_by_day AS
SELECT coalesce(date(time), date(seen)) AS day, task, count(*) AS rows,
    sum(alarm) AS alarms
FROM judged_row GROUP BY 1, 2;

CREATE VIEW answers AS SELECT id, answer, given, used FROM answer;

CREATE VIEW files AS SELECT path, rows, bytes, read FROM file;

CREATE VIEW messages AS
SELECT id, task, json_extract(content, '$.kind') AS kind,
    json_extract(content, '$.text') AS text, made, due, tries, problem, sent
FROM message;

CREATE VIEW incidents AS
SELECT task, "column", alarms, rows, "begin", "end", by_chance, stands_out, worst_row,
    reason, id,
    (SELECT CASE
        WHEN sum(answer = 0) THEN 'fault'
        WHEN min(answer) = 1 THEN 'normal'
     END
     FROM judged_row WHERE judged_row.incident = incident.id) AS answer,
    seen, changed
FROM incident;
"""
