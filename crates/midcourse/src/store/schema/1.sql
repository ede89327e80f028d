-- Schema 1. Never edited once released: a change is a new file.

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
    head BLOB NOT NULL,                    -- the latest link of the run's hash chain
    calls INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    deliveries INTEGER NOT NULL
);
CREATE INDEX runs_started ON runs(started);

CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- followed by tail and search, so none comes again
    run INTEGER NOT NULL REFERENCES runs(id),
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    fact TEXT,                             -- tells one fact of a kind from another in its run
    source TEXT NOT NULL,
    decision_point TEXT,                   -- where a message about it could be delivered, if anywhere
    schema_version INTEGER NOT NULL,
    redactions INTEGER NOT NULL,           -- secrets taken out before storing
    payload TEXT NOT NULL,                 -- JSON; long texts are empty and stand in bodies
    link BLOB NOT NULL,
    UNIQUE (run, seq)
);
CREATE UNIQUE INDEX records_fact ON records(run, kind, fact) WHERE fact IS NOT NULL;

-- What later sources added to a record, or what one source said differently.
CREATE TABLE reports (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs(id),
    seq INTEGER NOT NULL,                  -- the record it is about
    after INTEGER NOT NULL,                -- records in the run when it came
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    relation TEXT NOT NULL,                -- filled or diverged
    hash BLOB NOT NULL,                    -- BLAKE3 of what it says
    zstd BLOB NOT NULL,                    -- filled: {pointer: value}; diverged: the other payload
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
    pointer TEXT NOT NULL,                 -- where the text belongs in the payload (RFC 6901)
    body INTEGER NOT NULL REFERENCES bodies(id),
    PRIMARY KEY (record, pointer)
) WITHOUT ROWID;
CREATE INDEX record_bodies_body ON record_bodies(body);

-- The fold of a run, as a cache: it can always be made again from the records.
CREATE TABLE checkpoints (
    run INTEGER PRIMARY KEY REFERENCES runs(id),
    next_seq INTEGER NOT NULL,             -- records folded
    zstd BLOB NOT NULL
);
