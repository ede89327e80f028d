//! Connecting to an S3 bucket, with what the usual environment variables say.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

use super::error::ArchiveError;

/// The start of the address of a bucket.
const SCHEME: &str = "s3://";

/// The bucket and the path in it, if the address is one of a bucket.
pub(super) fn parse(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix(SCHEME)?;
    Some(rest.split_once('/').unwrap_or((rest, "")))
}

/// Connects to the bucket of an address. Credentials, region and endpoint come from the variables
/// `AWS_…` only, so that they are in no command line and no log.
pub(super) fn connect(address: &str) -> Result<(Arc<dyn ObjectStore>, Path), ArchiveError> {
    let invalid = || ArchiveError::Address(address.to_owned());
    let (bucket, prefix) =
        parse(address).filter(|(bucket, _)| !bucket.is_empty()).ok_or_else(invalid)?;
    let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| invalid())?;
    // The HTTP client takes the default provider of the process. A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        max_retries: 5,
        retry_timeout: Duration::from_secs(60),
        ..RetryConfig::default()
    };
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry).build();
    let failed = |error| ArchiveError::place(format!("cannot use {address}"), &error);
    Ok((Arc::new(store.map_err(failed)?), prefix))
}
