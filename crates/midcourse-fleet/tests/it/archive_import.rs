//! Importing archives into stores that already have some of their runs.

use midcourse::{RunId, Timestamp};
use midcourse_fleet::archive::{Archive, ArchivePlace, import};

use crate::random_store::{Place, archive, contents, findings, message};

struct Fixture {
    _folder: tempfile::TempDir,
    place: ArchivePlace,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = ArchivePlace::create(folder.path().to_str().unwrap()).unwrap();
        Self { _folder: folder, place }
    }

    fn archive(&self) -> Archive<'_> {
        Archive::open(&self.place).unwrap()
    }
}

#[test]
fn the_longest_of_several_copies_wins() {
    let original = Place::new();
    let mut from = original.open();
    let fixture = Fixture::new();
    from.append(message(0, 0)).unwrap();
    from.append(message(2, 0)).unwrap();
    archive(&fixture.place, &from);
    let (early, later, latest) = (Place::new(), Place::new(), Place::new());
    let mut early = early.open();
    import(&fixture.archive(), &mut early, |_| {}).unwrap();

    from.append(message(0, 1)).unwrap();
    from.append(message(1, 2)).unwrap();
    archive(&fixture.place, &from);
    archive(&fixture.place, &from);
    let archived = fixture.archive();
    assert_eq!(archived.manifests().len(), 3);

    let mut later = later.open();
    let imported = import(&archived, &mut later, |_| {}).unwrap();
    assert_eq!((imported.runs, imported.added, imported.grown), (3, 3, 0));
    assert_eq!((imported.records, imported.refused.len()), (4, 0));
    assert_eq!(contents(&later), contents(&from));
    assert_eq!(findings(&later), Vec::<String>::new());

    // A store that has an earlier state gets what is new.
    let imported = import(&archived, &mut early, |_| {}).unwrap();
    assert_eq!((imported.added, imported.grown, imported.unchanged), (1, 1, 1));
    assert_eq!(imported.records, 2);
    assert_eq!(contents(&early), contents(&from));
    assert_eq!(findings(&early), Vec::<String>::new());

    // A store that has a later state keeps it.
    let mut latest = latest.open();
    import(&archived, &mut latest, |_| {}).unwrap();
    latest.append(message(0, 9)).unwrap();
    let before = contents(&latest);
    let imported = import(&archived, &mut latest, |_| {}).unwrap();
    assert_eq!((imported.added, imported.grown, imported.unchanged), (0, 0, 3));
    assert_eq!(imported.refused, Vec::new());
    assert_eq!(contents(&latest), before);
}

#[test]
fn a_run_with_another_chain_is_refused_and_the_others_are_imported() {
    let (first, second) = (Place::new(), Place::new());
    let (mut from, mut other) = (first.open(), second.open());
    let fixture = Fixture::new();
    for number in 0..3 {
        from.append(message(0, number)).unwrap();
    }
    from.append(message(2, 0)).unwrap();
    archive(&fixture.place, &from);
    other.append(message(0, 7)).unwrap();
    let before = contents(&other);
    // The stored run is shorter than the archived one, equally long, and longer.
    for number in 8..11 {
        let imported = import(&fixture.archive(), &mut other, |_| {}).unwrap();
        assert_eq!(imported.refused.len(), 1);
        assert_eq!(imported.refused[0].run_id, RunId::from("run"));
        assert!(imported.refused[0].why.contains("differ from those in the store"));
        let stored = contents(&other);
        assert_eq!(stored[1].1[0], before[0].1[0], "the stored run is as it was");
        assert!(stored.iter().any(|(header, _)| header.run_id().as_str() == "other\u{0}id"));
        other.append(message(0, number)).unwrap();
    }

    // Two archives contradict each other: the longer copy is imported, the other one is refused.
    archive(&fixture.place, &other);
    let third = Place::new();
    let mut third = third.open();
    let imported = import(&fixture.archive(), &mut third, |_| {}).unwrap();
    assert_eq!((imported.runs, imported.added), (2, 2));
    assert_eq!(imported.refused.len(), 1);
    assert_eq!(third.run("run").unwrap().unwrap().records, 4);
    assert_eq!(findings(&third), Vec::<String>::new());
}

#[test]
fn a_damaged_part_is_named_and_the_others_are_imported() {
    let original = Place::new();
    let mut from = original.open();
    let folder = tempfile::tempdir().unwrap();
    let place = ArchivePlace::create(folder.path().to_str().unwrap()).unwrap();
    for run in [0, 2] {
        let mut event = message(run, 0);
        let day = 86_400_000 * u64::try_from(run).unwrap();
        event.at = Timestamp::from_unix_ms(event.at.unix_ms() + day);
        from.append(event).unwrap();
    }
    let written = archive(&place, &from);
    assert_eq!(written.manifest.parts.len(), 2);
    let damaged = &written.manifest.parts[0].files.records.path;
    std::fs::write(folder.path().join(damaged), b"PAR1").unwrap();
    let copied = Place::new();
    let mut to = copied.open();
    let imported = import(&Archive::open(&place).unwrap(), &mut to, |_| {}).unwrap();
    assert_eq!((imported.runs, imported.added, imported.damaged.len()), (2, 1, 1));
    assert!(imported.damaged[0].to_string().contains(damaged), "{}", imported.damaged[0]);
    assert_eq!(contents(&to), contents(&from)[..1]);
}
