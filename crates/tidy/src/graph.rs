//! The graph of a crate's top-level modules: which uses which, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::paths::{ReExport, read_paths, read_re_exports};
use crate::{SourceFile, rust_files};

/// Where one module first uses another, as `file:line`.
type Place = String;

/// Which top-level module of a crate uses which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleGraph {
    imports: BTreeMap<String, BTreeMap<String, Place>>,
}

impl ModuleGraph {
    /// Reads the modules of the crate in this folder.
    pub fn of_crate(crate_folder: &Path) -> Result<Self, String> {
        rust_files(&crate_folder.join("src")).map(|files| Self::of_files(&files))
    }

    /// Reads the modules in these files, whose paths begin below `src`.
    pub fn of_files(files: &[SourceFile]) -> Self {
        let re_exports: Vec<ReExport> = files
            .iter()
            .filter(|file| is_root(&file.path))
            .flat_map(|file| read_re_exports(&file.text))
            .collect();
        let read: Vec<_> = files
            .iter()
            .filter(|file| !is_root(&file.path))
            .map(|file| (file, read_paths(&file.text, module_path(&file.path).len())))
            .collect();
        let tests: BTreeSet<String> = read
            .iter()
            .flat_map(|(file, paths)| {
                let folder = module_path(&file.path).join("/");
                paths.test_modules.iter().map(move |module| format!("{folder}/{module}"))
            })
            .collect();
        let mut imports: BTreeMap<String, BTreeMap<String, Place>> =
            read.iter().map(|(file, _)| (top(&file.path), BTreeMap::new())).collect();
        let modules: BTreeSet<String> = imports.keys().cloned().collect();
        for (file, paths) in read {
            let module = module_path(&file.path).join("/");
            if tests.iter().any(|test| format!("{module}/").starts_with(&format!("{test}/"))) {
                continue;
            }
            let user = top(&file.path);
            for path in paths.root_paths {
                let re_export = re_exports.iter().find(|known| known.name == path.name);
                let used = match re_export {
                    _ if modules.contains(&path.name) => path.name,
                    Some(ReExport { from, .. }) if modules.contains(from) => from.clone(),
                    // This is another crate, or an item that the root itself defines.
                    _ => continue,
                };
                if used != user {
                    let place = format!("src/{}:{}", file.path, path.line);
                    imports.entry(user.clone()).or_default().entry(used).or_insert(place);
                }
            }
        }
        Self { imports }
    }

    /// The modules that this module uses.
    pub fn imports_of(&self, module: &str) -> impl Iterator<Item = &str> {
        self.imports.get(module).into_iter().flat_map(|used| used.keys().map(String::as_str))
    }

    /// Fails if there is an import cycle between modules; the error shows one cycle.
    pub fn check_acyclic(&self) -> Result<(), String> {
        self.layers().map(drop)
    }

    /// Compares the graph with the table of this crate in a Markdown text. The table follows a line
    /// `<!-- imports of NAME -->`; the error contains the correct table.
    pub fn check_table(&self, crate_name: &str, markdown: &str) -> Result<(), String> {
        let real = self.table()?;
        let marker = format!("<!-- imports of {crate_name} -->");
        let written = markdown.split_once(&marker).map(|(_, rest)| {
            let rows = rest.trim_start().lines().take_while(|line| line.starts_with('|'));
            rows.map(|row| format!("{row}\n")).collect::<String>()
        });
        match written {
            Some(written) if written == real => Ok(()),
            Some(_) => Err(format!(
                "the import table of {crate_name} is out of date. If the new imports are \
                 intended, replace it with:\n\n{marker}\n\n{real}"
            )),
            None => Err(format!("there is no import table; add:\n\n{marker}\n\n{real}")),
        }
    }

    /// The graph as a Markdown table. Each module is below the modules that use it.
    pub fn table(&self) -> Result<String, String> {
        let mut table = "| module | uses |\n|---|---|\n".to_owned();
        for module in self.layers()?.into_iter().rev() {
            let used: Vec<String> =
                self.imports_of(module).map(|used| format!("`{used}`")).collect();
            let used = if used.is_empty() { "–".to_owned() } else { used.join(", ") };
            table.push_str(&format!("| `{module}` | {used} |\n"));
        }
        Ok(table)
    }

    /// Sorts the modules so that each comes after all modules that it uses. Fails if there is an
    /// import cycle.
    fn layers(&self) -> Result<Vec<&str>, String> {
        let mut placed: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = self.imports.keys().map(String::as_str).collect();
        while !open.is_empty() {
            let (ready, waiting): (Vec<_>, Vec<_>) = open
                .iter()
                .partition(|module| self.imports_of(module).all(|used| placed.contains(&used)));
            if ready.is_empty() {
                return Err(self.describe_cycle(&waiting));
            }
            placed.extend(ready);
            open = waiting;
        }
        Ok(placed)
    }

    /// Describes one import cycle; each of `modules` must use another one of them.
    fn describe_cycle(&self, modules: &[&str]) -> String {
        let mut path: Vec<&str> = Vec::new();
        let mut next = modules.first().copied();
        while let Some(module) = next {
            if let Some(begin) = path.iter().position(|known| *known == module) {
                path.drain(..begin);
                path.push(module);
                break;
            }
            path.push(module);
            next = self.imports_of(module).find(|used| modules.contains(used));
        }
        let place = |user: &str, used: &str| {
            let place = self.imports.get(user).and_then(|imports| imports.get(used));
            place.map_or("", String::as_str)
        };
        let steps = path.windows(2).filter_map(|pair| match pair {
            [user, used] => Some(format!("  {user} uses {used} in {}", place(user, used))),
            _ => None,
        });
        let steps: Vec<String> = steps.collect();
        format!("import cycle between modules:\n{}", steps.join("\n"))
    }
}

fn is_root(path: &str) -> bool {
    path == "lib.rs" || path == "main.rs"
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `[a, b]`.
fn module_path(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    parts.pop_if(|last| *last == "mod");
    parts
}

fn top(path: &str) -> String {
    module_path(path).first().copied().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::ModuleGraph;
    use crate::SourceFile;

    fn graph(files: &[(&str, &str)]) -> ModuleGraph {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        ModuleGraph::of_files(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn a_cycle_is_shown_with_the_places_that_make_it() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; pub use c::Thing;"),
            ("a.rs", "use crate::b::X;"),
            ("b.rs", ""),
            ("b/inner.rs", "\nuse crate::Thing;"),
            ("c.rs", "use super::b;"),
        ]);
        assert_eq!(
            graph.check_acyclic().unwrap_err(),
            "import cycle between modules:\n  b uses c in src/b/inner.rs:2\n  c uses b in \
             src/c.rs:1"
        );
    }

    #[test]
    fn the_table_has_users_above_what_they_use() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; pub use other::Name;"),
            ("a.rs", "use crate::{b, c}; use crate::Name;"),
            ("b.rs", "use crate::c; #[cfg(test)] mod check;"),
            ("b/check.rs", "use crate::a;"),
            ("c.rs", "#[cfg(test)] mod tests { use crate::a; }"),
        ]);
        let table =
            "| module | uses |\n|---|---|\n| `a` | `b`, `c` |\n| `b` | `c` |\n| `c` | – |\n";
        assert_eq!(graph.table().unwrap(), table);
        let page = format!("Text.\n\n<!-- imports of x -->\n\n{table}\nMore text.");
        assert_eq!(graph.check_table("x", &page), Ok(()));
        assert!(graph.check_table("x", &page.replace("| `b` | `c` |\n", "")).is_err());
        assert!(graph.check_table("y", &page).unwrap_err().contains("add:"));
    }
}
