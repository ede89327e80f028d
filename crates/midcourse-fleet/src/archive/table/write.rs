//! Writes rows to a Parquet file.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};

use super::Value;
use crate::archive::error::ArchiveError;
use crate::archive::schema::Table;

/// The level of zstd for the pages.
const LEVEL: i32 = 3;

/// Writes a table row by row. Rows are kept in memory until they fill a row group.
pub(in crate::archive) struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
    /// The bytes of the rows in `columns`.
    buffered: usize,
    max_buffered: usize,
}

/// The rows of one column that are not written yet.
struct Column {
    is_optional: bool,
    is_in_list: bool,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Values,
}

enum Values {
    Bool(Vec<bool>),
    Int64(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

impl<W: Write + Send> TableWriter<W> {
    /// `metadata` is written into the file as key and value pairs.
    pub(in crate::archive) fn new(
        to: W,
        table: Table,
        metadata: &[(&str, &str)],
        max_buffered: usize,
    ) -> Result<Self, ArchiveError> {
        let schema: TypePtr = Arc::new(table.schema()?);
        let file = SerializedFileWriter::new(to, schema, Arc::new(properties(table, metadata)?))?;
        let columns = file.schema_descr().columns().iter().map(|column| {
            use parquet::basic::Type;
            Ok(Column {
                is_optional: column.max_def_level() > 0 && column.max_rep_level() == 0,
                is_in_list: column.max_rep_level() > 0,
                definitions: Vec::new(),
                repetitions: Vec::new(),
                values: match column.physical_type() {
                    Type::BOOLEAN => Values::Bool(Vec::new()),
                    Type::INT64 => Values::Int64(Vec::new()),
                    Type::BYTE_ARRAY => Values::Bytes(Vec::new()),
                    _ => return Err(ArchiveError::Schema(column.path().string())),
                },
            })
        });
        let columns = columns.collect::<Result<_, ArchiveError>>()?;
        Ok(Self { file, columns, buffered: 0, max_buffered })
    }

    /// Adds a row: a value for each column, in the order of the schema. Returns its size.
    pub(in crate::archive) fn add(&mut self, row: Vec<Value>) -> Result<usize, ArchiveError> {
        if row.len() != self.columns.len() {
            return Err(ArchiveError::Schema(format!("a row of {} values", row.len())));
        }
        let mut size = 0_usize;
        for (column, value) in self.columns.iter_mut().zip(row) {
            size = size.saturating_add(value.size());
            column.add(value)?;
        }
        self.buffered = self.buffered.saturating_add(size);
        if self.buffered >= self.max_buffered {
            self.flush()?;
        }
        Ok(size)
    }

    /// Writes the rows in memory as a row group.
    fn flush(&mut self) -> Result<(), ArchiveError> {
        if self.buffered == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else {
                return Err(ArchiveError::Schema("a column that does not exist".to_owned()));
            };
            column.write(writer.untyped())?;
            writer.close()?;
        }
        group.close()?;
        self.buffered = 0;
        Ok(())
    }

    /// Writes what is left and the end of the file.
    pub(in crate::archive) fn finish(mut self) -> Result<W, ArchiveError> {
        self.flush()?;
        Ok(self.file.into_inner()?)
    }
}

impl Column {
    fn add(&mut self, value: Value) -> Result<(), ArchiveError> {
        if self.is_in_list {
            return self.add_list(value);
        }
        if self.is_optional {
            self.definitions.push(i16::from(value != Value::Null));
        }
        match (&mut self.values, value) {
            (_, Value::Null) if self.is_optional => {}
            (Values::Bool(values), Value::Bool(value)) => values.push(value),
            (Values::Int64(values), Value::Int(value)) => values.push(value),
            (Values::Bytes(values), Value::Bytes(value)) => values.push(value),
            _ => return Err(ArchiveError::Schema("a value of another type".to_owned())),
        }
        Ok(())
    }

    /// The lists and their elements are never null, so the levels only say where a list begins and
    /// whether it is empty.
    fn add_list(&mut self, value: Value) -> Result<(), ArchiveError> {
        let elements = match (&mut self.values, value) {
            (Values::Int64(values), Value::Ints(list)) => {
                let elements = list.len();
                values.extend(list);
                elements
            }
            (Values::Bytes(values), Value::ByteLists(list)) => {
                let elements = list.len();
                values.extend(list);
                elements
            }
            _ => return Err(ArchiveError::Schema("a value of another type".to_owned())),
        };
        self.definitions.push(i16::from(elements > 0));
        self.repetitions.push(0);
        for _ in 1..elements {
            self.definitions.push(1);
            self.repetitions.push(1);
        }
        Ok(())
    }

    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<(), ArchiveError> {
        let definitions = std::mem::take(&mut self.definitions);
        let repetitions = std::mem::take(&mut self.repetitions);
        let levels = (self.is_optional || self.is_in_list).then_some(definitions.as_slice());
        let levels = (levels, self.is_in_list.then_some(repetitions.as_slice()));
        match (&mut self.values, writer) {
            (Values::Bool(values), ColumnWriter::BoolColumnWriter(writer)) => {
                write_values::<BoolType>(writer, values, levels)
            }
            (Values::Int64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                write_values::<Int64Type>(writer, values, levels)
            }
            (Values::Bytes(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                write_values::<ByteArrayType>(writer, values, levels)
            }
            _ => Err(ArchiveError::Schema("a column of another type".to_owned())),
        }
    }
}

/// Definition and repetition levels.
type Levels<'a> = (Option<&'a [i16]>, Option<&'a [i16]>);

fn write_values<T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    values: &mut Vec<T::T>,
    (definitions, repetitions): Levels<'_>,
) -> Result<(), ArchiveError> {
    writer.write_batch(values, definitions, repetitions)?;
    values.clear();
    Ok(())
}

fn properties(table: Table, metadata: &[(&str, &str)]) -> Result<WriterProperties, ArchiveError> {
    let pairs =
        metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_created_by(format!("midcourse {}", env!("CARGO_PKG_VERSION")))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(pairs.collect()));
    for name in table.unique_columns() {
        let path = ColumnPath::from(*name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    for name in table.incompressible_columns() {
        let path = ColumnPath::from(*name);
        properties = properties.set_column_compression(path, Compression::UNCOMPRESSED);
    }
    Ok(properties.build())
}
