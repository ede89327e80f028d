//! Diffs from arguments and patches, as hosts write them.

use serde_json::{Value, json};

use super::{FileDiff, of_arguments, of_unified_diff};

fn lines(file: &FileDiff) -> Vec<String> {
    file.lines.iter().map(|(sign, text)| format!("{sign}{text}")).collect()
}

fn files(tool: &str, args: &Value, details: Option<&Value>) -> Vec<(Option<String>, Vec<String>)> {
    let found = of_arguments(tool, args.as_object().unwrap(), details, 1_000);
    let files = found.map(|found| found.files).unwrap_or_default();
    files.iter().map(|file| (file.path.clone(), lines(file))).collect()
}

#[test]
fn an_edit_is_a_diff_whatever_the_host_calls_its_arguments() {
    for (tool, path, old, new) in [
        ("Edit", "file_path", "old_string", "new_string"),
        ("edit", "filePath", "oldString", "newString"),
        ("str_replace_editor", "path", "old_str", "new_str"),
    ] {
        let args = json!({path: "src/a.rs", old: "one\ntwo\nthree\n", new: "one\n2\nthree\n"});
        let expected = [" one", "-two", "+2", " three"].map(ToOwned::to_owned).to_vec();
        assert_eq!(files(tool, &args, None), [(Some("src/a.rs".to_owned()), expected)]);
    }
    let edits =
        json!([{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]);
    let found = files("MultiEdit", &json!({"file_path": "x", "edits": edits}), None);
    assert_eq!(found[0].1, ["@edit 1 of 2", "-a", "+b", "@edit 2 of 2", "+c"]);
}

#[test]
fn a_written_file_is_all_new_unless_the_host_says_what_changed() {
    let args = json!({"file_path": "w.txt", "content": "a\n\nb"});
    assert_eq!(files("Write", &args, None)[0].1, ["+a", "+", "+b"]);
    let details = json!({"structuredPatch": [{"oldStart": 1, "oldLines": 2, "newStart": 1,
        "newLines": 3, "lines": [" a", "-x", "+", "+b", "\\ No newline at end of file"]}]});
    let found = files("Write", &args, Some(&details));
    let expected = ["@@@ -1,2 +1,3 @@", " a", "-x", "+", "+b", "@\\ No newline at end of file"];
    assert_eq!(found[0].1, expected);
    // Other tools may have an argument of this name, too.
    assert!(files("remember", &args, None).is_empty());
    assert!(files("Bash", &json!({"command": "diff a b"}), None).is_empty());
}

#[test]
fn a_patch_of_codex_has_a_diff_per_file() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** Update File: a.rs\n*** Move to: b.rs\n\
                 @@ fn main\n x\n-y\n+z\n*** Delete File: old.txt\n*** End Patch\nEOF";
    let shell = format!("apply_patch <<'EOF'\n{patch}");
    for args in [
        json!({"command": patch}),
        json!({"input": patch}),
        json!({"command": ["apply_patch", patch]}),
        json!({"cmd": shell}),
    ] {
        let found = files("apply_patch", &args, None);
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_deref().unwrap()).collect();
        assert_eq!(paths, ["new.txt", "a.rs", "old.txt"]);
        assert_eq!(found[0].1, ["+hi"]);
        assert_eq!(found[1].1, ["@moved to b.rs", "@@@ fn main", " x", "-y", "+z"]);
    }
}

#[test]
fn a_unified_diff_in_a_text_is_found() {
    let text = "commit 1\n\n    Fix it\n\ndiff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n\
                +++ b/x.rs\n@@ -1,3 +1,2 @@ fn f\n a\n--- removed\n b\n\
                diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+q\n";
    let (before, files) = of_unified_diff(text, 1_000).unwrap();
    assert_eq!(before, "commit 1\n\n    Fix it\n\n");
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!((files[0].path.as_deref(), files[1].path.as_deref()), (Some("x.rs"), Some("y")));
    assert_eq!(lines(&files[0])[2..], [" a", "--- removed", " b"]);
    assert_eq!(lines(&files[1]), ["@new file mode 100644", "@@@ -0,0 +1 @@", "+q"]);
    let plain = "--- old.txt\t2026-01-01\n+++ new.txt\t2026-01-01\n@@ -1 +1 @@\n-a\n+b\n";
    let (_, files) = of_unified_diff(plain, 1_000).unwrap();
    assert_eq!(files[0].path.as_deref(), Some("new.txt"));
    assert_eq!(of_unified_diff("--- a list\n- one\n- two\n", 1_000), None);
}

#[test]
fn a_long_diff_is_cut() {
    let (old, new) = ("a\n".repeat(10_000), "b\n".repeat(10_000));
    let found = super::of_texts(&old, &new, 100);
    assert!(found.is_cut && found.lines.len() == 100 && found.length == 40_000);
    let patch = format!("--- a\n+++ b\n@@ -0,0 +1,9999 @@\n{}", "+x\n".repeat(9_999));
    let (_, files) = of_unified_diff(&patch, 100).unwrap();
    assert!(files[0].is_cut && files[0].lines.len() < 60);
}
