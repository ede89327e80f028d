//! Guesses from the words of a shell command what it does: whether it changes files, waits,
//! searches or only prints, and which file it shows. Also computes a digest that ignores flags and
//! redirections, by which commands are compared.
//!
//! This is a heuristic, not a shell parser: it honours quotes and splits the rest into words. An
//! unknown program counts as an ordinary command that does none of the above.

mod checks;
mod parts;
mod programs;
mod tasks;

use super::scan::strip_volatile;
use crate::digest::Digest;
use checks::runs_check;
use parts::Parts;
use programs::{Program, READING_SUBCOMMANDS};
pub(crate) use tasks::{Task, host};

/// How many bytes of a command are examined. What comes later is usually a script.
const MAX_READ_BYTES: usize = 2048;

/// A command line with at most this many bytes besides its `sleep` does nothing but sleep.
const MIN_OTHER_BYTES: usize = 4;

/// How many programs of one command line are examined.
const MAX_PARTS: usize = 12;

/// What a command line does, judged by its words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CommandView<'a> {
    /// Changes files, installed packages, running processes, or which commit is checked out.
    pub(crate) writes: bool,
    /// Restores an earlier state, as `git checkout -- FILE` does.
    pub(crate) reverts: bool,
    /// Sleeps or waits.
    pub(crate) waits: bool,
    /// Prints text and does nothing else.
    pub(crate) only_prints: bool,
    /// Reads and changes nothing.
    pub(crate) only_reads: bool,
    /// Prints something that differs each time, such as the date.
    pub(crate) prints_clock: bool,
    /// Talks to another machine or to a database server.
    pub(crate) is_remote: bool,
    /// Lists processes, so that ids and times in its output differ each time.
    pub(crate) lists_processes: bool,
    /// Exits with success even if an earlier part failed, as `make | tail` does.
    pub(crate) hides_failure: bool,
    /// The program whose exit code counts says "no" with 1, as `grep` and `test` do. Such an exit code
    /// without output is an answer and not a failure.
    pub(crate) answers: bool,
    /// The same for a program that prints the differences it finds, as `diff` does.
    pub(crate) compares: bool,
    /// Runs a benchmark. The durations in its output are what the agent wants to know, so they are
    /// not ignored when two outputs are compared.
    pub(crate) is_benchmark: bool,
    /// Runs tests, a compiler, a linter or another check.
    pub(crate) runs_check: bool,
    /// Runs a program under `timeout`.
    pub(crate) limits_time: bool,
    /// The first program only gives an overview, as `ls` and `git status` do.
    pub(crate) orients: bool,
    pub(crate) searches: bool,
    /// What the command searches for; `None` if it does not search or names no term.
    pub(crate) search_term: Option<&'a str>,
    /// The file that the command shows or changes, if it names one.
    pub(crate) file: Option<&'a str>,
    /// The words by which a message names the command, such as `cargo` and `test`.
    pub(crate) words: [Option<&'a str>; 3],
    /// What the command is for.
    pub(crate) task: Task,
    /// The first and last line of `file` that the command shows.
    pub(crate) lines: Option<(u32, u32)>,
    /// Digest of the first program and the paths that it gets or, without paths, its other operands;
    /// `None` if it has none. Quoted words are left out, because they are mostly patterns. Commands
    /// that differ only in the rest ask the same place.
    pub(crate) place: Option<Digest>,
    /// Digest of the command without flags, quotes and redirections. Commands with the same digest
    /// count as the same command.
    pub(crate) normalized: Digest,
}

impl<'a> CommandView<'a> {
    pub(crate) fn of(command: &'a str) -> Self {
        let end = command.floor_char_boundary(MAX_READ_BYTES);
        let mut view =
            Self { only_prints: true, only_reads: true, prints_clock: true, ..Self::default() };
        let mut normalized = Digest::of(b"command");
        let (mut programs, mut scratch) = (0, Vec::new());
        let (mut paths, mut operands) = (None, None);
        for part in Parts::of(command.get(..end).unwrap_or_default()).take(MAX_PARTS) {
            view.writes |= part.writes_a_file();
            let words = part.words();
            let Some((name, arguments)) = program_of(&words) else { continue };
            let program = Program::named(name);
            let is_first_check = !view.runs_check && runs_check(name, program, arguments);
            view.runs_check |= is_first_check;
            view.limits_time |= words.first() == Some(&"timeout");
            let is_aside = programs > 0 && program.is(Program::NEUTRAL);
            if name == "cd" || is_aside || name.starts_with('#') {
                view.hides_failure |= is_aside;
                continue;
            }
            programs += 1;
            view.hides_failure = programs > 1 && (part.is_piped || program.is(Program::PRINTS));
            let subcommand = arguments.iter().find(|word| !word.starts_with('-')).copied();
            view.compares =
                matches!((name, subcommand), ("diff" | "cmp", _) | ("git", Some("diff")));
            view.answers = view.compares
                || program.is(Program::SEARCHES)
                || matches!(name, "test" | "[" | "[[" | "pidof")
                || (name, subcommand) == ("git", Some("grep"));
            // Variables that are set for the program (`A=1 make`) are part of the normalized
            // command.
            for word in words.iter().take_while(|word| word.contains('=')) {
                normalized = normalized.then(word.as_bytes());
            }
            // A program such as `tail`, which only shortens or copies the output that is piped into
            // it, is left out, so that `make` and `make | tail` count as the same command.
            let is_filter =
                part.is_piped && matches!(name, "head" | "tail" | "cat" | "less" | "tee");
            // A `sleep` beside other programs is left out, so that commands that differ only in how
            // long they sleep count as the same command.
            let is_pause = name == "sleep" && command.len() > part.len() + MIN_OTHER_BYTES;
            if !is_filter && !is_pause {
                normalized = normalized.then(name.as_bytes());
                for word in arguments.iter().filter(|word| !is_flag_or_redirection(word)) {
                    if programs == 1 && !word.starts_with(['-', '"', '\'']) {
                        let of = if is_file(bare(word)) { &mut paths } else { &mut operands };
                        let before = of.unwrap_or(Digest::of(name.as_bytes()));
                        *of = Some(before.then(bare(word).as_bytes()));
                    }
                    normalized = normalized.then(without_ids(bare(word).as_bytes(), &mut scratch));
                }
            }
            // The first program names the command. If a later one is a check, the check does.
            if programs == 1 || is_first_check {
                (view.words, view.task) = tasks::describe(name, program, arguments);
            } else if part.is_piped && !is_filter && !view.runs_check {
                view.words = [view.words.first().copied().flatten(), Some("|"), Some("...")];
            }
            view.add_part(name, program, arguments, programs == 1, part.writes_a_file());
            // `kubectl logs web | grep panic` searches a log.
            let is_grep = matches!(name, "grep" | "egrep" | "fgrep" | "zgrep" | "rg");
            let inverts = arguments.iter().any(|word| is_short_flag(word, b'v'));
            if part.is_piped && is_grep && !inverts && view.only_reads && !view.searches {
                (view.searches, view.search_term) = search_of(name, program, arguments);
            }
        }
        if programs == 0 {
            // No program was found. An empty command and a comment do nothing, so they count as
            // printing only. Any other command, such as `cd src`, does something.
            view.only_prints = command.is_empty() || command.trim_start().starts_with('#');
            view.prints_clock = false;
            normalized = normalized.then(command.as_bytes());
        } else if end < command.len() || command.contains("<<") {
            // The command contains a script, of which not all was examined. Two such commands count
            // as the same only if all their bytes are equal.
            normalized = normalized.then(command.as_bytes());
        }
        view.normalized = normalized;
        view.place = paths.or(operands);
        view
    }

    /// Whether a program's output is piped into another program that does more than shorten or copy
    /// it. False for a command that runs a check.
    pub(crate) fn is_pipeline(&self) -> bool {
        self.words.contains(&Some("|"))
    }

    fn add_part(
        &mut self,
        name: &str,
        program: Program,
        arguments: &[&'a str],
        is_first: bool,
        to_file: bool,
    ) {
        let operands = || arguments.iter().copied().filter(|word| !word.starts_with('-'));
        let first = operands().next();
        // One of the first three operands may be a subcommand that only reads, such as `list` in
        // `git stash list` or `get` in `kubectl -n x get pods`.
        // In `aws ec2 describe-volumes`, the verb is the part of the subcommand before the dash.
        let is_cloud = matches!(name, "aws" | "gcloud" | "az");
        let verb_of = |word: &'a str| match word.split_once('-') {
            Some((verb, _)) if is_cloud => verb,
            _ => word,
        };
        let reads = program.is(Program::HAS_SUBCOMMANDS)
            && operands().take(3).any(|word| READING_SUBCOMMANDS.contains(&verb_of(word)));
        let reads = reads || (matches!(name, "psql" | "mysql" | "sqlite3") && queries(arguments));
        self.is_remote |= program.is(Program::REMOTE);
        let has = |flag: &str| arguments.contains(&flag);
        self.only_reads &= program.is(Program::CHANGES_NOTHING) || reads;
        self.only_prints &= program.is(Program::PRINTS) && !to_file;
        self.prints_clock &= program.is(Program::PRINTS_CLOCK) && !to_file;
        // `ps aux | wc -l` and `ps aux | grep -c node` print the number of processes. This number
        // matters, unlike the ids and times in a list, so these commands do not list processes.
        self.lists_processes = (self.lists_processes || program.is(Program::LISTS_PROCESSES))
            && !(name == "wc" || arguments.iter().any(|word| is_short_flag(word, b'c')));
        self.waits |= matches!(name, "sleep" | "wait" | "watch")
            || (program.is(Program::HAS_SUBCOMMANDS)
                && operands().take(4).any(|verb| matches!(verb, "wait" | "watch")))
            || (name == "kubectl" && has("rollout") && has("status"));
        self.is_benchmark |= matches!(name, "hyperfine" | "perf" | "wrk" | "ab" | "k6")
            || name.contains("bench")
            || arguments.iter().any(|word| word.contains("bench"));
        let in_place = matches!(name, "sed" | "perl")
            && arguments.iter().any(|word| is_short_flag(word, b'i') || *word == "--in-place");
        let reverts = match (name, first) {
            ("git", Some("checkout")) => has("--") || arguments.iter().any(|word| is_file(word)),
            ("git", Some("restore" | "revert" | "stash")) => !reads,
            ("git", Some("reset")) => has("--hard"),
            ("git", Some("rebase" | "merge" | "cherry-pick")) => has("--abort"),
            _ => false,
        };
        self.reverts |= reverts;
        let finds_and_acts = name == "find" && find_runs_an_action(arguments);
        let sends = name == "curl"
            && arguments.iter().any(|word| {
                matches!(*word, "POST" | "PUT" | "DELETE" | "PATCH" | "-d" | "-T" | "-F")
                    || word.starts_with("--data")
                    || ["-XPOST", "-XPUT", "-XDELETE", "-XPATCH"].contains(word)
            });
        // In `kubectl -n web patch`, the value of a flag comes before the subcommand. In
        // `aws cloudformation create-stack`, the name of a service does. So for these programs,
        // several operands are examined.
        let is_writing = |verb: &str| program.writing_subcommands().contains(&verb);
        let is_writing_subcommand = match name {
            "kubectl" | "oc" | "helm" => operands().take(3).any(is_writing),
            "aws" | "gcloud" | "az" | "gh" => {
                operands().take(4).any(|word| is_writing(verb_of(word)))
            }
            _ => first.is_some_and(is_writing),
        };
        self.writes |= in_place
            || reverts
            || finds_and_acts
            || sends
            || program.is(Program::WRITES)
            || (is_writing_subcommand && !reads);
        let last_file = || arguments.iter().rev().copied().map(bare).find(|word| is_file(word));
        if in_place || reverts || matches!(name, "patch" | "tee" | "touch") {
            self.file = self.file.or_else(last_file);
        }
        if !is_first {
            return;
        }
        self.orients = matches!(name, "ls" | "tree" | "pwd")
            || (name == "git"
                && matches!(first, Some("status" | "log" | "branch" | "diff" | "show")));
        (self.searches, self.search_term) = search_of(name, program, arguments);
        if program.is(Program::SHOWS_FILE) && !in_place {
            self.file = self.file.or_else(last_file);
            self.lines = shown_lines(name, arguments);
        }
        if name == "ssh" {
            self.add_remote_command(arguments);
        }
    }
}

impl<'a> CommandView<'a> {
    /// Examines the command that `ssh` runs on the other machine, and adds what it does.
    fn add_remote_command(&mut self, arguments: &[&'a str]) {
        let mut words = arguments.iter().skip_while(|word| word.starts_with('-')).skip(1);
        let Some(first) = words.next().copied() else { return };
        let is_quoted = first.starts_with(['"', '\'']);
        if is_quoted {
            self.search_term = CommandView::of(bare(first)).search_term;
        } else {
            let rest: Vec<&'a str> = words.clone().copied().collect();
            self.search_term = search_of(first, Program::named(first), &rest).1;
        }
        // A remote command without quotes consists of all remaining words. If the remote command
        // is another `ssh`, it is not examined.
        let joined;
        let command = if is_quoted {
            bare(first)
        } else {
            let rest: Vec<&str> = words.copied().collect();
            joined = format!("{first} {}", rest.join(" "));
            &joined
        };
        if command.starts_with("ssh") {
            return;
        }
        let remote = CommandView::of(command);
        self.answers = remote.answers;
        self.searches = remote.searches;
        self.writes |= remote.writes;
        self.waits |= remote.waits;
        self.only_reads |= remote.only_reads;
        self.prints_clock |= remote.prints_clock;
    }
}

/// Whether the arguments of a database client contain a query that only reads.
fn queries(arguments: &[&str]) -> bool {
    const READING: [&str; 5] = ["select", "show", "explain", "\\d", "describe"];
    let is_query = |word: &&str| {
        let word = bare(word).trim_start();
        READING.iter().any(|verb| {
            word.get(..verb.len()).is_some_and(|start| start.eq_ignore_ascii_case(verb))
        })
    };
    arguments.iter().any(is_query)
}

/// Whether `find` deletes the files that it finds, or runs a program on them that is not known to
/// only read.
fn find_runs_an_action(arguments: &[&str]) -> bool {
    let mut from_exec = arguments.iter().skip_while(|word| !word.starts_with("-exec"));
    let executed = from_exec.next().and_then(|_| from_exec.next());
    let reads = Program::READS.union(Program::SHOWS_FILE).union(Program::SEARCHES);
    arguments.contains(&"-delete") || executed.is_some_and(|name| !Program::named(name).is(reads))
}

/// Whether a program searches, and what for; the term is `None` if the arguments name none.
fn search_of<'a>(name: &str, program: Program, arguments: &[&'a str]) -> (bool, Option<&'a str>) {
    let mut operands = arguments.iter().copied().filter(|word| !word.starts_with('-')).map(bare);
    match name {
        // The first operand of `find` is a directory; its search term follows a flag such as
        // `-name`.
        "find" if find_runs_an_action(arguments) => (false, None),
        "find" => {
            let after_flag = arguments.iter().skip_while(|word| !word.contains("name")).nth(1);
            (true, after_flag.copied().map(bare))
        }
        "git" => match operands.next() {
            Some("grep") => (true, operands.next()),
            Some("log") => {
                let is_search =
                    |word: &&str| ["--grep", "-S", "-G"].iter().any(|flag| word.starts_with(flag));
                let search_term = arguments.iter().copied().find(is_search);
                (search_term.is_some(), search_term)
            }
            _ => (false, None),
        },
        _ if program.is(Program::SEARCHES) => (true, operands.next()),
        _ => (false, None),
    }
}

/// The first and last line that a program shows of a file. `u32::MAX` stands for the last line of
/// the file.
fn shown_lines(program: &str, arguments: &[&str]) -> Option<(u32, u32)> {
    let number = |word: &str| word.trim_start_matches('-').parse::<u32>().ok();
    match program {
        "cat" | "nl" | "less" | "more" | "bat" => Some((1, u32::MAX)),
        "tail" => Some((u32::MAX, u32::MAX)),
        "head" => {
            let count = arguments.iter().find_map(|word| number(word.trim_start_matches("-n")));
            Some((1, count.unwrap_or(10)))
        }
        "sed" if arguments.iter().any(|word| is_short_flag(word, b'n')) => {
            arguments.iter().find_map(|word| {
                let (from, to) = bare(word).strip_suffix('p')?.split_once(',')?;
                let to = if to == "$" { Some(u32::MAX) } else { number(to) };
                Some((number(from)?, to?))
            })
        }
        _ => None,
    }
}

/// Whether a word is a short flag that contains this letter: `-i`, `-ni` and `-i.bak` contain `i`.
fn is_short_flag(word: &str, letter: u8) -> bool {
    match word.as_bytes() {
        [b'-', flags @ ..] if flags.first() != Some(&b'-') => {
            flags.iter().take_while(|byte| byte.is_ascii_alphabetic()).any(|byte| *byte == letter)
        }
        _ => false,
    }
}

fn is_file(word: &str) -> bool {
    !word.starts_with('-')
        && (word.contains('/')
            || word.rsplit_once('.').is_some_and(|(name, end)| {
                !name.is_empty() && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
            || matches!(word, "Makefile" | "Dockerfile" | "README" | "LICENSE"))
}

/// Whether a word is a redirection, or a flag without a value. Commands that differ only in such
/// words count as the same command.
fn is_flag_or_redirection(word: &str) -> bool {
    let is_flag = word.starts_with('-')
        && !word.contains('=')
        && word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    // A flag such as `--timeout=120s` says how long to try, not what.
    let is_time_limit = word.starts_with("--") && word.contains("timeout");
    is_flag
        || is_time_limit
        || word.contains(">&")
        || word.contains("/dev/null")
        || matches!(word, ">" | "2>" | "&>")
}

/// A word without quotes; a path also loses a leading `./` and a trailing `/`.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(['"', '\'']);
    let word = word.strip_prefix("./").unwrap_or(word);
    match word.strip_suffix('/') {
        Some(folder) if !folder.is_empty() => folder,
        _ => word,
    }
}

/// Replaces the generated ids and clock times in a word. A URL, and a word that is an id as a
/// whole, stay as they are, because they say which object the command is about.
fn without_ids<'b>(word: &'b [u8], scratch: &'b mut Vec<u8>) -> &'b [u8] {
    let is_id = word.iter().any(u8::is_ascii_alphabetic)
        && word.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    if is_id || word.windows(3).any(|three| three == b"://") {
        return word;
    }
    scratch.clear();
    if strip_volatile(word, false, scratch) { scratch } else { word }
}

/// Skips wrappers such as `sudo` and variable settings such as `A=1`, and returns the file name and
/// the arguments of the program after them; `None` if no program follows.
fn program_of<'w, 'a>(words: &'w [&'a str]) -> Option<(&'a str, &'w [&'a str])> {
    let mut rest = words;
    while let [first, following @ ..] = rest {
        let is_setting = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let is_wrapped = words.len() > rest.len();
        let is_wrapper_argument = is_wrapped
            && (first.starts_with('-') || first.starts_with(|c: char| c.is_ascii_digit()));
        // These flags of wrappers take the next word as their value, as in `sudo -u postgres psql`.
        if is_wrapped && ["-u", "-g", "-I", "-n", "-k"].contains(first) {
            rest = following.get(1..).unwrap_or_default();
            continue;
        }
        if !(is_setting || Program::named(first).is(Program::WRAPPER) || is_wrapper_argument) {
            let name = first.trim_matches(['"', '\'', '(', ')', '{', '}']);
            return Some((name.rsplit('/').next().unwrap_or(name), following));
        }
        rest = following;
    }
    None
}

#[cfg(test)]
mod tests;
