-- Schema 1. Once a release has it, it is never edited: a change is a new file.

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    parent_run_id TEXT,
    depth INTEGER NOT NULL,
    conversation_id TEXT,
    host TEXT NOT NULL,
    started INTEGER NOT NULL,              -- Unix milliseconds, as all times here
    latest INTEGER NOT NULL,
    ended INTEGER,
    outcome TEXT,
    next_seq INTEGER NOT NULL,
    head BLOB NOT NULL,                    -- latest link of the run's hash chain
    calls INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    deliveries INTEGER NOT NULL
);
CREATE INDEX runs_started ON runs(started);

CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: tail and search follow it
    run INTEGER NOT NULL REFERENCES runs(id),
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    fact TEXT,                             -- identifies the fact among those of its kind in the run
    host TEXT NOT NULL,
    channel TEXT NOT NULL,                 -- how it reached us: hook, proxy, import, library, …
    decision_point TEXT,                   -- where a message about it could be delivered; NULL: nowhere
    schema_version INTEGER NOT NULL,
    redactions INTEGER NOT NULL,           -- secrets redacted before storing
    failed INTEGER,                        -- 1: a call that failed or was refused, 0: another call's end
    payload TEXT NOT NULL,                 -- JSON; long texts are empty here and stored in bodies
    link BLOB NOT NULL,
    UNIQUE (run, seq)
);
CREATE UNIQUE INDEX records_fact ON records(run, kind, fact) WHERE fact IS NOT NULL;

-- Further reports of stored facts: what other sources added, or where the same source conflicts.
CREATE TABLE reports (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs(id),
    seq INTEGER NOT NULL,                  -- seq of the record it is about
    after INTEGER NOT NULL,                -- records in the run when it arrived
    at INTEGER NOT NULL,
    host TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,                  -- merged or conflict
    hash BLOB NOT NULL,                    -- BLAKE3 of the content
    zstd BLOB NOT NULL,                    -- merged: {pointer: value}; conflict: the other payload
    link BLOB NOT NULL
);
CREATE INDEX reports_record ON reports(run, seq);

CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,             -- BLAKE3 of the text
    length INTEGER NOT NULL,
    zstd BLOB NOT NULL
);

CREATE TABLE record_bodies (
    record INTEGER NOT NULL REFERENCES records(id),
    pointer TEXT NOT NULL,                 -- JSON pointer to the text in the payload (RFC 6901)
    body INTEGER NOT NULL REFERENCES bodies(id),
    PRIMARY KEY (record, pointer)
) WITHOUT ROWID;
CREATE INDEX record_bodies_body ON record_bodies(body);

-- Saved engine state of a run. A cache: it can be computed again from the records.
CREATE TABLE checkpoints (
    run INTEGER PRIMARY KEY REFERENCES runs(id),
    next_seq INTEGER NOT NULL,             -- records it has taken in
    zstd BLOB NOT NULL
);
