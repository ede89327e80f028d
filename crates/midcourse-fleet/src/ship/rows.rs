//! Rows in the binary format of Postgres' `COPY`, one after the other in memory, so that a thread can
//! prepare them while another one sends.

/// Rows of one table.
pub(super) struct Rows(Vec<u8>);

/// The object ids of the types of elements of arrays; they are the same in every Postgres.
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT4: u32 = 23;

/// What follows the last row.
pub(super) const END: [u8; 2] = (-1_i16).to_be_bytes();

impl Rows {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows as `COPY … FROM STDIN BINARY` reads them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Begins a row; each of its columns follows.
    pub(super) fn begin(&mut self, columns: u16) {
        if self.0.is_empty() {
            // The signature, no flags, and no extension of the header.
            self.0.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
            self.0.extend_from_slice(&[0; 8]);
        }
        self.0.extend_from_slice(&columns.to_be_bytes());
    }

    pub(super) fn null(&mut self) {
        self.0.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    pub(super) fn smallint(&mut self, value: i16) {
        self.bytea(&value.to_be_bytes());
    }

    pub(super) fn int(&mut self, value: i32) {
        self.bytea(&value.to_be_bytes());
    }

    /// Numbers that do not fit become the largest one.
    pub(super) fn unsigned_int(&mut self, value: u32) {
        self.int(i32::try_from(value).unwrap_or(i32::MAX));
    }

    /// Numbers that do not fit become the largest one.
    pub(super) fn bigint(&mut self, value: u64) {
        self.bytea(&i64::try_from(value).unwrap_or(i64::MAX).to_be_bytes());
    }

    pub(super) fn boolean(&mut self, value: Option<bool>) {
        match value {
            Some(value) => self.bytea(&[u8::from(value)]),
            None => self.null(),
        }
    }

    pub(super) fn text(&mut self, value: &str) {
        self.bytea(value.as_bytes());
    }

    pub(super) fn bytea(&mut self, value: &[u8]) {
        self.length(value.len());
        self.0.extend_from_slice(value);
    }

    pub(super) fn optional(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bytea(value),
            None => self.null(),
        }
    }

    /// A `jsonb` from its text.
    pub(super) fn jsonb(&mut self, text: Option<&str>) {
        /// The version of the binary format.
        const VERSION: u8 = 1;
        let Some(text) = text else { return self.null() };
        self.length(text.len().saturating_add(1));
        self.0.push(VERSION);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn bytea_array<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = &'v [u8]> + Clone,
    ) {
        self.array(BYTEA, values);
    }

    pub(super) fn int_array(&mut self, values: impl ExactSizeIterator<Item = i32> + Clone) {
        self.array(INT4, values.map(i32::to_be_bytes));
    }

    pub(super) fn bigint_array(&mut self, values: impl ExactSizeIterator<Item = i64> + Clone) {
        self.array(INT8, values.map(i64::to_be_bytes));
    }

    fn array(&mut self, of: u32, values: impl ExactSizeIterator<Item: AsRef<[u8]>> + Clone) {
        const HEADER: usize = 20;
        let size = values
            .clone()
            .fold(HEADER, |sum, value| sum.saturating_add(value.as_ref().len()).saturating_add(4));
        self.length(size);
        // One dimension without NULLs.
        self.0.extend_from_slice(&1_i32.to_be_bytes());
        self.0.extend_from_slice(&0_i32.to_be_bytes());
        self.0.extend_from_slice(&of.to_be_bytes());
        self.length(values.len());
        self.0.extend_from_slice(&1_i32.to_be_bytes());
        values.for_each(|value| self.bytea(value.as_ref()));
    }

    fn length(&mut self, length: usize) {
        // A batch is far smaller; a longer value would be refused by the server.
        self.0.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
    }
}
