//! Quotes words for a POSIX shell, in commands that a host runs or a user copies.

/// Quotes `word` so that the shell reads it as one literal word.
pub(crate) fn shell_quote(word: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !word.is_empty() && word.chars().all(needs_no_quotes) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_quote;

    #[test]
    fn the_shell_reads_any_path_as_one_word() {
        assert_eq!(shell_quote("/usr/bin/midcourse"), "/usr/bin/midcourse");
        assert_eq!(shell_quote("/my tools/mid'course"), r"'/my tools/mid'\''course'");
        assert_eq!(shell_quote("/a$(rm -rf x)"), "'/a$(rm -rf x)'");
        assert_eq!(shell_quote(""), "''");
    }
}
