//! Prints the import table of a crate: `cargo run -p tidy --example imports crates/midcourse`.

use std::path::PathBuf;

use tidy::ModuleGraph;

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() {
    for folder in std::env::args().skip(1).map(PathBuf::from) {
        match ModuleGraph::of_crate(&folder).and_then(|graph| graph.table()) {
            Ok(table) => println!("{table}"),
            Err(problem) => println!("{}: {problem}", folder.display()),
        }
    }
}
