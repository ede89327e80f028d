//! Shares (such as 3 of 10) and medians, for the tables and the JSON output of commands.

/// A part and its total, such as `(3, 10)` for 3 of 10.
pub(super) type Share = (usize, usize);

/// Formats a share in whole percent, or as a dash if there is none.
pub(super) fn format_share(share: Option<Share>) -> String {
    match share {
        None => "–".to_owned(),
        Some((part, total)) => format!("{} %", (part * 100 + total / 2) / total.max(1)),
    }
}

/// The share `part` of `total`; `None` if the total is zero.
pub(super) const fn share_of(part: usize, total: usize) -> Option<Share> {
    if total > 0 { Some((part, total)) } else { None }
}

/// The share in percent, unrounded.
#[expect(clippy::cast_precision_loss, reason = "counts of runs and scenarios are far below 2^52")]
pub(super) fn percent((part, total): Share) -> f64 {
    part as f64 * 100.0 / total.max(1) as f64
}

/// The median of the values; `None` if there are no values. If the number of values is even, this
/// is the larger of the two middle values.
pub(super) fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
