//! Programs and verbs that are known, by what they do.

/// Programs that look for something and may find nothing.
pub(super) const SEARCHES: [&str; 13] = [
    "grep", "rg", "egrep", "fgrep", "ag", "ack", "find", "fd", "locate", "which", "whereis",
    "pgrep", "jq",
];

/// Programs whose answer is full of numbers that the system makes up.
pub(super) const PROCESSES: [&str; 4] = ["ps", "top", "lsof", "pstree"];

/// Programs that show (part of) a file.
pub(super) const SHOWS: [&str; 8] = ["cat", "head", "tail", "sed", "nl", "less", "more", "bat"];

/// Programs whose answer is another one each time, whatever else is so.
pub(super) const CLOCKS: [&str; 4] = ["date", "uptime", "uuidgen", "mktemp"];

/// Programs that change nothing about what is asked beside another one.
pub(super) const NEUTRAL: [&str; 10] =
    ["true", ":", "sync", "set", "umask", "hash", "wait", "jobs", "echo", "clear"];

/// Programs that look at something.
pub(super) const LOOKS: [&str; 28] = [
    "ls", "pwd", "wc", "stat", "file", "du", "df", "tree", "env", "printenv", "whoami", "id",
    "uname", "diff", "sort", "uniq", "cut", "awk", "tr", "test", "[", "sleep", "curl", "hostname",
    "strings", "xxd", "basename", "dirname",
];

/// Programs with many verbs, and those of their verbs that look at something.
pub(super) const MANY_VERBS: [&str; 20] = [
    "git",
    "kubectl",
    "docker",
    "helm",
    "npm",
    "cargo",
    "pip",
    "terraform",
    "systemctl",
    "aws",
    "gcloud",
    "gh",
    "az",
    "brew",
    "apt",
    "go",
    "oc",
    "podman",
    "yarn",
    "pnpm",
];
pub(super) const LOOKING_VERBS: [&str; 20] = [
    "status", "log", "logs", "diff", "show", "blame", "grep", "ls-files", "get", "list", "ls",
    "describe", "history", "version", "top", "info", "inspect", "view", "plan", "ps",
];

/// Programs that ask something elsewhere.
pub(super) const ASKS_ELSEWHERE: [&str; 12] = [
    "curl",
    "wget",
    "http",
    "nc",
    "ping",
    "dig",
    "nslookup",
    "ssh",
    "telnet",
    "psql",
    "mysql",
    "redis-cli",
];

/// Programs that only talk, unless their words go into a file.
pub(super) const TALKS: [&str; 5] = ["echo", "printf", "true", ":", "clear"];

/// Programs that change things.
pub(super) const WRITES: [&str; 26] = [
    "mv", "cp", "rm", "mkdir", "rmdir", "touch", "tee", "chmod", "chown", "ln", "patch", "install",
    "dd", "truncate", "rsync", "unzip", "tar", "kill", "pkill", "killall", "export", "source",
    "unset", "useradd", "createdb", "dropdb",
];

/// Programs with the words behind them that change things.
pub(super) const WRITES_WITH: [(&str, &[&str]); 16] = [
    (
        "git",
        &[
            "add",
            "commit",
            "apply",
            "checkout",
            "restore",
            "reset",
            "stash",
            "merge",
            "rebase",
            "pull",
            "push",
            "cherry-pick",
            "revert",
            "clone",
            "switch",
            "mv",
            "rm",
            "clean",
            "init",
            "tag",
            "am",
        ],
    ),
    ("npm", INSTALLS),
    ("yarn", INSTALLS),
    ("pnpm", INSTALLS),
    ("pip", INSTALLS),
    ("pip3", INSTALLS),
    ("uv", INSTALLS),
    ("apt", INSTALLS),
    ("apt-get", INSTALLS),
    ("brew", INSTALLS),
    ("apk", INSTALLS),
    ("cargo", &["add", "install", "new", "init", "fix", "fmt", "update", "remove"]),
    ("go", &["get", "install", "mod"]),
    ("docker", &["run", "rm", "rmi", "build", "pull", "start", "stop", "restart", "compose"]),
    ("kubectl", &["apply", "delete", "create", "patch", "scale", "rollout", "edit"]),
    ("systemctl", &["start", "stop", "restart", "enable", "disable", "reload"]),
];

pub(super) const INSTALLS: &[&str] = &[
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

/// Words before a program that do not say what it does.
pub(super) const PREFIXES: [&str; 9] =
    ["sudo", "env", "time", "nohup", "exec", "command", "timeout", "xargs", "nice"];
