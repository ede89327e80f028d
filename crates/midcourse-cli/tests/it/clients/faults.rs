//! midcourse cannot do its work: the client does not notice, and refuses what it refused before.

use std::process::Command;

use super::Client;
use super::script::Script;
use super::trial::{Ended, Hooks, RUN, Trial};
use crate::disk::{Disk, Fault};

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

/// Runs the script bare and with a fault, and compares what came of it.
fn compare(client: Client, faulty: impl FnOnce(Trial) -> Ended) -> Option<Ended> {
    let bare = Trial::of(client, script(client))?.run(&Hooks::None);
    let faulty = faulty(Trial::of(client, script(client))?);
    assert_eq!(bare.code, Some(0), "{}", bare.stderr);
    assert_eq!(faulty.code, bare.code, "{}", faulty.stderr);
    assert_eq!(faulty.answer(), bare.answer());
    assert_eq!(faulty.results(), bare.results(), "what ran, and what was refused");
    assert_eq!(bare.results().len(), 6);
    let told: usize = faulty.told().into_iter().sum();
    assert_eq!(told, 0, "nothing was kept, so nothing is known");
    Some(faulty)
}

/// The folder for data is below a file.
fn nowhere_to_write(client: Client) {
    let run = |by_hand: bool| {
        compare(client, |trial| {
            let file = trial.folder().join("file");
            std::fs::write(&file, "").unwrap();
            let hooks = if by_hand { Hooks::ByHand(trial.hook_command()) } else { RUN };
            trial.with_home(file.join("midcourse")).run(&hooks)
        })
    };
    let (Some(run), Some(by_hand)) = (run(false), run(true)) else { return };
    assert!(run.stderr.contains("runs unobserved"), "{}", run.stderr);
    assert_ne!(by_hand.log(), "", "the hooks were there, and could not write");
}

/// Nothing that is written to midcourse's folder fits.
fn full_disk(client: Client) {
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
        trial.with_home(disk.root().join("midcourse")).run(&hooks)
    });
    let Some(ended) = ended else { return };
    assert!(ended.log().contains("the disk is full"), "{}", ended.log());
}

/// Each hook is killed while it works.
fn killed(client: Client) {
    let ended = compare(client, |trial| {
        // A shell gives what it starts in the background no input of its own.
        let lines = format!(
            "exec 3<&0\n{} <&3 &\nkill -9 $! && echo killed >> \"$0.note\"\nkill -9 $$",
            trial.hook_command()
        );
        let hooks = trial.hook_script(&lines);
        trial.run(&hooks)
    });
    let Some(ended) = ended else { return };
    assert!(ended.note("hook.note").lines().count() > 10, "{}", ended.note("hook.note"));
    // Whatever the hooks had come to is whole.
    drop(ended.store());
}

#[test]
fn claude_code_with_nowhere_to_write() {
    nowhere_to_write(Client::ClaudeCode);
}

#[test]
fn codex_with_nowhere_to_write() {
    nowhere_to_write(Client::Codex);
}

#[test]
fn claude_code_with_a_full_disk() {
    full_disk(Client::ClaudeCode);
}

#[test]
fn codex_with_a_full_disk() {
    full_disk(Client::Codex);
}

#[test]
fn claude_code_with_hooks_that_are_killed() {
    killed(Client::ClaudeCode);
}

#[test]
fn codex_with_hooks_that_are_killed() {
    killed(Client::Codex);
}
