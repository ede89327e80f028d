//! Runs, records and reports as rows of the tables, and back.

use midcourse::{ChainBody, ChainRecord, ChainReport, Link, RunHeader, Timestamp};
use parquet::data_type::ByteArray;
use serde::Deserialize;

use super::error::ArchiveError;
use super::table::Value;
use super::texts::readable_text;

/// The columns of `runs` from which a header is read. The others repeat what it contains.
pub(super) const RUN_COLUMNS: [&str; 2] = ["run_id", "header"];

/// The columns of `records` from which a record is read.
pub(super) const RECORD_COLUMNS: [&str; 17] = [
    "run_id",
    "seq",
    "recorded_at",
    "kind",
    "fact",
    "host",
    "channel",
    "decision_point",
    "schema_version",
    "redactions",
    "failed",
    "payload",
    "link",
    "texts.list.element.text_id",
    "texts.list.element.pointer",
    "texts.list.element.hash",
    "texts.list.element.length",
];

/// The columns of `reports` from which a report is read.
pub(super) const REPORT_COLUMNS: [&str; 11] = [
    "run_id",
    "ordinal",
    "seq",
    "after",
    "recorded_at",
    "host",
    "channel",
    "status",
    "hash",
    "zstd",
    "link",
];

/// The columns of `bodies` from which a text is read.
pub(super) const BODY_COLUMNS: [&str; 2] = ["text_id", "zstd"];

pub(super) fn run_row(part: &str, header: &RunHeader) -> Result<Vec<Value>, ArchiveError> {
    let run = header.summary();
    let text = |text: &Option<String>| Value::optional_text(text.as_deref());
    let tokens = |count: fn(&midcourse::Usage) -> i64| {
        run.tokens.as_ref().map_or(Value::Null, |usage| Value::Int(count(usage)))
    };
    let json = serde_json::to_string(header);
    let json = json.map_err(|error| ArchiveError::Schema(format!("a header ({error})")))?;
    Ok(vec![
        Value::text(part),
        Value::text(run.run_id.as_str()),
        Value::optional_text(run.parent_run_id.as_ref().map(|parent| parent.as_str())),
        text(&header.conversation_id),
        number(header.depth)?,
        Value::text(&run.host),
        text(&run.host_version),
        time(run.started)?,
        time(run.latest)?,
        run.ended.map_or(Ok(Value::Null), time)?,
        text(&run.outcome),
        number(run.records)?,
        number(header.reports)?,
        number(run.calls)?,
        number(header.open_calls)?,
        number(run.errors)?,
        number(run.deliveries)?,
        text(&run.task),
        text(&run.folder),
        text(&run.command),
        text(&run.model),
        run.exit_code.map_or(Value::Null, Value::Int),
        tokens(|usage| usage.input_tokens),
        tokens(|usage| usage.output_tokens),
        tokens(|usage| usage.cache_creation_input_tokens),
        tokens(|usage| usage.cache_read_input_tokens),
        run.tokens.as_ref().map_or(Value::Null, |usage| Value::Bool(usage.is_estimate)),
        run.cost.map_or(Ok(Value::Null), |cost| number(cost.get()))?,
        Value::bytes(header.link.as_bytes()),
        Value::text(&json),
    ])
}

/// `texts` are the ids of the record's long texts in the table `bodies`, in their order.
pub(super) fn record_row(
    part: &str,
    run_id: &str,
    record: ChainRecord,
    texts: Vec<i64>,
) -> Result<Vec<Value>, ArchiveError> {
    let tool = tool_name(&record.payload);
    let lengths = record.bodies.iter().map(|body| signed(body.length));
    let lengths = lengths.collect::<Result<_, _>>()?;
    let hashes = record.bodies.iter().map(|body| ByteArray::from(body.hash.to_vec()));
    let hashes = hashes.collect();
    let pointers = record.bodies.into_iter().map(|body| body.pointer.into_bytes().into());
    Ok(vec![
        Value::text(part),
        Value::text(run_id),
        number(record.seq)?,
        number(record.at)?,
        Value::text(&record.kind),
        Value::optional_text(tool.as_deref()),
        Value::optional_text(record.fact.as_deref()),
        Value::text(&record.host),
        Value::text(&record.channel),
        Value::optional_text(record.decision_point.as_deref()),
        Value::Int(record.schema_version.into()),
        Value::Int(record.redactions.into()),
        record.failed.map_or(Value::Null, Value::Bool),
        Value::Bytes(record.payload.into_bytes().into()),
        Value::Ints(texts),
        Value::ByteLists(pointers.collect()),
        Value::ByteLists(hashes),
        Value::Ints(lengths),
        Value::bytes(record.link.as_bytes()),
    ])
}

pub(super) fn report_row(
    part: &str,
    run_id: &str,
    report: ChainReport,
) -> Result<Vec<Value>, ArchiveError> {
    let reported = readable_text(&report.zstd, None, &report.hash);
    Ok(vec![
        Value::text(part),
        Value::text(run_id),
        number(report.ordinal)?,
        number(report.seq)?,
        number(report.after)?,
        number(report.at)?,
        Value::text(&report.host),
        Value::text(&report.channel),
        Value::text(&report.status),
        Value::bytes(&report.hash),
        reported.map_or(Value::Null, |text| Value::Bytes(text.into_bytes().into())),
        Value::Bytes(report.zstd.into()),
        Value::bytes(report.link.as_bytes()),
    ])
}

pub(super) fn body_row(part: &str, id: i64, body: &ChainBody) -> Result<Vec<Value>, ArchiveError> {
    let text = readable_text(&body.zstd, Some(body.length), &body.hash);
    Ok(vec![
        Value::text(part),
        Value::Int(id),
        Value::bytes(&body.hash),
        number(body.length)?,
        text.map_or(Value::Null, |text| Value::Bytes(text.into_bytes().into())),
        Value::bytes(&body.zstd),
    ])
}

/// A record that was read, without the bytes of its long texts.
pub(super) struct ReadRecord {
    pub(super) run_id: String,
    pub(super) record: ChainRecord,
    /// The ids of its texts.
    pub(super) texts: Vec<i64>,
}

pub(super) fn read_header(row: Vec<Value>) -> Result<RunHeader, ArchiveError> {
    let mut row = Cells(row.into_iter());
    let run_id = row.text()?;
    let header: RunHeader = serde_json::from_str(&row.text()?).map_err(|error| {
        ArchiveError::damaged(format!("the header of the run {run_id}: {error}"))
    })?;
    if header.run_id().as_str() != run_id {
        return Err(ArchiveError::damaged(format!("the run {run_id} has the header of another")));
    }
    Ok(header)
}

pub(super) fn read_record(row: Vec<Value>) -> Result<ReadRecord, ArchiveError> {
    let mut row = Cells(row.into_iter());
    let run_id = row.text()?;
    let mut record = ChainRecord {
        seq: row.number()?,
        at: row.number()?,
        kind: row.text()?,
        fact: row.optional_text()?,
        host: row.text()?,
        channel: row.text()?,
        decision_point: row.optional_text()?,
        schema_version: row.number()?,
        redactions: row.number()?,
        failed: row.optional_bool()?,
        payload: row.text()?,
        bodies: Vec::new(),
        link: row.link()?,
    };
    let texts = row.ints()?;
    let (pointers, hashes, lengths) = (row.byte_lists()?, row.byte_lists()?, row.ints()?);
    if [pointers.len(), hashes.len(), lengths.len()] != [texts.len(); 3] {
        return Err(invalid());
    }
    for ((pointer, hash), length) in pointers.iter().zip(&hashes).zip(lengths) {
        record.bodies.push(ChainBody {
            pointer: string(pointer)?,
            hash: hash.data().try_into().map_err(|_| invalid())?,
            length: u64::try_from(length).map_err(|_| invalid())?,
            zstd: Vec::new(),
        });
    }
    Ok(ReadRecord { run_id, record, texts })
}

pub(super) fn read_report(row: Vec<Value>) -> Result<(String, ChainReport), ArchiveError> {
    let mut row = Cells(row.into_iter());
    let run_id = row.text()?;
    let report = ChainReport {
        ordinal: row.number()?,
        seq: row.number()?,
        after: row.number()?,
        at: row.number()?,
        host: row.text()?,
        channel: row.text()?,
        status: row.text()?,
        hash: row.bytes()?.data().try_into().map_err(|_| invalid())?,
        zstd: row.bytes()?.data().to_vec(),
        link: row.link()?,
    };
    Ok((run_id, report))
}

/// The id of a text and its compressed bytes.
pub(super) fn read_body(row: Vec<Value>) -> Result<(i64, ByteArray), ArchiveError> {
    let mut row = Cells(row.into_iter());
    Ok((row.int()?, row.bytes()?))
}

/// The name of the tool, for records of tool calls.
fn tool_name(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ToolWire {
        tool_name: Option<String>,
    }
    // Most records are not about a tool, and need not be parsed.
    if !payload.contains("\"tool_name\"") {
        return None;
    }
    serde_json::from_str::<ToolWire>(payload).ok()?.tool_name
}

fn signed(number: u64) -> Result<i64, ArchiveError> {
    i64::try_from(number).map_err(|_| ArchiveError::Schema(format!("the number {number}")))
}

fn number(number: u64) -> Result<Value, ArchiveError> {
    signed(number).map(Value::Int)
}

fn time(at: Timestamp) -> Result<Value, ArchiveError> {
    number(at.unix_ms())
}

fn invalid() -> ArchiveError {
    ArchiveError::damaged("a row has an invalid value".to_owned())
}

fn string(bytes: &ByteArray) -> Result<String, ArchiveError> {
    String::from_utf8(bytes.data().to_vec()).map_err(|_| invalid())
}

/// The values of a row, one after the other.
struct Cells(std::vec::IntoIter<Value>);

impl Cells {
    fn int(&mut self) -> Result<i64, ArchiveError> {
        match self.0.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(invalid()),
        }
    }

    fn number<N: TryFrom<i64>>(&mut self) -> Result<N, ArchiveError> {
        N::try_from(self.int()?).map_err(|_| invalid())
    }

    fn bytes(&mut self) -> Result<ByteArray, ArchiveError> {
        match self.0.next() {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            _ => Err(invalid()),
        }
    }

    fn text(&mut self) -> Result<String, ArchiveError> {
        string(&self.bytes()?)
    }

    fn optional_text(&mut self) -> Result<Option<String>, ArchiveError> {
        match self.0.next() {
            Some(Value::Null) => Ok(None),
            Some(Value::Bytes(bytes)) => string(&bytes).map(Some),
            _ => Err(invalid()),
        }
    }

    fn optional_bool(&mut self) -> Result<Option<bool>, ArchiveError> {
        match self.0.next() {
            Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            _ => Err(invalid()),
        }
    }

    fn link(&mut self) -> Result<Link, ArchiveError> {
        let bytes: [u8; 32] = self.bytes()?.data().try_into().map_err(|_| invalid())?;
        Ok(Link::from(bytes))
    }

    fn ints(&mut self) -> Result<Vec<i64>, ArchiveError> {
        match self.0.next() {
            Some(Value::Ints(list)) => Ok(list),
            _ => Err(invalid()),
        }
    }

    fn byte_lists(&mut self) -> Result<Vec<ByteArray>, ArchiveError> {
        match self.0.next() {
            Some(Value::ByteLists(list)) => Ok(list),
            _ => Err(invalid()),
        }
    }
}
