//! Words as a shell reads them: for commands that somebody else runs, or types.

/// A word of a shell that means nothing but itself.
pub fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::in_shell;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        assert_eq!(in_shell("/usr/bin/midcourse"), "/usr/bin/midcourse");
        assert_eq!(in_shell("/my tools/mid'course"), r"'/my tools/mid'\''course'");
        assert_eq!(in_shell("/a$(rm -rf x)"), "'/a$(rm -rf x)'");
        assert_eq!(in_shell(""), "''");
    }
}
