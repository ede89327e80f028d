//! Checks `docs/conformance.md`: every file and test that it names exists, and every requirement has
//! a test.

use std::fs;
use std::path::PathBuf;

/// The number of rows on the page, so that none gets lost by accident.
const REQUIREMENTS: usize = 191;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of all tables on the page without the heading rows, each as a list of cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let is_heading = |cells: &[&str]| matches!(cells.first(), Some(&"requirement" | &"---"));
    page.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| !is_heading(cells))
        .collect()
}

/// The parts of a text that are between backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_file_and_test_on_the_conformance_page_exists() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    for span in code_spans(&page).filter(|span| span.contains(".rs")) {
        let (file, test) = span.split_once("::").map_or((span, None), |(f, t)| (f, Some(t)));
        let source = fs::read_to_string(root().join("crates").join(file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        if let Some(test) = test {
            assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
        }
    }
}

#[test]
fn every_requirement_has_a_status_code_and_a_test() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let rows = rows(&page);
    assert_eq!(rows.len(), REQUIREMENTS);
    for row in rows {
        let [requirement, status, code, tests, note] = row[..] else {
            panic!("{} cells instead of 5: {row:?}", row.len());
        };
        assert!(matches!(status, "●" | "◐"), "{requirement}: {status}");
        assert!(status == "●" || !note.is_empty(), "{requirement}: say what is missing");
        assert!(code_spans(code).next().is_some(), "{requirement} names no file");
        assert!(code_spans(tests).any(|test| test.contains("::")), "{requirement} has no test");
    }
}
