//! A table of well-known programs, such as `grep` and `git`, and what they do.
//!
//! The table is a hash table without collisions that is built at compile time. An agent's hooks
//! start a new process for every event; these processes spend no time on building the table, and
//! looking up a program takes constant time.

use phf::phf_map;

/// What a program is known to do. Each trait is one bit; an unknown program has no traits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Program {
    traits: u16,
    writing_subcommands: &'static [&'static str],
}

impl Program {
    /// Searches for something that may not be there.
    pub(super) const SEARCHES: Self = Self::with_traits(1);
    /// Prints process ids, times and other numbers that differ each time.
    pub(super) const LISTS_PROCESSES: Self = Self::with_traits(1 << 1);
    /// Shows a file or a part of it.
    pub(super) const SHOWS_FILE: Self = Self::with_traits(1 << 2);
    /// Prints something that differs each time, such as the date.
    pub(super) const PRINTS_CLOCK: Self = Self::with_traits(1 << 3);
    /// Is ignored if another program comes before it, as `echo done` in `make; echo done`.
    pub(super) const NEUTRAL: Self = Self::with_traits(1 << 4);
    /// Reads and changes nothing.
    pub(super) const READS: Self = Self::with_traits(1 << 5);
    /// Takes a subcommand, which determines whether the program reads or writes.
    pub(super) const HAS_SUBCOMMANDS: Self = Self::with_traits(1 << 6);
    /// Talks to another machine or to a database server.
    pub(super) const REMOTE: Self = Self::with_traits(1 << 7);
    /// Only prints its arguments.
    pub(super) const PRINTS: Self = Self::with_traits(1 << 8);
    /// Changes files, processes or settings.
    pub(super) const WRITES: Self = Self::with_traits(1 << 9);
    /// Runs the program that follows it, as `sudo` does.
    pub(super) const WRAPPER: Self = Self::with_traits(1 << 10);

    /// Runs a check (tests, a compiler, a linter), whatever its arguments.
    pub(super) const CHECKS: Self = Self::with_traits(1 << 11);
    /// Runs a check with some arguments and not with others.
    pub(super) const MAY_CHECK: Self = Self::with_traits(1 << 12);

    /// A program that has at least one of these traits leaves files as they are.
    pub(super) const CHANGES_NOTHING: Self = Self::READS
        .union(Self::SEARCHES)
        .union(Self::SHOWS_FILE)
        .union(Self::PRINTS)
        .union(Self::PRINTS_CLOCK)
        .union(Self::LISTS_PROCESSES);

    /// The traits of the program with this file name; none for an unknown program.
    pub(super) fn named(name: &str) -> Self {
        PROGRAMS.get(name).copied().unwrap_or_default()
    }

    /// Whether the program has one of these traits.
    pub(super) const fn is(self, any_of: Self) -> bool {
        self.traits & any_of.traits != 0
    }

    /// The subcommands with which the program changes something.
    pub(super) const fn writing_subcommands(self) -> &'static [&'static str] {
        self.writing_subcommands
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self::with_traits(self.traits | other.traits)
    }

    const fn with_traits(traits: u16) -> Self {
        Self { traits, writing_subcommands: &[] }
    }

    const fn writing_with(self, writing_subcommands: &'static [&'static str]) -> Self {
        Self { writing_subcommands, ..self }
    }
}

const UNKNOWN: Program = Program::with_traits(0);

static PROGRAMS: phf::Map<&'static str, Program> = phf_map! {
    "grep" | "rg" | "egrep" | "fgrep" | "zgrep" | "bzgrep" | "xzgrep" | "ag" | "ack" | "find" | "fd" | "locate" | "which"
        | "whereis" | "pgrep" | "jq" => Program::SEARCHES,
    "ps" | "top" | "lsof" | "pstree" => Program::LISTS_PROCESSES,
    "cat" | "head" | "tail" | "sed" | "nl" | "less" | "more" | "bat" => Program::SHOWS_FILE,
    "date" | "uptime" | "uuidgen" | "mktemp" => Program::PRINTS_CLOCK,
    "sync" | "set" | "umask" | "hash" | "wait" | "jobs" => Program::NEUTRAL,
    "true" | ":" | "echo" | "clear" => Program::NEUTRAL.union(Program::PRINTS),
    "printf" => Program::PRINTS,
    "ls" | "pwd" | "wc" | "stat" | "file" | "du" | "df" | "tree" | "printenv" | "whoami" | "id"
        | "uname" | "diff" | "sort" | "uniq" | "cut" | "awk" | "tr" | "test" | "[" | "sleep"
        | "hostname" | "strings" | "xxd" | "basename" | "dirname" => Program::READS,
    "env" => Program::READS.union(Program::WRAPPER),
    "curl" => Program::READS.union(Program::REMOTE),
    "wget" | "http" | "nc" | "ping" | "dig" | "nslookup" | "ssh" | "telnet" | "psql" | "mysql"
        => Program::REMOTE,
    "redis-cli" => Program::REMOTE.union(Program::HAS_SUBCOMMANDS),
    "sudo" | "time" | "nohup" | "exec" | "command" | "timeout" | "xargs" | "nice"
        => Program::WRAPPER,
    "mv" | "cp" | "rm" | "mkdir" | "rmdir" | "touch" | "tee" | "chmod" | "chown" | "ln" | "patch"
        | "install" | "dd" | "truncate" | "rsync" | "unzip" | "tar" | "kill" | "pkill" | "killall"
        | "export" | "source" | "unset" | "useradd" | "createdb" | "dropdb" => Program::WRITES,
    "pytest" | "py.test" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "ava" | "cypress"
        | "karma" | "tsc" | "vue-tsc" | "eslint" | "stylelint" | "standard" | "xo" | "biome"
        | "oxlint" | "ruff" | "flake8" | "pylint" | "mypy" | "pyright" | "basedpyright"
        | "bandit" | "pydocstyle" | "pycodestyle" | "rspec" | "rubocop" | "standardrb"
        | "phpunit" | "pest" | "phpstan" | "psalm" | "phpcs" | "prove" | "ctest" | "gcc" | "g++"
        | "cc" | "c++" | "clang" | "clang++" | "clang-tidy" | "cppcheck" | "rustc" | "javac"
        | "scalac" | "kotlinc" | "ghc" | "swiftc" | "ktlint" | "detekt" | "checkstyle"
        | "shellcheck" | "hadolint" | "yamllint" | "markdownlint" | "golangci-lint"
        | "staticcheck" | "gofmt" | "actionlint" | "tflint" | "sqlfluff" | "buf" | "protolint"
        | "ansible-lint" | "busted" | "luacheck" | "bats" | "cargo-clippy" | "cargo-nextest"
        | "isort" | "black" | "prettier" | "credo" | "dialyzer" | "make" | "gmake" | "ninja"
        | "gradle" | "gradlew" | "mvn" | "mvnw" | "sbt" | "xcodebuild" | "msbuild" | "turbo"
        | "nx" | "pre-commit"
        => Program::CHECKS,
    "dotnet" | "swift" | "zig" | "mix" | "deno" | "bun" | "bazel" | "stack" | "cabal"
        | "flutter" | "dart" | "playwright" | "rails" | "rake" | "cmake" | "npx" | "bunx"
        | "bundle" | "poetry" | "python" | "python3" | "uvx"
        => Program::MAY_CHECK,
    "podman" => Program::HAS_SUBCOMMANDS,
    "helm" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "install", "upgrade", "rollback", "uninstall", "delete",
    ]),
    "terraform" | "tofu" | "pulumi" => Program::HAS_SUBCOMMANDS.union(Program::MAY_CHECK).writing_with(&[
        "apply", "import", "destroy", "init", "taint", "untaint", "up",
    ]),
    "aws" | "gcloud" | "az" | "gh" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "create", "delete", "update", "put", "run", "start", "stop", "terminate", "modify",
        "attach", "detach", "copy", "reboot", "set", "add", "remove", "merge", "close", "edit",
        "rerun", "deploy", "restart",
    ]),
    "git" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "add", "commit", "apply", "checkout", "restore", "reset", "stash", "merge", "rebase",
        "pull", "push", "cherry-pick", "revert", "clone", "switch", "mv", "rm", "clean", "init",
        "tag", "am", "bisect",
    ]),
    "npm" | "yarn" | "pnpm" => Program::HAS_SUBCOMMANDS
        .union(Program::MAY_CHECK)
        .writing_with(INSTALLING_SUBCOMMANDS),
    "pip" | "apt" | "brew"
        => Program::HAS_SUBCOMMANDS.writing_with(INSTALLING_SUBCOMMANDS),
    "uv" => Program::MAY_CHECK.writing_with(INSTALLING_SUBCOMMANDS),
    "pip3" | "apt-get" | "apk" => UNKNOWN.writing_with(INSTALLING_SUBCOMMANDS),
    "cargo" => Program::HAS_SUBCOMMANDS.union(Program::MAY_CHECK).writing_with(&[
        "add", "install", "new", "init", "fix", "fmt", "update", "remove",
    ]),
    "go" => Program::HAS_SUBCOMMANDS.union(Program::MAY_CHECK).writing_with(&["get", "install", "mod"]),
    "docker" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "run", "rm", "rmi", "build", "pull", "start", "stop", "restart", "compose",
    ]),
    "kubectl" | "oc" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "apply", "delete", "create", "patch", "scale", "rollout", "edit", "set", "annotate",
        "label", "cordon", "uncordon", "drain", "replace", "expose",
    ]),
    "systemctl" => Program::HAS_SUBCOMMANDS.writing_with(&[
        "start", "stop", "restart", "enable", "disable", "reload",
    ]),
};

/// Subcommands of package managers that change what is installed.
const INSTALLING_SUBCOMMANDS: &[&str] = &[
    "install",
    "i",
    "add",
    "ci",
    "remove",
    "uninstall",
    "update",
    "upgrade",
    "sync",
    "link",
    "lock",
];

/// Subcommands that only read, in every program that has them.
pub(super) const READING_SUBCOMMANDS: [&str; 20] = [
    "status", "log", "logs", "diff", "show", "blame", "grep", "ls-files", "get", "list", "ls",
    "describe", "history", "version", "top", "info", "inspect", "view", "plan", "ps",
];
