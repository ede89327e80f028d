"""A minimal hook in Python, for comparison: one event, one state, one synced commit."""

import json
import sqlite3
import sys

event = json.load(sys.stdin)
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA synchronous=FULL")
database.execute("BEGIN IMMEDIATE")
run = event["session_id"]
row = database.execute("SELECT next_seq, state FROM runs WHERE run_id = ?", (run,)).fetchone()
seq, state = row if row else (0, bytes(8192))
state = state[1:] + bytes([seq % 256])
database.execute(
    "INSERT INTO records (run_id, seq, payload) VALUES (?, ?, ?)",
    (run, seq, json.dumps(event)),
)
database.execute(
    "INSERT OR REPLACE INTO runs (run_id, next_seq, state) VALUES (?, ?, ?)", (run, seq + 1, state)
)
database.execute("COMMIT")
database.close()
# An empty reply.
