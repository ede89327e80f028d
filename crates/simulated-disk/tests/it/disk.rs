//! Tests of the simulated disk itself: a power cut loses only unsynced data, the shim records what
//! a process does, and an injected fault makes operations fail.
//!
//! The tests with `#[ignore]` are not tests of their own. The other tests start them as child
//! processes and record their file operations.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use simulated_disk::{Disk, Entry, Fault, Sample, ack, assert_passed, recorded_root};

fn sync_folder(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// A line of 1501 bytes. It spans several disk sectors, so a power cut can keep only a part of it.
fn line(number: usize) -> String {
    format!("{number:04} ").repeat(300) + "\n"
}

/// Appends lines to a file, and acknowledges each as "name number" after a sync.
fn append(root: &Path, name: &str) {
    let mut file = File::create_new(root.join(name)).unwrap();
    sync_folder(root);
    for number in 0..8 {
        file.write_all(line(number).as_bytes()).unwrap();
        file.sync_data().unwrap();
        ack(&format!("{name} {number}"));
    }
}

/// The number of acknowledged lines that are missing, summed over all crash states.
fn count_lost_lines(disk: &Disk) -> usize {
    let mut lost = 0;
    for state in disk.crash_states(Sample::all(), 7) {
        let folder = state.materialise();
        for acked in state.acked() {
            let (name, number) = acked.split_once(' ').unwrap();
            let number: usize = number.parse().unwrap();
            let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
            let start = number * line(0).len();
            let found = bytes.get(start..start + line(0).len());
            lost += usize::from(found != Some(line(number).as_bytes()));
        }
    }
    lost
}

#[test]
#[ignore = "runs as a recorded process"]
fn append_lines() {
    let Some(root) = recorded_root() else { return };
    append(&root, "lines");
}

#[test]
#[ignore = "runs as a recorded process"]
fn append_lines_in_two_threads() {
    let Some(root) = recorded_root() else { return };
    let names = [1, 2].map(|number| format!("lines-{}-{number}", std::process::id()));
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| append(&root, name));
        }
    });
}

#[test]
fn an_acknowledged_line_survives_every_power_cut() {
    let disk = Disk::new();
    disk.run_child("disk::append_lines");
    assert_eq!(disk.log().iter().filter(|entry| entry.is_ack()).count(), 8);
    assert_eq!(count_lost_lines(&disk), 0);
}

#[test]
fn the_changes_of_two_processes_with_two_threads_are_recorded_in_one_order() {
    let disk = Disk::new();
    let test = "disk::append_lines_in_two_threads";
    let children =
        [(); 2].map(|()| disk.child(test).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn());
    for child in children {
        assert_passed(test, &child.unwrap().wait_with_output().unwrap());
    }
    assert_eq!(disk.log().iter().filter(|entry| entry.is_ack()).count(), 32);
    assert_eq!(count_lost_lines(&disk), 0);
}

#[test]
fn without_syncs_an_acknowledged_line_is_lost() {
    for glob in ["*", "lines", "*/"] {
        let disk = Disk::new();
        disk.inject(&[Fault::dropped_sync().on(glob)]);
        disk.run_child("disk::append_lines");
        assert!(count_lost_lines(&disk) > 0, "dropped syncs of {glob}");
    }
}

#[test]
fn the_same_seed_gives_the_same_states() {
    let disk = Disk::new();
    disk.run_child("disk::append_lines");
    let states = |seed| {
        let states = disk.crash_states(Sample::at_most(5).random_states(6), seed);
        states.map(|state| (state.to_string(), state.content())).collect::<Vec<_>>()
    };
    assert_eq!(states(7), states(7));
    let images = |seed| states(seed).into_iter().map(|(_, image)| image).collect::<Vec<_>>();
    assert_ne!(images(7), images(8));
}

#[test]
fn an_unsynced_write_is_lost_or_whole_or_torn_or_only_extends_the_file() {
    let disk = Disk::new();
    disk.inject(&[Fault::dropped_sync().on("lines")]);
    disk.run_child("disk::append_lines");
    let whole = line(0).into_bytes();
    let mut seen = [false; 4];
    for state in disk.crash_states(Sample::all().random_states(20), 7) {
        let folder = state.materialise();
        let bytes = fs::read(folder.path().join("lines")).unwrap_or_default();
        let found = bytes.get(..whole.len()).unwrap_or(&bytes);
        let matches = |range: std::ops::Range<usize>| found.get(range.clone()) == whole.get(range);
        seen[0] |= bytes.is_empty() && !state.acked().is_empty();
        seen[1] |= found == whole;
        seen[2] |= !matches(0..512) && matches(512..1024);
        seen[3] |= found.len() == whole.len() && found.iter().all(|byte| *byte == 0);
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
#[ignore = "runs as a recorded process"]
fn replace_by_rename() {
    let Some(root) = recorded_root() else { return };
    for (text, name) in [("old", "value"), ("new", "value.new")] {
        let mut file = File::create_new(root.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
        sync_folder(&root);
        ack(name);
    }
    fs::rename(root.join("value.new"), root.join("value")).unwrap();
    ack("renamed");
    sync_folder(&root);
    ack("synced");
}

#[test]
fn a_rename_is_atomic_and_may_be_lost_until_its_folder_is_synced() {
    let disk = Disk::new();
    disk.run_child("disk::replace_by_rename");
    let (mut renamed, mut lost) = (0, 0);
    for state in disk.crash_states(Sample::all(), 7) {
        let folder = state.materialise();
        let value = fs::read_to_string(folder.path().join("value")).unwrap_or_default();
        let new = fs::read_to_string(folder.path().join("value.new")).unwrap_or_default();
        match (state.acked().last().map(String::as_str), value.as_str(), new.as_str()) {
            (None, ..) => {}
            (Some("value"), value, _) => assert_eq!(value, "old", "{state}"),
            (Some("synced") | Some("value.new"), "new", "") => renamed += 1,
            (Some("renamed"), "new", "") => renamed += 1,
            (Some("value.new"), "old", "new") => {}
            (Some("renamed"), "old", "new") => lost += 1,
            found => unreachable!("{found:?}: {state}"),
        }
    }
    assert!(renamed > 0 && lost > 0, "{renamed} renamed, {lost} lost");
}

#[test]
#[ignore = "runs as a recorded process"]
fn write_in_a_new_folder() {
    let Some(root) = recorded_root() else { return };
    let folder = root.join("folder");
    fs::create_dir(&folder).unwrap();
    let mut file = File::create_new(folder.join("value")).unwrap();
    file.write_all(b"value").unwrap();
    file.sync_all().unwrap();
    sync_folder(&folder);
    ack("file and folder synced");
    sync_folder(&root);
    ack("parent synced");
    fs::hard_link(folder.join("value"), root.join("linked")).unwrap();
    fs::remove_file(folder.join("value")).unwrap();
    sync_folder(&root);
    ack("linked");
    fs::remove_dir(&folder).unwrap();
    sync_folder(&root);
    ack("folder removed");
}

#[test]
fn a_new_folder_may_be_lost_until_its_parent_is_synced() {
    let disk = Disk::new();
    disk.run_child("disk::write_in_a_new_folder");
    let mut lost = 0;
    for state in disk.crash_states(Sample::all(), 7) {
        let folder = state.materialise();
        let original =
            fs::read(folder.path().join("folder/value")).is_ok_and(|text| text == b"value");
        let linked = fs::read(folder.path().join("linked")).is_ok_and(|text| text == b"value");
        match state.acked().len() {
            0 => {}
            1 => lost += u32::from(!folder.path().join("folder").exists()),
            2 => assert!(original || linked, "{state}"),
            3 => assert!(linked, "{state}"),
            _ => assert!(linked && !folder.path().join("folder").exists(), "{state}"),
        }
    }
    assert!(lost > 0);
}

fn append_once(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(b"a line\n")?;
    file.sync_all()
}

fn outcome_text(outcome: io::Result<()>) -> String {
    outcome.map_or_else(|error| error.raw_os_error().unwrap().to_string(), |()| "ok".to_owned())
}

#[test]
#[ignore = "runs as a recorded process"]
fn append_until_it_works() {
    let Some(root) = recorded_root() else { return };
    loop {
        let outcome = outcome_text(append_once(&root.join("lines")));
        ack(&outcome);
        if outcome == "ok" {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn faults_can_be_set_and_removed_while_a_process_runs() {
    let test = "disk::append_until_it_works";
    for (fault, errno) in [
        (Fault::no_space(), "28"),
        (Fault::sync_error(), "5"),
        (Fault::read_only(), "30"),
        (Fault::read_only().on("lin*"), "30"),
    ] {
        let disk = Disk::new();
        disk.inject(&[fault]);
        let child = disk.child(test).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !disk.log().iter().any(Entry::is_ack) {
            thread::sleep(Duration::from_millis(2));
        }
        disk.heal();
        assert_passed(test, &child.wait_with_output().unwrap());
        let last = disk.crash_states(Sample::at_most(0), 7).last().unwrap();
        let (outcome, failures) = last.acked().split_last().unwrap();
        assert_eq!(outcome, "ok");
        assert!(!failures.is_empty() && failures.iter().all(|failure| failure == errno));
    }
}

#[test]
#[ignore = "runs as a recorded process"]
fn append_four_times() {
    let Some(root) = recorded_root() else { return };
    (0..4).for_each(|_| ack(&outcome_text(append_once(&root.join("lines")))));
}

#[test]
fn a_fault_affects_only_the_operations_that_it_selects() {
    let outcomes = |fault: Fault| {
        let disk = Disk::new();
        disk.inject(&[fault]);
        disk.run_child("disk::append_four_times");
        let last = disk.crash_states(Sample::at_most(0), 7).last().unwrap();
        (last.acked().join(" "), disk.log())
    };
    let acks = |fault| outcomes(fault).0;
    assert_eq!(acks(Fault::no_space().from(3)), "ok ok 28 28");
    assert_eq!(acks(Fault::sync_error().from(2).times(2)), "ok 5 5 ok");
    assert_eq!(acks(Fault::no_space().on("other")), "ok ok ok ok");
    let (acks, log) = outcomes(Fault::short_write().from(2).times(1));
    assert_eq!(acks, "ok ok ok ok");
    let lengths: Vec<usize> = log
        .iter()
        .filter_map(|entry| match entry {
            Entry::Write { data, .. } => Some(data.len()),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [7, 4, 3, 7, 7]);
}

#[test]
#[ignore = "runs as a recorded process"]
fn sync_again_after_a_failure() {
    let Some(root) = recorded_root() else { return };
    let mut file = File::create_new(root.join("lines")).unwrap();
    sync_folder(&root);
    file.write_all(b"a line\n").unwrap();
    file.sync_all().unwrap_err();
    file.sync_all().unwrap();
    ack("synced");
}

#[test]
fn a_successful_sync_after_a_failed_one_does_not_make_data_durable() {
    let disk = Disk::new();
    disk.inject(&[Fault::sync_error().on("lines").times(1)]);
    disk.run_child("disk::sync_again_after_a_failure");
    let lost = disk
        .crash_states(Sample::all(), 7)
        .filter(|state| !state.acked().is_empty())
        .filter(|state| fs::read(state.materialise().path().join("lines")).unwrap() != b"a line\n");
    assert!(lost.count() > 0);
}

#[test]
fn the_output_of_a_command_can_be_the_acknowledgements() {
    let disk = Disk::new();
    let mut command = Command::new("sh");
    command.args(["-c", "echo value > file; echo stored"]).current_dir(disk.root());
    let status = disk.record(&mut command).stdout(disk.acks()).status().unwrap();
    assert!(status.success());
    let log: Vec<String> = disk.log().iter().map(Entry::to_string).collect();
    assert_eq!(log, ["create file", "write file at 0, 6 bytes", "ack stored"]);
}

#[test]
#[should_panic(expected = "changed without being recorded: [\"file\"]")]
fn an_unrecorded_change_is_detected() {
    let disk = Disk::new();
    fs::write(disk.root().join("file"), "value").unwrap();
    disk.log();
}
