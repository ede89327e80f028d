//! Tests of what `CommandView` reads from shell commands.

use super::*;
use proptest::prelude::*;

#[test]
fn the_command_that_ssh_runs_is_examined() {
    assert!(CommandView::of("ssh log-2 'rm -rf /var/crash'").writes);
    assert!(CommandView::of("ssh -q log-2 'df -h /var | tail -1'").only_reads);
    assert!(CommandView::of("ssh log-2 uname -r").only_reads);
    assert!(!CommandView::of("ssh log-2 ./deploy.sh").only_reads);
}

#[test]
fn commands_that_write_are_recognized() {
    for command in [
        "kubectl -n web patch virtualservice web --type merge -p x",
        "aws cloudformation create-stack --stack-name dr",
        "terraform -chdir=x apply",
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
fn flags_and_redirections_do_not_change_the_normalized_command() {
    let same = |a: &str, b: &str| CommandView::of(a).normalized == CommandView::of(b).normalized;
    for (a, b) in [
        ("cargo test", "cargo test 2>&1 | tail -20"),
        ("cd /app && make", "make"),
        ("grep -rn \"foo\" src", "grep -n -r 'foo' ./src/"),
        ("pytest -q", "pytest -q -x"),
    ] {
        assert!(same(a, b), "{a} should equal {b}");
    }
    for (a, b) in [
        ("cat a.rs", "cat b.rs"),
        ("head -n 10 a", "head -n 20 a"),
        ("run --only=a", "run --only=b"),
        ("grep foo src", "grep bar src"),
        ("make a && make b", "make b && make a"),
        ("FOO=1 make", "FOO=2 make"),
    ] {
        assert!(!same(a, b), "{a} should differ from {b}");
    }
}

#[test]
fn search_terms_and_shown_lines_are_read() {
    let search_term = |command| CommandView::of(command).search_term;
    assert_eq!(search_term("grep -rn \"fn main\" src/"), Some("fn main"));
    assert_eq!(search_term("find . -type f -name '*.toml'"), Some("*.toml"));
    assert_eq!(search_term("git grep TODO"), Some("TODO"));
    assert_eq!(search_term("git log --oneline --grep=csv"), Some("--grep=csv"));
    assert_eq!(search_term("git log --oneline"), None);
    assert_eq!(search_term("cat x | grep y"), Some("y"));
    assert_eq!(search_term("cat x | grep -v y"), None);
    assert_eq!(search_term("make | grep y"), None, "runs more than a search");
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
fn waiting_printing_and_other_commands_are_recognized() {
    assert!(CommandView::of("sleep 5; curl x").waits);
    assert!(CommandView::of("echo thinking; true").only_prints);
    assert!(!CommandView::of("echo x > f").only_prints);
    assert!(CommandView::of("# let me think about it").only_prints);
    assert!(CommandView::of("").only_prints);
    assert!(!CommandView::of("cd src").only_prints);
    assert!(CommandView::of("date +%S").prints_clock);
    assert!(!CommandView::of("date; make").prints_clock);
    assert!(CommandView::of("cargo bench -- parse").is_benchmark);
    assert!(CommandView::of("npm run gen 2>&1 | tail -5").hides_failure);
    assert!(CommandView::of("npm run gen || true").hides_failure);
    assert!(!CommandView::of("npm run gen && npm test").hides_failure);
    assert!(CommandView::of("ps aux | grep node").lists_processes);
    assert!(!CommandView::of("ps aux | grep -c node").lists_processes);
    assert!(!CommandView::of("ps aux | wc -l").lists_processes);
    assert!(!CommandView::of("git config user.name x").only_reads);
    assert!(CommandView::of("git checkout -- a.rs").reverts);
    assert!(!CommandView::of("git checkout -b topic").reverts);
}

proptest! {
    #[test]
    fn reading_never_panics(command in "[ -~é\n]{0,200}") {
        CommandView::of(&command);
    }
}
