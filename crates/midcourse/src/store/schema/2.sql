-- Schema 2. Once a release has it, it is never edited: a change is a new file.

-- What a run is about and how it went, in one row. A cache: everything here can be computed again
-- from the records. A run that has no row here was stored with schema 1.
CREATE TABLE summaries (
    run INTEGER PRIMARY KEY REFERENCES runs(id),
    task TEXT,                             -- first message of the user, on one line
    folder TEXT,
    command TEXT,
    host_version TEXT,
    model TEXT,
    exit_code INTEGER,
    answered INTEGER,                      -- at the end, 1: the model had answered, 0: it had failed
    responded INTEGER NOT NULL,            -- 1: the tokens of the current turn are counted
    input_tokens INTEGER,                  -- without those of the cache; NULL: no usage is known
    output_tokens INTEGER,
    cache_write_tokens INTEGER,
    cache_read_tokens INTEGER,
    is_estimate INTEGER NOT NULL,          -- 1: token counts are estimated
    cost INTEGER,                          -- in millionths of a US dollar, as the host reports it
    shadow_deliveries INTEGER NOT NULL,    -- messages that were recorded and not shown
    cleared INTEGER NOT NULL,              -- messages after which the problem went away
    ignored INTEGER NOT NULL,              -- messages after which it was still there
    -- What the engine found. It is out of date if engine is not the version of this release.
    engine INTEGER,
    trouble_seq INTEGER,                   -- record at which the engine found the first pattern
    trouble_at INTEGER,
    trouble_calls INTEGER,                 -- calls that had ended by then
    patterns TEXT                          -- JSON: how often each pattern was found
);
CREATE INDEX summaries_engine ON summaries(engine);

-- With the second column, an entry of this index differs from one of the index on run_id, so that
-- `repair` cannot confuse the two.
CREATE INDEX runs_parent ON runs(parent_run_id, started) WHERE parent_run_id IS NOT NULL;
