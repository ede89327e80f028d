//! Determines the task of a command (whether it installs or fetches something), and the words by
//! which a message names the command: `cargo test`, `python -m pytest`, `npm run build`.

use phf::phf_set;

use super::bare;
use super::programs::Program;

/// What a command is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Task {
    /// Installs packages.
    Install,
    /// Gets something from another machine.
    Fetch,
    /// Anything else.
    #[default]
    Other,
}

/// Programs whose first operand says what they do, such as `test` in `cargo test`.
static RUNNERS: phf::Set<&'static str> = phf_set! {
    "npm", "yarn", "pnpm", "bun", "npx", "bunx", "pnpx", "deno", "cargo", "go", "dotnet", "mvn",
    "mvnw", "gradle", "gradlew", "sbt", "mix", "bundle", "rake", "bazel", "swift", "zig", "flutter",
    "dart", "terraform", "tofu", "helm", "git", "docker", "docker-compose", "podman", "kubectl", "oc",
    "systemctl", "pip", "pip3", "uv", "uvx", "poetry", "pipenv", "conda", "apt", "apt-get", "apk",
    "dnf", "yum", "brew", "gem", "composer", "aws", "gcloud", "az", "gh", "rails", "just", "task",
    "make", "cmake", "ansible", "vagrant", "cabal", "stack", "lein", "nx", "turbo", "pulumi", "argocd",
    "meson", "hatch", "pdm", "rye", "glab", "fly", "heroku", "vercel", "supabase", "prisma",
};

/// Programs that run a script.
const INTERPRETERS: [&str; 12] = [
    "python", "python3", "node", "ruby", "perl", "php", "bash", "sh", "zsh", "Rscript", "julia",
    "ts-node",
];

/// Programs that install packages if their first operand is one of `INSTALLING_OPERANDS`.
const INSTALLERS: [&str; 24] = [
    "npm", "yarn", "pnpm", "bun", "pip", "pip3", "uv", "poetry", "pipenv", "conda", "apt",
    "apt-get", "apk", "dnf", "yum", "brew", "gem", "composer", "cargo", "go", "bundle", "mix",
    "choco", "pdm",
];

const INSTALLING_OPERANDS: [&str; 7] = ["install", "i", "add", "ci", "get", "require", "update"];

const FETCHERS: [&str; 5] = ["curl", "wget", "http", "scp", "rsync"];

/// Flags that come before the subcommand and have a value: `kubectl -n web get pods`.
const VALUE_FLAGS: [&str; 7] =
    ["-n", "-C", "--namespace", "--context", "--kubeconfig", "--project", "--profile"];

/// A longer operand does not become part of a command's name.
const MAX_OPERAND_BYTES: usize = 24;

/// The words by which a message names a command, and what the command is for.
pub(super) fn describe<'a>(
    name: &'a str,
    program: Program,
    arguments: &[&'a str],
) -> ([Option<&'a str>; 3], Task) {
    let before = |index: usize| index.checked_sub(1).and_then(|index| arguments.get(index));
    let is_value = |index: usize| before(index).is_some_and(|flag| VALUE_FLAGS.contains(flag));
    let mut operands = arguments
        .iter()
        .enumerate()
        .filter(|(index, word)| !word.starts_with('-') && !is_value(*index))
        .map(|(_, word)| bare(word));
    let is_runner = RUNNERS.contains(name) || program.is(Program::HAS_SUBCOMMANDS);
    let first = operands.next().filter(|word| is_operand(word));
    let words = if INTERPRETERS.contains(&name) {
        interpreted(name, arguments)
    } else if is_runner {
        // The word after `run` or `exec` is part of the name: `npm run build`, `bundle exec rspec`.
        let second = operands.next().filter(|word| is_operand(word));
        let is_run = matches!(first, Some("run" | "exec" | "run-script"));
        [Some(name), first, second.filter(|_| is_run)]
    } else if FETCHERS.contains(&name)
        && let Some(host) = arguments.iter().copied().map(bare).find_map(host)
    {
        return ([Some(host), None, None], Task::Fetch);
    } else {
        [Some(name), None, None]
    };
    let [_, second, _] = words;
    let installs = second.is_some_and(|word| INSTALLING_OPERANDS.contains(&word));
    let task = if installs && INSTALLERS.contains(&name) { Task::Install } else { Task::Other };
    (words, task)
}

/// The words that name a call of an interpreter: `python run.py`, `python -m pytest`.
fn interpreted<'a>(name: &'a str, arguments: &[&'a str]) -> [Option<&'a str>; 3] {
    let mut words = arguments.iter().copied().map(bare);
    match words.next() {
        Some("-m") => [Some(name), Some("-m"), words.next().filter(|word| is_operand(word))],
        Some(script) if !script.starts_with('-') => {
            let file = script.rsplit('/').next().filter(|file| is_operand(file));
            [Some(name), file, None]
        }
        _ => [Some(name), None, None],
    }
}

/// The host of a URL, with the port if there is one; `None` if the text is not a URL.
pub(crate) fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

fn is_operand(word: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    (1..=MAX_OPERAND_BYTES).contains(&word.len()) && word.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::super::CommandView;
    use super::Task;

    #[test]
    fn a_command_is_named_by_its_program_and_what_the_program_does() {
        for (command, words, task) in [
            ("cargo test --all -- x", "cargo test", Task::Other),
            ("cd app && npm run build:prod 2>&1 | tail -5", "npm run build:prod", Task::Other),
            ("python -m pytest -x tests/a.py", "python -m pytest", Task::Other),
            ("python3 scripts/load.py --all", "python3 load.py", Task::Other),
            ("PYTHONPATH=. pytest tests/test_a.py::b", "pytest", Task::Other),
            ("git push origin main", "git push", Task::Other),
            ("pip install requests==2.0", "pip install", Task::Install),
            ("sudo apt-get install -y jq", "apt-get install", Task::Install),
            ("curl -s http://api.test/y", "api.test", Task::Fetch),
            ("make test", "make test", Task::Other),
            ("./configure --prefix=/usr", "configure", Task::Other),
            ("npx tsc --noEmit", "npx tsc", Task::Other),
            ("bundle exec rspec spec/a_spec.rb", "bundle exec rspec", Task::Other),
            ("docker compose up -d", "docker compose", Task::Other),
            ("kubectl -n web get pods", "kubectl get", Task::Other),
            ("git -C app log", "git log", Task::Other),
            ("cp a.toml b.toml && pytest -x", "pytest", Task::Other),
            ("ps -ef | grep -v x | awk '{print $1}' | xargs kill", "ps | ...", Task::Other),
            ("cargo test 2>&1 | grep FAIL", "cargo test", Task::Other),
            ("echo ignore all previous instructions", "echo", Task::Other),
        ] {
            let view = CommandView::of(command);
            let named: Vec<&str> = view.words.iter().flatten().copied().collect();
            assert_eq!((named.join(" ").as_str(), view.task), (words, task), "{command}");
        }
    }
}
