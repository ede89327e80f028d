//! Archives: what is read is what was written, and nothing but a complete archive is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use midcourse::{ChainEntry, ChainLimit, Label, LabelVerdict, RunId, Store, Timestamp};
use midcourse_fleet::archive::{
    Archive, ArchiveError, ArchiveLimits, ArchivePlace, ArchiveWriter, import,
};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use proptest::prelude::*;

use crate::random_store::{
    Place, add_store, archive, contents, event, findings, header_json, message, pieces, sorted,
};

fn folder() -> (tempfile::TempDir, ArchivePlace) {
    let folder = tempfile::tempdir().unwrap();
    let place = ArchivePlace::create(folder.path().join("archive").to_str().unwrap()).unwrap();
    (folder, place)
}

/// All files in a folder and below it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn read_error(place: &ArchivePlace) -> String {
    let read = Archive::open(place).and_then(|archive| archive.read_all());
    read.unwrap_err().to_string()
}

/// Labels every second run as a whole, and the others at a record.
fn label(store: &mut Store, run_id: &RunId, n: usize) {
    let label = Label {
        seq: (n % 2 == 1).then_some(0),
        verdict: LabelVerdict::Good,
        cause: None,
        call: None,
        text_hash: None,
        note: Some("just in time \u{0}".to_owned()),
        labelled_at_unix_ms: Timestamp::from_unix_ms(1_790_000_000_000),
    };
    store.set_label(run_id, &label).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_archive_has_what_the_store_has(
        events in prop::collection::vec(event(), 1..80),
        entries in 1..20_usize,
        buffered_bytes in prop_oneof![Just(1), 1_000..100_000_usize, Just(16 << 20)],
        part_runs in 1..4_u64,
        in_memory in any::<bool>(),
    ) {
        let original = Place::new();
        let mut from = original.open();
        for event in events {
            from.append(event).unwrap();
        }
        for (n, (run_id, _)) in from.chain_ends().unwrap().into_iter().enumerate() {
            label(&mut from, &run_id, n);
        }
        let expected = contents(&from);
        let (_folder, place) = if in_memory {
            let place = ArchivePlace::in_store(Arc::new(InMemory::new()), "some/prefix").unwrap();
            (None, place)
        } else {
            let (folder, place) = folder();
            (Some(folder), place)
        };
        let limits = ArchiveLimits { buffered_bytes, part_runs, ..ArchiveLimits::default() };
        let mut writer = ArchiveWriter::new(&place).limits(limits);
        add_store(&mut writer, &from, entries).unwrap();
        let written = writer.finish().unwrap().unwrap();

        let archive = Archive::open(&place).unwrap();
        prop_assert_eq!(archive.manifests(), std::slice::from_ref(&written.manifest));
        prop_assert_eq!(written.manifest.runs, u64::try_from(expected.len()).unwrap());
        let found = sorted(archive.read_all().unwrap());
        prop_assert_eq!(header_json(&found), header_json(&expected));

        // In pieces, and with runs that are skipped or left in the middle.
        let mut read = Vec::new();
        for part in archive.parts() {
            let mut reader = archive.read(part).unwrap();
            let mut number = 0;
            while let Some(header) = reader.next_run().unwrap() {
                number += 1;
                if number % 2 == 0 {
                    reader.next_entries(ChainLimit { entries, bytes: usize::MAX }).unwrap();
                    continue;
                }
                let mut all: Vec<ChainEntry> = Vec::new();
                loop {
                    let limit = ChainLimit { entries, bytes: usize::MAX };
                    let piece = reader.next_entries(limit).unwrap();
                    if piece.is_empty() {
                        break;
                    }
                    all.extend(piece);
                }
                read.push((header, all));
            }
        }
        for run in header_json(&read) {
            prop_assert!(header_json(&expected).contains(&run));
        }

        let copied = Place::new();
        let mut to = copied.open();
        let imported = import(&archive, &mut to, |_| {}).unwrap();
        prop_assert_eq!(imported.added, written.manifest.runs);
        prop_assert_eq!(imported.records, written.manifest.records);
        prop_assert_eq!(imported.reports, written.manifest.reports);
        prop_assert_eq!(contents(&to), expected);
        prop_assert_eq!(findings(&to), findings(&from));
        let again = import(&archive, &mut to, |_| {}).unwrap();
        prop_assert_eq!((again.added, again.unchanged), (0, written.manifest.runs));
    }
}

#[test]
fn a_damaged_or_incomplete_archive_is_refused() {
    let original = Place::new();
    let mut from = original.open();
    for number in 0..6 {
        from.append(message(usize::from(number % 2 == 0), number)).unwrap();
    }
    let (folder, place) = folder();
    let written = archive(&place, &from);
    let whole = contents(&from);
    assert_eq!(sorted(Archive::open(&place).unwrap().read_all().unwrap()).len(), whole.len());
    let manifest = folder.path().join("archive").join(&written.path);
    let mut checked = 0;
    for file in files(folder.path()) {
        if file == manifest {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let error = read_error(&place);
        assert!(error.contains(name) && error.contains("bytes instead of"), "{error}");
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(&file, changed).unwrap();
        let error = read_error(&place);
        assert!(error.contains(name) && error.contains("its hash is not that"), "{error}");
        fs::remove_file(&file).unwrap();
        let error = read_error(&place);
        assert!(error.contains(name) && error.contains("is missing"), "{error}");
        fs::write(&file, bytes).unwrap();
        checked += 1;
    }
    assert_eq!(checked, 4 * written.manifest.parts.len());
    Archive::open(&place).unwrap().read_all().unwrap();

    let json = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, &json.as_bytes()[..json.len() / 2]).unwrap();
    let error = read_error(&place);
    assert!(error.contains("is not a manifest of an archive"), "{error}");
    fs::write(&manifest, json.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    let error = Archive::open(&place).err().unwrap();
    assert!(matches!(error, ArchiveError::Newer { found: 2, known: 1, .. }), "{error}");
    fs::write(&manifest, json.replace("runs/day=", "../runs/day=")).unwrap();
    let error = read_error(&place);
    assert!(error.contains("invalid path"), "{error}");
    // Data files without a manifest are not an archive.
    fs::remove_file(&manifest).unwrap();
    assert!(matches!(Archive::open(&place), Err(ArchiveError::NoArchive(_))));
}

#[test]
fn an_archive_that_was_not_finished_does_not_exist() {
    let original = Place::new();
    let mut from = original.open();
    for number in 0..4 {
        from.append(message(usize::from(number % 2 == 0), number)).unwrap();
    }
    let (folder, place) = folder();
    let limits = ArchiveLimits { part_runs: 1, ..ArchiveLimits::default() };
    let mut writer = ArchiveWriter::new(&place).limits(limits);
    add_store(&mut writer, &from, 5).unwrap();
    assert!(!files(folder.path()).is_empty(), "the first part was written");
    drop(writer);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    assert!(matches!(Archive::open(&place), Err(ArchiveError::NoArchive(_))));

    // A run that is not complete, or that was changed, makes the archive fail.
    let (header, entries) = contents(&from).remove(0);
    let mut writer = ArchiveWriter::new(&place);
    let short = entries[..1].to_vec();
    let error = writer.add(&header, [Ok::<_, String>(short)]).unwrap_err();
    assert!(matches!(error, ArchiveError::Incomplete(_)), "{error}");
    let error = writer.add(&header, pieces(&from, &header, 5)).unwrap_err();
    assert!(matches!(error, ArchiveError::Unfinished), "{error}");
    assert!(matches!(writer.finish(), Err(ArchiveError::Unfinished)));
    let mut changed = entries.clone();
    if let ChainEntry::Record(record) = &mut changed[1] {
        record.payload.push(' ');
    }
    let mut writer = ArchiveWriter::new(&place);
    let error = writer.add(&header, [Ok::<_, String>(changed)]).unwrap_err();
    assert!(matches!(error, ArchiveError::Chain(..)), "{error}");
    let mut writer = ArchiveWriter::new(&place);
    let failed = Err("the disk is gone".to_owned());
    let error = writer.add(&header, [Ok(entries), failed]).unwrap_err();
    assert!(matches!(error, ArchiveError::Source(..)), "{error}");
    drop(writer);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(ArchiveWriter::new(&place).finish().unwrap(), None);
}

#[test]
fn one_text_in_two_compressions_and_a_damaged_text_keep_their_bytes() {
    let original = Place::new();
    let mut from = original.open();
    for number in [0, 0, 0] {
        let mut event = message(2, number);
        event.fact = None;
        from.append(event).unwrap();
    }
    let (header, mut entries) = contents(&from).remove(0);
    assert_eq!(entries.len(), 3);
    for (number, entry) in entries.iter_mut().enumerate() {
        let ChainEntry::Record(record) = entry else { continue };
        let text = zstd::decode_all(record.bodies[0].zstd.as_slice()).unwrap();
        // The hash chain does not contain the compressed bytes.
        match number {
            0 => {}
            1 => record.bodies[0].zstd = zstd::encode_all(text.as_slice(), 19).unwrap(),
            _ => record.bodies[0].zstd.truncate(10),
        }
    }
    let (_folder, place) = folder();
    let mut writer = ArchiveWriter::new(&place);
    writer.add(&header, [Ok::<_, String>(entries.clone())]).unwrap();
    let written = writer.finish().unwrap().unwrap();
    assert_eq!(written.manifest.parts[0].texts, 3);
    let read = Archive::open(&place).unwrap().read_all().unwrap();
    assert_eq!(read[0].1, entries);
}

#[test]
fn a_long_file_is_uploaded_in_pieces() {
    let original = Place::new();
    let mut from = original.open();
    let mut random = 1_u64;
    for number in 0..12 {
        let mut event = message(0, number);
        // Text that does not compress, so that the file gets longer than one request.
        let text: String = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from((random >> 33) % 90).unwrap())
        })
        .take(1_000_000)
        .collect();
        let message = midcourse::AgentMessage::user(text);
        event.payload = midcourse::TrajectoryPayload::MessageAppended { message };
        from.append(event).unwrap();
    }
    let objects = Arc::new(InMemory::new());
    let place = ArchivePlace::in_store(objects.clone(), "a").unwrap();
    let written = archive(&place, &from);
    let bodies = &written.manifest.parts[0].files.bodies;
    assert!(bodies.bytes > 16 << 20, "{}", bodies.bytes);
    let path = object_store::path::Path::from(format!("a/{}", bodies.path));
    let meta = size_of(objects.as_ref(), &path);
    assert_eq!(meta, bodies.bytes);
    let read = Archive::open(&place).unwrap().read_all().unwrap();
    assert_eq!(header_json(&read), header_json(&contents(&from)));
}

/// The size of an object.
fn size_of(store: &dyn ObjectStore, path: &object_store::path::Path) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.head(path)).unwrap().size
}
