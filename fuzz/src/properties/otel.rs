//! Files with spans. Any bytes are accepted, in the same way each time, and give no more records than
//! bytes. Every record of another program's spans has a key, so that importing the file again adds
//! nothing.

use std::path::Path;

use super::{NOW, check_events};
use crate::formats::otel::{reader, recognises};
use crate::session_file::{Found, Head, SessionFile};

pub(crate) fn check(data: &[u8]) {
    let path = Path::new("spans.json");
    recognises(&Head::new(path, data));
    let read = || {
        let mut found = Found::default();
        let mut reader = reader(&SessionFile { path, modified: NOW });
        reader.read(data, &mut found);
        reader.end(&mut found);
        found
    };
    let (found, again) = (read(), read());
    assert_eq!(found.records, again.records, "the file is read in two ways");
    assert_eq!(found.counts, again.counts);
    assert!(found.records.len() <= data.len());
    for record in &found.records {
        // A record with a seq is one of midcourse, whose key may be missing.
        let has_key = record.events.iter().all(|event| event.fact.is_some());
        assert!(has_key || record.seq.is_some() || data.windows(9).any(|it| it == b"midcourse"));
        check_events(&record.events);
    }
}
