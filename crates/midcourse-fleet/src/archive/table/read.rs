//! Reads rows of a Parquet file.

use std::collections::VecDeque;
use std::fs::File;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;

use super::Value;
use crate::archive::error::ArchiveError;

/// How many rows are read at once.
const BATCH: usize = 64;

/// Reads some columns of a table, row by row, in the order of the file.
pub(in crate::archive) struct TableReader {
    file: SerializedFileReader<File>,
    columns: Vec<Column>,
    /// The row group from which the columns are read next, after the present one.
    next_group: usize,
    /// Rows of the present row group that are not read yet.
    left: usize,
}

struct Column {
    /// The index of the column in the file.
    index: usize,
    is_optional: bool,
    is_in_list: bool,
    reader: Option<ColumnReader>,
    rows: VecDeque<Value>,
}

impl TableReader {
    /// Reads the columns with these paths. Fails if one is missing.
    pub(in crate::archive) fn new(file: File, columns: &[&str]) -> Result<Self, ArchiveError> {
        let file = SerializedFileReader::new(file)?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let find = |name: &&str| {
            let found = schema.columns().iter().enumerate();
            let mut found = found.filter(|(_, column)| column.path().string() == **name);
            let (index, column) =
                found.next().ok_or_else(|| ArchiveError::damaged(format!("no column {name}")))?;
            Ok(Column {
                index,
                is_optional: column.max_def_level() > 0 && column.max_rep_level() == 0,
                is_in_list: column.max_rep_level() > 0,
                reader: None,
                rows: VecDeque::new(),
            })
        };
        let columns = columns.iter().map(find).collect::<Result<_, ArchiveError>>()?;
        Ok(Self { file, columns, next_group: 0, left: 0 })
    }

    /// The next row: a value for each column that was asked for. `None` after the last row.
    pub(in crate::archive) fn next_row(&mut self) -> Result<Option<Vec<Value>>, ArchiveError> {
        while self.left == 0 {
            if self.next_group >= self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.next_group)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
            for column in &mut self.columns {
                column.reader = Some(group.get_column_reader(column.index)?);
            }
            self.next_group = self.next_group.saturating_add(1);
            self.left = rows;
        }
        self.left = self.left.saturating_sub(1);
        self.columns.iter_mut().map(Column::next).collect::<Result<_, _>>().map(Some)
    }
}

impl Column {
    fn next(&mut self) -> Result<Value, ArchiveError> {
        if self.rows.is_empty() {
            self.read()?;
        }
        let short = || ArchiveError::damaged("a column is shorter than the others".to_owned());
        self.rows.pop_front().ok_or_else(short)
    }

    fn read(&mut self) -> Result<(), ArchiveError> {
        let (is_optional, is_in_list) = (self.is_optional, self.is_in_list);
        let rows = match &mut self.reader {
            Some(ColumnReader::BoolColumnReader(reader)) => {
                let read = Batch::read(reader)?;
                read.rows(is_optional, is_in_list, Value::Bool, |_| Value::Null)
            }
            Some(ColumnReader::Int64ColumnReader(reader)) => {
                Batch::read(reader)?.rows(is_optional, is_in_list, Value::Int, Value::Ints)
            }
            Some(ColumnReader::ByteArrayColumnReader(reader)) => {
                let read: Batch<ByteArray> = Batch::read(reader)?;
                read.rows(is_optional, is_in_list, Value::Bytes, Value::ByteLists)
            }
            _ => return Err(ArchiveError::damaged("a column of another type".to_owned())),
        };
        self.rows.extend(rows);
        Ok(())
    }
}

/// Values of a column, with their levels if it has any.
struct Batch<T> {
    records: usize,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<T>,
}

impl<T> Batch<T> {
    fn read<D: DataType<T = T>>(reader: &mut ColumnReaderImpl<D>) -> Result<Self, ArchiveError> {
        let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
        let mut values = Vec::new();
        let (records, _, _) = reader.read_records(
            BATCH,
            Some(&mut definitions),
            Some(&mut repetitions),
            &mut values,
        )?;
        Ok(Self { records, definitions, repetitions, values })
    }

    fn rows(
        self,
        is_optional: bool,
        is_in_list: bool,
        one: impl Fn(T) -> Value,
        list: impl Fn(Vec<T>) -> Value,
    ) -> Vec<Value> {
        let mut values = self.values.into_iter();
        if !is_optional && !is_in_list {
            return values.take(self.records).map(one).collect();
        }
        if !is_in_list {
            let row = |defined: &i16| match defined {
                0 => Some(Value::Null),
                _ => values.next().map(&one),
            };
            return self.definitions.iter().map_while(row).collect();
        }
        let mut rows: Vec<Vec<T>> = Vec::new();
        for (defined, repeated) in self.definitions.iter().zip(&self.repetitions) {
            if *repeated == 0 {
                rows.push(Vec::new());
            }
            if *defined > 0
                && let (Some(row), Some(value)) = (rows.last_mut(), values.next())
            {
                row.push(value);
            }
        }
        rows.into_iter().map(list).collect()
    }
}
