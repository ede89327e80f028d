//! Tables as Parquet files: rows of values in, rows of values out.
//!
//! [`TableWriter`] and [`TableReader`] use the column interface of the crate `parquet`, one row group
//! at a time, so that memory stays bounded however long a table is. What the columns mean is decided
//! in `schema` and `rows`.

mod read;
mod write;

use parquet::data_type::ByteArray;

pub(super) use read::TableReader;
pub(super) use write::TableWriter;

/// The value of one column in one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Bytes(ByteArray),
    /// All elements of a list, for a column inside of it.
    Ints(Vec<i64>),
    ByteLists(Vec<ByteArray>),
}

impl Value {
    pub(super) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(ByteArray::from(bytes.to_vec()))
    }

    pub(super) fn text(text: &str) -> Self {
        Self::bytes(text.as_bytes())
    }

    pub(super) fn optional_text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// About how many bytes the value takes in memory.
    fn size(&self) -> usize {
        const EACH: usize = 8;
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) => EACH,
            Self::Bytes(bytes) => bytes.len().saturating_add(EACH),
            Self::Ints(list) => list.len().saturating_mul(EACH),
            Self::ByteLists(list) => {
                list.iter().map(|bytes| bytes.len().saturating_add(EACH)).sum::<usize>()
            }
        }
    }
}
