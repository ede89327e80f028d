//! Decides whether a command runs a check: tests, a compiler, a linter or a type checker.

use super::programs::Program;

/// Programs, each with the subcommands that run a check.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["test", "t", "check", "c", "clippy", "build", "b", "fmt", "nextest", "bench"]),
    ("go", &["test", "vet", "build"]),
    ("dotnet", &["test", "build", "format"]),
    ("swift", &["test", "build"]),
    ("zig", &["build", "test"]),
    ("mix", &["test", "compile", "credo", "dialyzer", "format"]),
    ("deno", &["test", "check", "lint", "fmt"]),
    ("bun", &["test"]),
    ("bazel", &["test", "build"]),
    ("stack", &["test", "build"]),
    ("cabal", &["test", "build"]),
    ("flutter", &["test", "analyze"]),
    ("dart", &["test", "analyze"]),
    ("terraform", &["validate"]),
    ("playwright", &["test"]),
    ("rails", &["test"]),
    ("rake", &["test", "spec"]),
    ("cmake", &["--build"]),
    ("npm", &["test", "t"]),
    ("yarn", &["test", "lint", "build", "typecheck"]),
    ("pnpm", &["test", "lint", "build", "typecheck"]),
];

/// Programs that run another program. Their first operand names it, or the operand after a word
/// such as `exec`.
const RUNNERS: [&str; 11] =
    ["npx", "npm", "yarn", "pnpm", "bunx", "bundle", "poetry", "uv", "python", "python3", "uvx"];

/// Whether a program with these arguments runs a check.
pub(super) fn runs_check(name: &str, program: Program, arguments: &[&str]) -> bool {
    if program.is(Program::CHECKS) {
        return true;
    }
    if !program.is(Program::MAY_CHECK) {
        return false;
    }
    let mut operands =
        arguments.iter().copied().filter(|word| !word.starts_with('-') || *word == "--build");
    let first = operands.next().unwrap_or_default();
    if SUBCOMMANDS.iter().any(|(program, verbs)| *program == name && verbs.contains(&first)) {
        return true;
    }
    if !RUNNERS.contains(&name) {
        return false;
    }
    let is_check_module = |word: &str| {
        Program::named(word).is(Program::CHECKS) || matches!(word, "unittest" | "doctest")
    };
    match first {
        // The next operand names a program, or a script of package.json such as `lint:fix`.
        "run" | "exec" | "dlx" => operands.next().is_some_and(|script| {
            is_check_module(script)
                || script.split([':', '-']).any(|word| {
                    matches!(word, "test" | "tests" | "lint" | "check" | "typecheck" | "build")
                })
        }),
        _ if name.starts_with("python") => arguments.contains(&"-m") && is_check_module(first),
        _ => is_check_module(first),
    }
}
