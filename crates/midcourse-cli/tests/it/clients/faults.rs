//! When midcourse's hooks fail, the client makes the same calls as without midcourse, with the same
//! results, and still refuses the calls that its settings forbid.

use std::process::Command;

use super::Client;
use super::script::Script;
use super::trial::{Ended, Hooks, RUN, Trial};
use simulated_disk::{Disk, Fault};

fn script(client: Client) -> Script {
    let steps = [
        client.shell("a-fine", "echo hello"),
        client.forbidden("b-forbidden"),
        client.shell("c-fails", "cat missing.txt"),
        client.shell("d-fails", "cat missing.txt"),
        client.shell("e-fails", "cat missing.txt"),
        client.shell("f-fine", "echo done"),
    ];
    Script::of_calls(steps, "I have finished.")
}

/// Runs the script twice: without midcourse, and with `faulty`, which makes midcourse fail. Checks
/// that the client's results are the same. Returns the second session; `None` if the tests are
/// skipped.
fn compare(client: Client, faulty: impl FnOnce(Trial) -> Ended) -> Option<Ended> {
    let bare = Trial::of(client, script(client))?.run(&Hooks::None);
    let faulty = faulty(Trial::of(client, script(client))?);
    assert_eq!(bare.code, Some(0), "{}", bare.stderr);
    assert_eq!(faulty.code, bare.code, "{}", faulty.stderr);
    assert_eq!(faulty.final_message(), bare.final_message());
    assert_eq!(faulty.results(), bare.results(), "the same calls ran and were refused");
    assert_eq!(bare.results().len(), 6);
    let labels: usize = faulty.label_counts().into_iter().sum();
    assert_eq!(labels, 0, "nothing is recorded, so there is no message");
    Some(faulty)
}

/// Checks that the client is not disturbed if the data directory cannot be created.
fn check_no_data_dir(client: Client) {
    let run = |is_installed: bool| {
        compare(client, |trial| {
            let file = trial.folder().join("file");
            std::fs::write(&file, "").unwrap();
            let hooks = if is_installed { Hooks::Installed(trial.hook_command()) } else { RUN };
            trial.with_data_dir(file.join("midcourse")).run(&hooks)
        })
    };
    let (Some(run), Some(installed)) = (run(false), run(true)) else { return };
    assert!(run.stderr.contains("is not recorded"), "{}", run.stderr);
    assert_ne!(installed.log(), "", "the hooks ran and could not write");
}

/// Checks that the client is not disturbed if the disk with the data directory is full.
fn check_full_disk(client: Client) {
    let disk = Disk::new();
    disk.inject(&[Fault::no_space()]);
    let ended = compare(client, |trial| {
        let mut shimmed = Command::new("unused");
        disk.record(&mut shimmed);
        let variables = shimmed.get_envs().map(|(name, value)| {
            format!("export {}='{}'\n", name.display(), value.unwrap().display())
        });
        let lines = variables.collect::<String>() + "exec " + &trial.hook_command();
        let hooks = trial.hook_script(&lines);
        trial.with_data_dir(disk.root().join("midcourse")).run(&hooks)
    });
    let Some(ended) = ended else { return };
    assert!(ended.log().contains("the disk is full"), "{}", ended.log());
}

/// Checks that the client is not disturbed if each hook is killed while it runs.
fn check_killed_hooks(client: Client) {
    let ended = compare(client, |trial| {
        // The script starts the hook in the background, kills it, and then kills itself. A shell
        // gives background commands an empty standard input, so the real one is passed on as
        // descriptor 3.
        let lines = format!(
            "exec 3<&0\n{} <&3 &\nkill -9 $! && echo killed >> \"$0.note\"\nkill -9 $$",
            trial.hook_command()
        );
        let hooks = trial.hook_script(&lines);
        trial.run(&hooks)
    });
    let Some(ended) = ended else { return };
    assert!(ended.note("hook.note").lines().count() > 10, "{}", ended.note("hook.note"));
    // Hooks may have been killed while they wrote. `store` fails if the store is damaged.
    drop(ended.store());
}

#[test]
fn claude_code_works_without_a_data_directory() {
    check_no_data_dir(Client::ClaudeCode);
}

#[test]
fn codex_works_without_a_data_directory() {
    check_no_data_dir(Client::Codex);
}

#[test]
fn claude_code_works_with_a_full_disk() {
    check_full_disk(Client::ClaudeCode);
}

#[test]
fn codex_works_with_a_full_disk() {
    check_full_disk(Client::Codex);
}

#[test]
fn claude_code_works_with_hooks_that_are_killed() {
    check_killed_hooks(Client::ClaudeCode);
}

#[test]
fn codex_works_with_hooks_that_are_killed() {
    check_killed_hooks(Client::Codex);
}
