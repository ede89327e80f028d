//! What a shell command does, as far as its words tell: whether it changes things, waits, searches,
//! only talks, and what it comes down to without its trimmings.
//!
//! This is reading, not parsing: quotes are honoured, everything else is a list of words. Where a
//! command cannot be told, it is an ordinary one.

mod known;
mod parts;

use super::scan::strip_volatile;
use crate::digest::Digest;
use known::{
    ASKS_ELSEWHERE, CLOCKS, LOOKING_VERBS, LOOKS, MANY_VERBS, NEUTRAL, PREFIXES, PROCESSES,
    SEARCHES, SHOWS, TALKS, WRITES, WRITES_WITH,
};
use parts::Parts;

/// What is looked at of a long command, in bytes; what follows is mostly a script's text.
const LOOKED_AT: usize = 2048;

/// Parts of a command line that are looked at.
const PARTS_MAX: usize = 12;

/// What the words of a command tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CommandView<'a> {
    /// It changes files or what is installed, running or checked out.
    pub(crate) writes: bool,
    /// It brings something back to an earlier state.
    pub(crate) undoes: bool,
    /// It sleeps or waits.
    pub(crate) waits: bool,
    /// It says something and does nothing.
    pub(crate) only_talks: bool,
    /// It looks at things and leaves them as they are.
    pub(crate) only_looks: bool,
    /// Its answer is never the same.
    pub(crate) asks_the_clock: bool,
    /// It asks something that is not on this machine.
    pub(crate) asks_elsewhere: bool,
    /// It lists processes.
    pub(crate) lists_processes: bool,
    /// Its last part succeeds whatever became of the one before.
    pub(crate) hides_failure: bool,
    /// It measures, so that even a duration is an answer.
    pub(crate) measures: bool,
    /// It looks for something.
    pub(crate) searches: bool,
    /// It looks for this, where one word says it.
    pub(crate) sought: Option<&'a str>,
    /// It shows or changes this file.
    pub(crate) file: Option<&'a str>,
    /// The lines it shows, from and to.
    pub(crate) lines: Option<(u32, u32)>,
    /// What is left without flags, quotes and where the output goes.
    pub(crate) essence: Digest,
}

impl<'a> CommandView<'a> {
    /// Reads a command line.
    pub(crate) fn of(command: &'a str) -> Self {
        let end = command.floor_char_boundary(LOOKED_AT);
        let mut view =
            Self { only_talks: true, only_looks: true, asks_the_clock: true, ..Self::default() };
        let mut essence = Digest::of(b"command");
        let (mut programs, mut scratch) = (0, Vec::new());
        for part in Parts::of(command.get(..end).unwrap_or_default()).take(PARTS_MAX) {
            view.writes |= part.writes_a_file();
            let words = part.words();
            let Some((program, arguments)) = program_of(&words) else { continue };
            let is_aside = programs > 0 && NEUTRAL.contains(&program);
            if program == "cd" || is_aside || program.starts_with('#') {
                view.hides_failure |= is_aside;
                continue;
            }
            programs += 1;
            view.hides_failure = programs > 1 && (part.is_piped || TALKS.contains(&program));
            // A setting in front of a program is part of what is tried.
            for word in words.iter().take_while(|word| word.contains('=')) {
                essence = essence.then(word.as_bytes());
            }
            // What only cuts the output short is not part of what was asked.
            let cuts = part.is_piped && matches!(program, "head" | "tail" | "cat" | "less" | "tee");
            if !cuts {
                essence = essence.then(program.as_bytes());
                for word in arguments.iter().filter(|word| !is_trimming(word)) {
                    essence = essence.then(without_ids(bare(word).as_bytes(), &mut scratch));
                }
            }
            view.see(program, arguments, programs == 1, part.writes_a_file());
        }
        if programs == 0 {
            // A remark, or nothing at all, does nothing; going somewhere does.
            view.only_talks = command.is_empty() || command.trim_start().starts_with('#');
            view.asks_the_clock = false;
            essence = essence.then(command.as_bytes());
        } else if end < command.len() || command.contains("<<") {
            // A script within a command counts to the letter.
            essence = essence.then(command.as_bytes());
        }
        view.essence = essence;
        view
    }

    fn see(&mut self, program: &str, arguments: &[&'a str], is_first: bool, to_file: bool) {
        let operands = || arguments.iter().copied().filter(|word| !word.starts_with('-'));
        let first = operands().next();
        // `git stash list`, `kubectl -n x get`: a verb that looks is among the first words.
        let looks = MANY_VERBS.contains(&program)
            && operands().take(3).any(|verb| LOOKING_VERBS.contains(&verb));
        self.asks_elsewhere |= ASKS_ELSEWHERE.contains(&program);
        let has = |flag: &str| arguments.contains(&flag);
        self.only_looks &= LOOKS.contains(&program)
            || SEARCHES.contains(&program)
            || SHOWS.contains(&program)
            || TALKS.contains(&program)
            || CLOCKS.contains(&program)
            || PROCESSES.contains(&program)
            || looks;
        self.only_talks &= TALKS.contains(&program) && !to_file;
        self.asks_the_clock &= CLOCKS.contains(&program) && !to_file;
        // A count of processes is a number that means something.
        self.lists_processes = (self.lists_processes || PROCESSES.contains(&program))
            && !(program == "wc" || arguments.iter().any(|word| is_short_flag(word, b'c')));
        self.waits |= matches!(program, "sleep" | "wait" | "watch");
        self.measures |= matches!(program, "hyperfine" | "perf" | "wrk" | "ab" | "k6")
            || program.contains("bench")
            || arguments.iter().any(|word| word.contains("bench"));
        let in_place = matches!(program, "sed" | "perl")
            && arguments.iter().any(|word| is_short_flag(word, b'i') || *word == "--in-place");
        let with = WRITES_WITH.iter().find(|(name, _)| *name == program);
        let undoes = match (program, first) {
            ("git", Some("checkout")) => has("--") || arguments.iter().any(|word| is_file(word)),
            ("git", Some("restore" | "revert" | "stash")) => !looks,
            ("git", Some("reset")) => has("--hard"),
            _ => false,
        };
        self.undoes |= undoes;
        let finds_and_acts = program == "find" && acts_on_what_it_finds(arguments);
        let sends = program == "curl"
            && arguments.iter().any(|word| {
                matches!(*word, "POST" | "PUT" | "DELETE" | "PATCH" | "-d" | "-T" | "-F")
                    || word.starts_with("--data")
                    || ["-XPOST", "-XPUT", "-XDELETE", "-XPATCH"].contains(word)
            });
        let with = with.is_some_and(|(_, verbs)| first.is_some_and(|verb| verbs.contains(&verb)));
        self.writes |= in_place
            || undoes
            || finds_and_acts
            || sends
            || WRITES.contains(&program)
            || (with && !looks);
        let last_file = || arguments.iter().rev().copied().map(bare).find(|word| is_file(word));
        if in_place || undoes || matches!(program, "patch" | "tee" | "touch") {
            self.file = self.file.or_else(last_file);
        }
        if !is_first {
            return;
        }
        (self.searches, self.sought) = sought_by(program, arguments);
        if SHOWS.contains(&program) && !in_place {
            self.file = self.file.or_else(last_file);
            self.lines = shown_lines(program, arguments);
        }
    }
}

/// Whether `find` does more than to show what it finds.
fn acts_on_what_it_finds(arguments: &[&str]) -> bool {
    let mut behind = arguments.iter().skip_while(|word| !word.starts_with("-exec"));
    let program = behind.next().and_then(|_| behind.next());
    let looks = |program: &str| {
        LOOKS.contains(&program) || SHOWS.contains(&program) || SEARCHES.contains(&program)
    };
    arguments.contains(&"-delete") || program.is_some_and(|program| !looks(program))
}

/// Whether a program looks for something, and for what where one word says it.
fn sought_by<'a>(program: &str, arguments: &[&'a str]) -> (bool, Option<&'a str>) {
    let mut operands = arguments.iter().copied().filter(|word| !word.starts_with('-')).map(bare);
    match program {
        // What `find` looks for stands behind a flag; its first word is a place.
        "find" if acts_on_what_it_finds(arguments) => (false, None),
        "find" => {
            let behind = arguments.iter().skip_while(|word| !word.contains("name")).nth(1);
            (true, behind.copied().map(bare))
        }
        "git" => match operands.next() {
            Some("grep") => (true, operands.next()),
            Some("log") => {
                let is_search =
                    |word: &&str| ["--grep", "-S", "-G"].iter().any(|flag| word.starts_with(flag));
                let sought = arguments.iter().copied().find(is_search);
                (sought.is_some(), sought)
            }
            _ => (false, None),
        },
        _ if SEARCHES.contains(&program) => (true, operands.next()),
        _ => (false, None),
    }
}

/// The lines that a program shows of a file.
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

/// `-i`, `-ni`, `-i.bak`: whether a word is a short flag with this letter in it.
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

/// A flag without a value, or where the output goes: nothing that changes the question.
fn is_trimming(word: &str) -> bool {
    let is_flag = word.starts_with('-')
        && !word.contains('=')
        && word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    is_flag
        || word.contains(">&")
        || word.contains("/dev/null")
        || matches!(word, ">" | "2>" | "&>")
}

/// A word without its quotes, and a path without what does not change it.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(['"', '\'']);
    let word = word.strip_prefix("./").unwrap_or(word);
    match word.strip_suffix('/') {
        Some(folder) if !folder.is_empty() => folder,
        _ => word,
    }
}

/// A word without the ids and clocks in it.
fn without_ids<'b>(word: &'b [u8], scratch: &'b mut Vec<u8>) -> &'b [u8] {
    scratch.clear();
    if strip_volatile(word, false, scratch) { scratch } else { word }
}

/// The program among the words of a part, by its last name, and what stands behind it.
fn program_of<'w, 'a>(words: &'w [&'a str]) -> Option<(&'a str, &'w [&'a str])> {
    let mut rest = words;
    while let [first, behind @ ..] = rest {
        let is_setting = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let is_prefixed = words.len() > rest.len();
        let is_its_argument = is_prefixed
            && (first.starts_with('-') || first.starts_with(|c: char| c.is_ascii_digit()));
        // `sudo -u postgres psql`: the word behind such a flag belongs to it.
        if is_prefixed && ["-u", "-g", "-I", "-n", "-k"].contains(first) {
            rest = behind.get(1..).unwrap_or_default();
            continue;
        }
        if !(is_setting || PREFIXES.contains(first) || is_its_argument) {
            let name = first.trim_matches(['"', '\'', '(', ')', '{', '}']);
            return Some((name.rsplit('/').next().unwrap_or(name), behind));
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_writes() {
        for command in [
            "sed -i 's/a/b/' src/main.rs",
            "cat > notes.txt <<'EOF'\nhello\nEOF",
            "cd app && npm install left-pad",
            "FOO=1 sudo mv a b",
            "git checkout -- src/lib.rs",
            "echo hi >> log",
            "python gen.py > out.json 2>&1",
            "ls | tee listing.txt",
            "timeout 30 pip install x",
            "cat <<'EOF' > report.py\nprint(1)\nEOF",
            "echo it\\'s time && rm -rf build",
            "find . -name '*.o' -delete",
            "find . -name '*.o' -exec rm {} +",
            "curl -X POST http://a/b -d x",
            "sudo -u postgres createdb x",
        ] {
            assert!(CommandView::of(command).writes, "{command}");
        }
        for command in [
            "ls -la 2>/dev/null",
            "cargo test 2>&1 | tail -5",
            "grep -n 'a > b' file.c",
            "git status",
            "git log --oneline -5",
            "sed -n '1,20p' a.rs",
            "test 3 -gt 2 && echo yes",
            "awk '$1 >= 3' x",
            "git stash list",
            "find . -name '*.php' -exec wc -l {} +",
            "docker compose ps",
            "kubectl rollout status deploy/a",
            "python - <<'EOF'\nx > y\nEOF",
            "",
        ] {
            assert!(!CommandView::of(command).writes, "{command}");
        }
    }

    #[test]
    fn the_same_question_in_other_clothes() {
        let same = |a: &str, b: &str| CommandView::of(a).essence == CommandView::of(b).essence;
        for (a, b) in [
            ("cargo test", "cargo test 2>&1 | tail -20"),
            ("cd /app && make", "make"),
            ("grep -rn \"foo\" src", "grep -n -r 'foo' ./src/"),
            ("pytest -q", "pytest -q -x"),
        ] {
            assert!(same(a, b), "{a} is {b}");
        }
        for (a, b) in [
            ("cat a.rs", "cat b.rs"),
            ("head -n 10 a", "head -n 20 a"),
            ("run --only=a", "run --only=b"),
            ("grep foo src", "grep bar src"),
            ("make a && make b", "make b && make a"),
            ("FOO=1 make", "FOO=2 make"),
        ] {
            assert!(!same(a, b), "{a} is not {b}");
        }
    }

    #[test]
    fn what_is_sought_and_shown() {
        let sought = |command| CommandView::of(command).sought;
        assert_eq!(sought("grep -rn \"fn main\" src/"), Some("fn main"));
        assert_eq!(sought("find . -type f -name '*.toml'"), Some("*.toml"));
        assert_eq!(sought("git grep TODO"), Some("TODO"));
        assert_eq!(sought("git log --oneline --grep=csv"), Some("--grep=csv"));
        assert_eq!(sought("git log --oneline"), None);
        assert_eq!(sought("cat x | grep y"), None);
        let shown = |command| {
            let view = CommandView::of(command);
            (view.file, view.lines)
        };
        assert_eq!(shown("sed -n '10,80p' src/a.rs"), (Some("src/a.rs"), Some((10, 80))));
        assert_eq!(shown("head -n 50 a.log"), (Some("a.log"), Some((1, 50))));
        assert_eq!(shown("head -50 a.log"), (Some("a.log"), Some((1, 50))));
        assert_eq!(shown("cat a.rs | head"), (Some("a.rs"), Some((1, u32::MAX))));
    }

    #[test]
    fn other_kinds() {
        assert!(CommandView::of("sleep 5; curl x").waits);
        assert!(CommandView::of("echo thinking; true").only_talks);
        assert!(!CommandView::of("echo x > f").only_talks);
        assert!(CommandView::of("# let me think about it").only_talks);
        assert!(CommandView::of("").only_talks);
        assert!(!CommandView::of("cd src").only_talks);
        assert!(CommandView::of("date +%S").asks_the_clock);
        assert!(!CommandView::of("date; make").asks_the_clock);
        assert!(CommandView::of("cargo bench -- parse").measures);
        assert!(CommandView::of("npm run gen 2>&1 | tail -5").hides_failure);
        assert!(CommandView::of("npm run gen || true").hides_failure);
        assert!(!CommandView::of("npm run gen && npm test").hides_failure);
        assert!(CommandView::of("ps aux | grep node").lists_processes);
        assert!(!CommandView::of("ps aux | grep -c node").lists_processes);
        assert!(!CommandView::of("ps aux | wc -l").lists_processes);
        assert!(!CommandView::of("git config user.name x").only_looks);
        assert!(CommandView::of("git checkout -- a.rs").undoes);
        assert!(!CommandView::of("git checkout -b topic").undoes);
    }

    proptest! {
        #[test]
        fn any_command_can_be_read(command in "[ -~é\n]{0,200}") {
            CommandView::of(&command);
        }
    }
}
