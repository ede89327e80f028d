//! Which commands run a check: tests, compilers, linters and type checkers.

/// Programs that are a check with any arguments.
static CHECKS: phf::Set<&'static str> = phf::phf_set! {
    "pytest", "py.test", "tox", "nox", "jest", "vitest", "mocha", "ava", "cypress", "karma", "tsc",
    "vue-tsc", "eslint", "stylelint", "standard", "xo", "biome", "oxlint", "ruff", "flake8",
    "pylint", "mypy", "pyright", "basedpyright", "bandit", "pydocstyle", "pycodestyle", "rspec",
    "rubocop", "standardrb", "phpunit", "pest", "phpstan", "psalm", "phpcs", "prove", "ctest",
    "gcc", "g++", "cc", "c++", "clang", "clang++", "clang-tidy", "cppcheck", "rustc", "javac",
    "scalac", "kotlinc", "ghc", "swiftc", "ktlint", "detekt", "checkstyle", "shellcheck",
    "hadolint", "yamllint", "markdownlint", "golangci-lint", "staticcheck", "gofmt", "actionlint",
    "tflint", "sqlfluff", "buf", "protolint", "ansible-lint", "busted", "luacheck", "bats",
    "cargo-clippy", "cargo-nextest", "isort", "black", "prettier", "credo", "dialyzer",
    "make", "gmake", "ninja", "gradle", "gradlew", "mvn", "mvnw", "sbt", "xcodebuild", "msbuild",
    "turbo", "nx", "pre-commit",
};

/// Programs that run a check with one of these subcommands.
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

/// Programs that run the program that is their first operand, or the operand after a word such as
/// `exec`.
const RUNNERS: [&str; 11] =
    ["npx", "npm", "yarn", "pnpm", "bunx", "bundle", "poetry", "uv", "python", "python3", "uvx"];

/// Whether a program with these arguments runs a check.
pub(super) fn runs_check(name: &str, arguments: &[&str]) -> bool {
    let mut operands =
        arguments.iter().copied().filter(|word| !word.starts_with('-') || *word == "--build");
    if CHECKS.contains(name) {
        return true;
    }
    let first = operands.next().unwrap_or_default();
    if SUBCOMMANDS.iter().any(|(program, verbs)| *program == name && verbs.contains(&first)) {
        return true;
    }
    if !RUNNERS.contains(&name) {
        return false;
    }
    let is_check_module =
        |word: &str| CHECKS.contains(word) || matches!(word, "unittest" | "doctest");
    match first {
        // A script of package.json: its name says what it does.
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
