"""Finds the packages in the binary `midcourse` for Linux on x86-64, from Cargo.lock.

These are the normal dependencies of midcourse-cli with the features of a release. Packages that only run
while midcourse is built or tested (build scripts, procedural macros, tests) are not in a binary.
"""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"

# Features of midcourse-cli that a release has besides the default ones, as in scripts/release.
FEATURES = "midcourse-cli/archive"


def packages():
    """The packages in the binary, as `cargo metadata` describes them, sorted by name and version."""
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET,
         "--features", FEATURES],
        cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    by_id = {package["id"]: package for package in metadata["packages"]}
    # `cargo metadata` unites the features of all crates of the workspace. The tree has those of the
    # command alone.
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "--package", "midcourse-cli", "--features", FEATURES, "--edges",
         "normal,no-proc-macro", "--target", TARGET, "--prefix", "none", "--format", "{p}"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    wanted = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    found = [package for package in by_id.values()
             if package["source"] and (package["name"], "v" + package["version"]) in wanted]
    return sorted(found, key=lambda package: (package["name"], package["version"]))
