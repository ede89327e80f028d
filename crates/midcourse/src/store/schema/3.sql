-- Schema 3. Once a release has it, it is never edited: a change is a new file.

-- What a person says about a run: whether midcourse was right to speak, or to stay silent. Labels are
-- not part of the hash chain, and the engine never sees them.
CREATE TABLE labels (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs(id),
    seq INTEGER NOT NULL,                  -- record that it is about; -1: the whole run
    verdict TEXT NOT NULL,                 -- good or bad
    cause TEXT,                            -- what the message is about, or the missing one should be
    call INTEGER,                          -- tool calls that had ended by then; NULL: the whole run
    text_hash BLOB,                        -- BLAKE3 of the message's text; NULL: it is about no message
    note TEXT,
    at INTEGER NOT NULL,                   -- when the person said it
    UNIQUE (run, seq)
);
