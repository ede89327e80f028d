//! Finds the paths in a file that begin at the crate's root: `crate::…`, and `super::…` with
//! enough `super`s to reach the root.

use crate::tokens::{Token, tokens};

/// A path that begins at the crate's root: the first name after `crate::` or after the `super`s,
/// and the line that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootPath {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// A `name` that the crate's root file imports, and the module or crate that it comes `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReExport {
    pub(crate) name: String,
    pub(crate) from: String,
}

/// The paths and test modules that were found in a file.
#[derive(Debug, Default)]
pub(crate) struct FilePaths {
    pub(crate) root_paths: Vec<RootPath>,
    /// Modules that have their own file and are compiled for tests only.
    pub(crate) test_modules: Vec<String>,
}

/// Reads a file that is `depth` modules below the root: 1 for `a.rs`, 2 for `a/b.rs`.
pub(crate) fn read_paths(text: &str, depth: usize) -> FilePaths {
    let tokens = tokens(text);
    let mut found = FilePaths::default();
    // The inline modules `mod x { … }` around the position, each with the number of open braces
    // before it.
    let (mut inline, mut braces) = (Vec::new(), 0_usize);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is_test_attribute(&tokens, at) {
            at = skip_test_item(&tokens, at, &mut found.test_modules);
            continue;
        }
        match token.text {
            "{" => {
                if text_at(&tokens, at.wrapping_sub(2)) == "mod" {
                    inline.push(braces);
                }
                braces += 1;
            }
            "}" => {
                braces = braces.saturating_sub(1);
                inline.pop_if(|before| *before == braces);
            }
            "crate" if text_at(&tokens, at + 1) == "::" => {
                first_names(&tokens, at + 2, &mut found.root_paths);
            }
            "super" if text_at(&tokens, at.wrapping_sub(1)) != "::" => {
                let mut next = at;
                while text_at(&tokens, next) == "super" && text_at(&tokens, next + 1) == "::" {
                    next += 2;
                }
                if (next - at) / 2 == depth + inline.len() {
                    first_names(&tokens, next, &mut found.root_paths);
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

fn is_test_attribute(tokens: &[Token<'_>], at: usize) -> bool {
    ["#", "[", "cfg", "(", "test", ")", "]"]
        .iter()
        .enumerate()
        .all(|(offset, expected)| text_at(tokens, at + offset) == *expected)
}

/// Skips an item that is compiled for tests only, and returns the position after it. If the item is
/// `mod name;`, adds the name to `test_modules`.
fn skip_test_item(tokens: &[Token<'_>], at: usize, test_modules: &mut Vec<String>) -> usize {
    let mut depth = 0_usize;
    let begin = at + 7;
    if text_at(tokens, begin) == "mod" && text_at(tokens, begin + 2) == ";" {
        test_modules.push(text_at(tokens, begin + 1).to_owned());
    }
    for next in begin..tokens.len() {
        match text_at(tokens, next) {
            "{" => depth += 1,
            "}" if depth <= 1 => return next + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return next + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Adds the first name of the path at a position to `found`; if a group `{…}` starts there, the
/// first name of each of its paths.
fn first_names(tokens: &[Token<'_>], at: usize, found: &mut Vec<RootPath>) {
    let mut note = |token: &Token<'_>| {
        if token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            found.push(RootPath { name: token.text.to_owned(), line: token.line });
        }
    };
    for item in group_items(tokens, at) {
        if let Some(token) = tokens.get(item) {
            note(token);
        }
    }
}

/// The positions at which the paths of a `use` group begin; only `at` if there is no group at `at`.
fn group_items(tokens: &[Token<'_>], at: usize) -> Vec<usize> {
    if text_at(tokens, at) != "{" {
        return vec![at];
    }
    let (mut depth, mut items, mut is_first) = (0_usize, Vec::new(), false);
    for next in at..tokens.len() {
        match text_at(tokens, next) {
            "{" => {
                depth += 1;
                is_first = depth == 1;
            }
            "}" if depth <= 1 => break,
            "}" => depth -= 1,
            "," if depth == 1 => is_first = true,
            _ if is_first => {
                items.push(next);
                is_first = false;
            }
            _ => {}
        }
    }
    items
}

/// The names that a root file imports, with the module or crate that each comes from. Imports that
/// are not `pub` count too: inside the crate, their names are also reachable as `crate::NAME`.
pub(crate) fn read_re_exports(text: &str) -> Vec<ReExport> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if text_at(&tokens, at) == "use" {
            let first = if text_at(&tokens, at + 1) == "crate" { at + 3 } else { at + 1 };
            for item in group_items(&tokens, first) {
                let from = text_at(&tokens, item);
                let names = leaf_names(&tokens, item);
                found
                    .extend(names.into_iter().map(|name| ReExport { name, from: from.to_owned() }));
            }
        }
    }
    found
}

/// The names that one path of a `use` brings into scope.
fn leaf_names(tokens: &[Token<'_>], at: usize) -> Vec<String> {
    let (mut next, mut last) = (at, String::new());
    loop {
        match text_at(tokens, next) {
            "{" => {
                let items = group_items(tokens, next);
                return items.into_iter().flat_map(|item| leaf_names(tokens, item)).collect();
            }
            "" | "," | ";" | "}" => return vec![last],
            "::" | "as" => {}
            name => name.clone_into(&mut last),
        }
        next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{read_paths, read_re_exports};

    fn names(text: &str, depth: usize) -> String {
        let found = read_paths(text, depth).root_paths;
        found.into_iter().map(|path| path.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn paths_from_the_root_are_found_in_all_their_forms() {
        let text = "
            use crate::a::{self, X};
            use crate::{b, c::{d, e}, Name};
            fn f() -> crate::g::H { $crate::h!() }
        ";
        assert_eq!(names(text, 1), "a b c Name g h");
    }

    #[test]
    fn super_counts_only_if_it_reaches_the_root() {
        let text =
            "use super::a; use super::super::b; mod inner { use super::super::c; use super::d; }";
        assert_eq!(names(text, 1), "a c");
        assert_eq!(names(text, 2), "b");
    }

    #[test]
    fn test_modules_are_skipped() {
        let text = "#[cfg(test)] mod check; #[cfg(test)] mod tests { use crate::a; fn f() {} } use crate::b;";
        assert_eq!(names(text, 1), "b");
        assert_eq!(read_paths(text, 1).test_modules, ["check"]);
    }

    #[test]
    fn a_re_export_knows_its_module() {
        let text = "pub use a::{B, c::{D as E, f}}; pub use g::h::I; pub use other::*;";
        let found = read_re_exports(text);
        let pairs: Vec<_> =
            found.iter().map(|each| (each.name.as_str(), each.from.as_str())).collect();
        assert_eq!(pairs, [("B", "a"), ("E", "a"), ("f", "a"), ("I", "g"), ("*", "other")]);
    }
}
