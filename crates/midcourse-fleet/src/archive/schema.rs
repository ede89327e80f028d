//! The four tables of an archive and their columns (documented in `docs/archive.md`).

use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use super::error::ArchiveError;

/// A table of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Runs,
    Records,
    Reports,
    Bodies,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [Self::Runs, Self::Records, Self::Reports, Self::Bodies];

    /// The name of the table, of its folder and in manifests.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Records => "records",
            Self::Reports => "reports",
            Self::Bodies => "bodies",
        }
    }

    pub(super) fn schema(self) -> Result<Type, ArchiveError> {
        Ok(parse_message_type(self.columns())?)
    }

    const fn columns(self) -> &'static str {
        match self {
            Self::Runs => {
                "message runs {
                    required binary part (STRING);
                    required binary run_id (STRING);
                    optional binary parent_run_id (STRING);
                    optional binary conversation_id (STRING);
                    required int64 depth;
                    required binary host (STRING);
                    optional binary host_version (STRING);
                    required int64 started (TIMESTAMP(MILLIS,true));
                    required int64 latest (TIMESTAMP(MILLIS,true));
                    optional int64 ended (TIMESTAMP(MILLIS,true));
                    optional binary outcome (STRING);
                    required int64 records;
                    required int64 reports;
                    required int64 calls;
                    required int64 open_calls;
                    required int64 errors;
                    required int64 deliveries;
                    optional binary task (STRING);
                    optional binary folder (STRING);
                    optional binary command (STRING);
                    optional binary model (STRING);
                    optional int64 exit_code;
                    optional int64 input_tokens;
                    optional int64 output_tokens;
                    optional int64 cache_write_tokens;
                    optional int64 cache_read_tokens;
                    optional boolean tokens_estimated;
                    optional int64 cost_usd (DECIMAL(18,6));
                    required binary link;
                    required binary header (STRING);
                }"
            }
            Self::Records => {
                "message records {
                    required binary part (STRING);
                    required binary run_id (STRING);
                    required int64 seq;
                    required int64 recorded_at (TIMESTAMP(MILLIS,true));
                    required binary kind (STRING);
                    optional binary tool (STRING);
                    optional binary fact (STRING);
                    required binary host (STRING);
                    required binary channel (STRING);
                    optional binary decision_point (STRING);
                    required int64 schema_version;
                    required int64 redactions;
                    optional boolean failed;
                    required binary payload (STRING);
                    required group texts (LIST) {
                        repeated group list {
                            required group element {
                                required int64 text_id;
                                required binary pointer (STRING);
                                required binary hash;
                                required int64 length;
                            }
                        }
                    }
                    required binary link;
                }"
            }
            Self::Reports => {
                "message reports {
                    required binary part (STRING);
                    required binary run_id (STRING);
                    required int64 ordinal;
                    required int64 seq;
                    required int64 after;
                    required int64 recorded_at (TIMESTAMP(MILLIS,true));
                    required binary host (STRING);
                    required binary channel (STRING);
                    required binary status (STRING);
                    required binary hash;
                    optional binary reported (STRING);
                    required binary zstd;
                    required binary link;
                }"
            }
            Self::Bodies => {
                "message bodies {
                    required binary part (STRING);
                    required int64 text_id;
                    required binary hash;
                    required int64 length;
                    optional binary text (STRING);
                    required binary zstd;
                }"
            }
        }
    }

    /// Columns whose values hardly repeat or are long: a dictionary and statistics would only take
    /// space.
    pub(super) const fn unique_columns(self) -> &'static [&'static str] {
        match self {
            Self::Runs => &["header", "link"],
            Self::Records => &["payload", "link"],
            Self::Reports => &["hash", "reported", "zstd", "link"],
            Self::Bodies => &["hash", "text", "zstd"],
        }
    }

    /// Columns that consist of hashes or of compressed bytes.
    pub(super) const fn incompressible_columns(self) -> &'static [&'static str] {
        match self {
            Self::Runs | Self::Records => &["link"],
            Self::Reports => &["hash", "zstd", "link"],
            Self::Bodies => &["hash", "zstd"],
        }
    }
}
