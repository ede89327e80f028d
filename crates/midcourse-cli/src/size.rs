//! Parses sizes as people write them: `500 MB`, `2GB`.

/// The smallest size that makes sense for a store, in bytes.
const MIN_SIZE: u64 = 1_000_000;

/// Parses a size in megabytes or gigabytes; `None` for any other text and for sizes below 1 MB.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(at)?;
    let unit = match unit.trim().to_ascii_uppercase().as_str() {
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|size| *size >= MIN_SIZE)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse_size("500 MB"), Some(500_000_000));
        assert_eq!(parse_size("2gb"), Some(2_000_000_000));
        for invalid in ["", "5", "MB", "0 MB", "1.5 GB", "-1 GB", "9 TB", "99999999999999 GB"] {
            assert_eq!(parse_size(invalid), None, "{invalid}");
        }
    }
}
