//! How `midcourse run` handles signals, the terminal, exit codes and warnings.
//!
//! Instead of real agents these tests start small shell scripts with the names of supported agents,
//! such as `claude`. The tests in `clients` start real agents.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A temporary folder with scripts; it is the first entry of PATH.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new(programs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let file = folder.path().join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.0.path().join("data")
    }

    /// The command `midcourse run` with these arguments. If `starter` is not empty, it is another
    /// program with its arguments, such as `setsid --wait`, that starts `midcourse run`.
    fn command(&self, starter: &[&str], words: &[&str]) -> Command {
        let mut all = starter.to_vec();
        all.extend([env!("CARGO_BIN_EXE_midcourse"), "run"]);
        all.extend(words);
        let mut command = Command::new(all[0]);
        let path = std::env::var("PATH").unwrap();
        command
            .args(&all[1..])
            .env("PATH", format!("{}:{path}", self.0.path().display()))
            .env("MIDCOURSE_HOME", self.data_dir())
            .env("HOME", self.0.path())
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("ANTHROPIC_BASE_URL")
            .env_remove("OPENAI_BASE_URL")
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> (ExitStatus, String, String) {
        let Output { status, stdout, stderr } = self.command(&[], words).output().unwrap();
        (status, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Starts `midcourse run` and waits until the script that it runs has printed `ready`.
    fn start(&self, words: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = self.command(&[], words).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(line(&mut out), "ready");
        (child, out)
    }
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_exit_code_and_standard_output_are_the_programs() {
    let programs = Programs::new(&[("claude", "echo \"out $#\"; echo err >&2; exit 7")]);
    let (status, out, err) = programs.run(&["--", "claude", "-p", "task"]);
    assert_eq!(status.code(), Some(7));
    assert_eq!(out, "out 4\n", "two arguments, and --settings with its value");
    assert!(err.starts_with("err\nmidcourse: nothing was recorded in "), "{err}");
}

#[test]
fn the_command_needs_no_dashes_before_it() {
    let programs = Programs::new(&[("tool", "echo \"$1 $2\"")]);
    let (status, out, err) = programs.run(&["--max-calls", "9", "tool", "--shadow", "--"]);
    assert_eq!((status.code(), out.as_str()), (Some(0), "--shadow --\n"), "{err}");
}

#[test]
fn run_dies_of_the_signal_that_killed_the_program() {
    for (signal, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        let programs = Programs::new(&[("claude", &format!("kill -{signal} $$"))]);
        let (status, ..) = programs.run(&["--", "claude"]);
        assert_eq!((status.signal(), status.core_dumped()), (Some(number), false), "{signal}");
    }
}

#[test]
fn a_signal_to_run_is_forwarded_to_the_program() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!(
            "trap 'echo got; kill $!; exit 3' {name}\nsleep 600 &\necho ready\nwhile :; do wait; done"
        );
        let programs = Programs::new(&[("claude", &script)]);
        let (mut child, mut out) = programs.start(&["--", "claude"]);
        send(&child, signal);
        assert_eq!(line(&mut out), "got", "{name}");
        assert_eq!(child.wait().unwrap().code(), Some(3), "{name}");
    }
}

#[test]
fn a_signal_of_the_program_to_its_group_reaches_it_once() {
    let script = "trap 'n=$((n+1))' USR1\ntrap 'echo $n; kill $!; exit 6' USR2\n\
                  kill -USR1 0\nkill -USR1 0\nsleep 600 &\necho ready $PPID\nwhile :; do wait; done";
    let programs = Programs::new(&[("claude", script)]);
    // The script signals its whole process group (`kill -USR1 0`). `setsid` starts a new group;
    // otherwise the signal would also reach the test process.
    let mut child = programs.command(&["setsid", "--wait"], &["--", "claude"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let ready = line(&mut out);
    let us: i32 = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    kill_process(Pid::from_raw(us).unwrap(), Signal::USR2).unwrap();
    assert_eq!(line(&mut out), "2");
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// The state of a process in /proc, such as `T` for stopped.
#[cfg(target_os = "linux")]
fn state(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    status.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
}

/// If the program is suspended (`SIGSTOP`), `midcourse run` at a terminal suspends itself too, and
/// the user's shell can continue both. Without a terminal there is no such shell, so
/// `midcourse run` must keep running.
#[cfg(target_os = "linux")]
#[test]
fn without_a_terminal_run_does_not_stop_with_the_program() {
    let programs = Programs::new(&[("claude", "echo ready $$; kill -STOP $$; exit 4")]);
    let mut child = programs.command(&["setsid", "--wait"], &["--", "claude"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let ready = line(&mut out);
    let pid: u32 = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    while state(pid) != "T" {
        std::thread::yield_now();
    }
    let program = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(program, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_run_stops_and_continues_with_the_program() {
    let script = "echo ready $PPID; kill -STOP $$; echo on; exit 4";
    let (mut child, mut out, _keys) = Programs::new(&[("claude", script)]).at_a_terminal();
    let ready = line(&mut out);
    let us: u32 = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    while state(us) != "T" {
        std::thread::yield_now();
    }
    let us = Pid::from_raw(i32::try_from(us).unwrap()).unwrap();
    kill_process(us, Signal::CONT).unwrap();
    assert_eq!(line(&mut out), "on");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[cfg(target_os = "linux")]
impl Programs {
    /// Starts `midcourse run` on a new pseudo-terminal. The returned file is the other end of the
    /// terminal: a test writes to it what a user would type.
    fn at_a_terminal(self) -> (Child, BufReader<ChildStdout>, fs::File) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = fs::File::options().read(true).write(true).open(Path::new(&name)).unwrap();
        let mut command = self.command(&["setsid", "--ctty", "--wait"], &["--", "claude"]);
        let mut child = command.stdin(theirs).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // Dropping `self` would delete the folder with the scripts while the child still needs it.
        std::mem::forget(self);
        (child, out, fs::File::from(ours))
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ignored_signals_stay_ignored_and_a_closed_standard_error_is_no_problem() {
    let programs = Programs::new(&[("claude", "grep SigIgn /proc/$$/status; exit 7")]);
    let ignoring = |signals: &str| {
        let script = format!("trap '' {signals}; exec \"$@\"");
        let output = programs.command(&["sh", "-c", &script, "sh"], &["--", "claude"]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let mask = String::from_utf8(output.stdout).unwrap();
        u64::from_str_radix(mask.trim_start_matches("SigIgn:").trim(), 16).unwrap()
    };
    assert_eq!(ignoring("HUP") & 0b111, 0b001);
    assert_eq!(ignoring("INT QUIT") & 0b111, 0b110);
    ignoring("CHLD");
    for stderr in ["/dev/full", "/dev/null"] {
        let script = format!("exec \"$@\" 2>{stderr}");
        let mut command = programs.command(&["sh", "-c", &script, "sh"], &["--", "claude"]);
        assert_eq!(command.status().unwrap().code(), Some(7), "{stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_from_the_terminal_reaches_the_program_once() {
    let script = "trap 'n=$((n+1)); echo got $n' INT\ntest -t 0 && echo ready\nuntil read -r line; do :; done\n\
                  echo $line $n\nexit 5";
    let (mut child, mut out, mut keys) = Programs::new(&[("claude", script)]).at_a_terminal();
    assert_eq!(line(&mut out), "ready");
    keys.write_all(b"\x03").unwrap();
    assert_eq!(line(&mut out), "got 1");
    keys.write_all(b"end\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "end 1\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn an_unknown_program_is_left_alone_and_the_user_is_told() {
    let script = "echo \"$# $1$OPENAI_BASE_URL$HTTPS_PROXY\"; exit 2";
    for options in [&[][..], &["--max-tokens", "9"], &["--proxy=off", "--max-tokens", "9"]] {
        let programs = Programs::new(&[("agent", script)]);
        let (status, out, err) = programs.run(&[options, &["--", "agent", "x"]].concat());
        assert_eq!((status.code(), out.as_str()), (Some(2), "1 x\n"));
        let is_off = options.contains(&"--proxy=off");
        let names_option =
            err.contains("agent is not recorded") && err.contains("--proxy=intercept");
        assert_eq!(names_option, !is_off, "{err}");
        let warns = err.contains("the token budget cannot be counted");
        assert_eq!(warns, options.contains(&"--max-tokens"), "{err}");
    }
}

#[test]
fn a_base_url_in_the_environment_leads_to_the_proxy_and_no_other_is_set() {
    let script = "echo \"$OPENAI_BASE_URL,$OPENAI_API_BASE,$ANTHROPIC_BASE_URL,$HTTPS_PROXY\"";
    for program in ["agent", "aider"] {
        let programs = Programs::new(&[(program, script)]);
        let mut command = programs.command(&[], &["--", program]);
        command.env("OPENAI_API_BASE", "http://127.0.0.1:9/v1/");
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let fields: Vec<&str> = out.trim_end().split(',').collect();
        let [openai, older, anthropic, proxy] = fields.as_slice() else { panic!("{out}") };
        assert_eq!((*openai, *anthropic, *proxy), ("", "", ""));
        assert!(older.starts_with("http://127.0.0.1:") && older.ends_with("/v1/"), "{out}");
        assert!(older.contains("/midcourse-"), "{out}");
    }
}

#[test]
fn a_known_program_is_intercepted_and_keeps_its_addresses() {
    let script = "echo \"$OPENAI_BASE_URL,$HTTPS_PROXY,$NODE_USE_ENV_PROXY\"";
    let programs = Programs::new(&[("aider", script)]);
    for command in [&["aider"][..], &["sh", "-c", "aider"], &["env", "aider"]] {
        let (_, out, err) = programs.run(&[&["--"], command].concat());
        let proxy = out.strip_prefix(',').unwrap().strip_suffix(",\n").unwrap();
        assert!(proxy.starts_with("http://midcourse:midcourse-"), "{out}");
        assert!(err.starts_with("midcourse: nothing was recorded"), "{err}");
    }
    let (_, out, _) = programs.run(&["--proxy=off", "--", "aider"]);
    assert_eq!(out, ",,\n");
}

#[test]
fn servers_on_this_machine_are_reached_directly() {
    let programs = Programs::new(&[("aider", "echo \"$NO_PROXY $no_proxy\"")]);
    let mut command = programs.command(&[], &["--", "aider"]);
    command.env("HTTP_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "example.org");
    let out = command.output().unwrap().stdout;
    let expected = "example.org,localhost,127.0.0.1,::1";
    assert_eq!(String::from_utf8(out).unwrap(), format!("{expected} {expected}\n"));
}

#[test]
fn a_second_proxy_is_not_started() {
    let programs = Programs::new(&[("aider", "echo \"$OPENAI_BASE_URL$HTTPS_PROXY\"")]);
    for (name, outer) in [
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/midcourse-0/openai"),
        ("HTTPS_PROXY", "http://midcourse:midcourse-0@127.0.0.1:9"),
    ] {
        let mut command = programs.command(&[], &["--", "aider"]);
        let output = command.env(name, outer).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{outer}\n"));
    }
    let outer = "http://127.0.0.1:9/midcourse-0/openai";
    let mut command = programs.command(&[], &["--proxy=redirect", "--", "aider"]);
    let output = command.env("OPENAI_BASE_URL", outer).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{outer}\n"));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("runs without the proxy") && err.contains("already"), "{err}");
}

#[test]
fn an_unsupported_proxy_of_the_user_disables_ours_with_a_warning() {
    let programs = Programs::new(&[("aider", "echo \"$HTTPS_PROXY\"; exit 3")]);
    let mut command = programs.command(&[], &["--", "aider"]);
    let output = command.env("HTTPS_PROXY", "socks5://127.0.0.1:9").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"socks5://127.0.0.1:9\n");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("runs without the proxy") && err.contains("socks5"), "{err}");
}

#[test]
fn there_must_be_something_to_redirect() {
    let programs = Programs::new(&[("aider", "echo ran")]);
    let (status, out, err) = programs.run(&["--proxy=redirect", "--", "aider"]);
    assert_eq!((status.code(), out.as_str()), (Some(0), "ran\n"));
    assert!(err.contains("no base URL to redirect") && err.contains("--proxy=intercept"), "{err}");
}

#[test]
fn a_program_that_cannot_be_started_has_the_exit_code_of_a_shell() {
    let programs = Programs::new(&[]);
    let nowhere = programs.0.path().join("claude");
    let (status, out, err) = programs.run(&["--", nowhere.to_str().unwrap()]);
    assert_eq!((status.code(), out.as_str()), (Some(127), ""));
    assert!(err.contains("cannot start") && err.contains("PATH"), "{err}");
    fs::write(&nowhere, "no program").unwrap();
    let (status, ..) = programs.run(&["--", nowhere.to_str().unwrap()]);
    assert_eq!(status.code(), Some(126));
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    let programs = Programs::new(&[("claude", "echo ran")]);
    for wrong in [
        &["--deadline", "soon", "--", "claude"][..],
        &["--deadline", "1h", "--until", "07:00", "--", "claude"],
        &["--until", "2020-01-01 07:00", "--", "claude"],
        &["--max-calls", "0", "--", "claude"],
        &["--"],
        &["--bogus", "claude"],
    ] {
        let (status, out, err) = programs.run(wrong);
        assert_eq!((status.code(), out.as_str()), (Some(2), ""), "{wrong:?}: {err}");
    }
}

#[test]
fn codex_runs_even_if_its_hooks_cannot_be_approved() {
    let script = "[ \"$1\" = app-server ] && exit 9\necho \"$*\"; exit 6";
    let programs = Programs::new(&[("codex", script)]);
    let (status, out, err) = programs.run(&["--", "codex", "exec", "task"]);
    assert_eq!((status.code(), out.as_str()), (Some(6), "exec task\n"));
    assert!(err.starts_with("midcourse: codex is not recorded: "), "{err}");
    assert!(
        err.contains("`codex app-server` did not list the hooks: it exited without a reply"),
        "{err}"
    );
}
