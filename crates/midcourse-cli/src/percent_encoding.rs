//! Decodes percent-encoded texts, such as credentials in a URL or headers in an environment variable.

/// Decodes `%20` and the like. A `%` that is not followed by two hexadecimal digits stays as it is.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = byte.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn only_two_hexadecimal_digits_are_decoded() {
        assert_eq!(percent_decoded("a%20b%2Fc"), b"a b/c");
        assert_eq!(percent_decoded("100%"), b"100%");
        assert_eq!(percent_decoded("%zz%4"), b"%zz%4");
    }
}
