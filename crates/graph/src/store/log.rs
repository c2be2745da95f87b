//! Log of a store: one record per version, put if absent. The newest record defines the current version.

pub(super) mod alter;
pub(super) mod entry;
pub(super) mod pins;
pub(super) mod record;

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt, future::BoxFuture};
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};
use stylobate_storage::{
    Corrupt, Destination, Durability, Error as StorageError, Overwrite, SinkOptions, Sinks,
};

use self::record::{VersionRecord, file_name};
use super::segments::OpenSegments;
use crate::{Error, Result, graphar::GraphFolder};

/// Digits of a version in file names.
const DIGITS: usize = 20;

/// Log of a store.
pub(crate) struct VersionLog {
    folder: GraphFolder,
    sinks: Sinks,
    /// Destination of files. In a local folder also of records, which the sinks rename into place and make durable.
    root: Destination,
    records: OpenSegments<u64, VersionRecord>,
}

/// Outcome of putting a record.
#[derive(Debug)]
pub(crate) enum RecordPutOutcome {
    /// The record became the version.
    Done,
    /// Another record has taken the version.
    Taken(Arc<VersionRecord>),
}

/// Listing entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedRecord {
    pub(crate) version: u64,
    /// Bytes of the record.
    pub(crate) bytes: u64,
    /// Time of the put, in milliseconds since 1970, by the clock of the store.
    pub(crate) put_ms: i64,
}

impl VersionLog {
    /// Opens the log of a store.
    ///
    /// # Errors
    ///
    /// [`Error::Data`] if the location cannot be a path of a store.
    pub(crate) fn new(folder: GraphFolder, durability: Durability) -> Result<Self> {
        let sinks = Sinks::new(SinkOptions::default().with_durability(durability));
        let root = Destination::in_origin(folder.store.origin(), &folder.path("")?);
        Ok(Self { folder, sinks, root, records: OpenSegments::default() })
    }

    /// Returns the name of a record for errors.
    pub(crate) fn name(&self, version: u64) -> String {
        self.folder.name(&file_name(version))
    }

    /// Lists the existing versions, ascending; only those after `after` if given. Costs one listing.
    pub(crate) fn list(&self, after: Option<u64>) -> BoxFuture<'_, Result<Vec<ListedRecord>>> {
        self.list_now(after).boxed()
    }

    async fn list_now(&self, after: Option<u64>) -> Result<Vec<ListedRecord>> {
        let store = self.folder.store.origin().store().clone();
        let folder = self.folder.path("_log")?;
        let listing = match after {
            Some(version) => store.list_with_offset(Some(&folder), &self.folder.path(&file_name(version))?),
            None => store.list(Some(&folder)),
        };
        let mut listed: Vec<ListedRecord> = listing
            .try_filter_map(|meta| {
                let version = meta.location.filename().and_then(version_of);
                let put_ms = meta.last_modified.timestamp_millis();
                std::future::ready(Ok(version.map(|version| ListedRecord {
                    version,
                    bytes: meta.size,
                    put_ms,
                })))
            })
            .try_collect()
            .await
            .map_err(|error| StorageError::from_origin(folder.as_ref(), error))?;

        listed.retain(|one| after.is_none_or(|after| one.version > after));
        listed.sort_unstable_by_key(|one| one.version);
        Ok(listed)
    }

    /// Reads the record of a version; holders of the same version share it.
    pub(crate) fn read(&self, version: u64) -> BoxFuture<'_, Result<Arc<VersionRecord>>> {
        self.records.get(version, self.read_uncached(version)).boxed()
    }

    async fn read_uncached(&self, version: u64) -> Result<VersionRecord> {
        let bytes = self.folder.read(&file_name(version)).await?;
        let record = parse(&bytes, version);
        record.map_err(|corrupt| Error::Data { file: self.name(version), reason: corrupt.to_string() })
    }

    /// Puts a record if its version has none yet. Costs one request. If its outcome is unknown, the existing record
    /// decides.
    ///
    /// # Errors
    ///
    /// Any error of the store. In that case the record was absent when looked up, or the lookup failed.
    pub(crate) fn put<'a>(
        &'a self,
        record: &'a Arc<VersionRecord>,
    ) -> BoxFuture<'a, Result<RecordPutOutcome>> {
        self.put_now(record).boxed()
    }

    async fn put_now(&self, record: &Arc<VersionRecord>) -> Result<RecordPutOutcome> {
        let bytes =
            to_bytes(record).map_err(|reason| Error::Data { file: self.name(record.version), reason })?;
        let Err(failed) = self.create(record.version, bytes.into()).await else {
            self.records.put(record.version, record);
            return Ok(RecordPutOutcome::Done);
        };
        let there = match self.read_uncached(record.version).await {
            Ok(there) => there,
            Err(Error::Missing { .. }) => return Err(failed),
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the commit was done");
                return Err(failed);
            }
        };

        let is_this = there.commit == record.commit;
        let there = Arc::new(there);
        self.records.put(record.version, &there);
        Ok(if is_this { RecordPutOutcome::Done } else { RecordPutOutcome::Taken(there) })
    }

    async fn create(&self, version: u64, bytes: Bytes) -> Result<()> {
        let path = self.folder.path(&file_name(version))?;
        if let Destination::File(folder) = &self.root {
            let file = folder.join(file_name(version));
            let mut sink = self.sinks.file(&file, Overwrite::Refuse).await?;
            sink.write(&bytes).await?;
            sink.finish().await?;
            return Ok(());
        }

        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.folder.store.put_opts(&path, PutPayload::from(bytes), options).await;
        put.map(drop).map_err(|error| StorageError::from_write(path.as_ref(), error).into())
    }

    /// Returns the destination of other files of the store.
    pub(crate) fn destination(&self) -> Destination {
        self.root.clone()
    }

    /// Returns the sinks of other files of the store.
    pub(crate) fn sinks(&self) -> &Sinks {
        &self.sinks
    }
}

fn version_of(file: &str) -> Option<u64> {
    let digits = file.strip_suffix(".json")?;
    let all = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}

/// Returns the end of a record: the checksum of all bytes before it.
fn end(bytes: &[u8]) -> String {
    format!(",\"crc32\":\"{:08x}\"}}", crc32fast::hash(bytes))
}

/// Serializes a record: an object, whose last member is the checksum.
fn to_bytes(record: &VersionRecord) -> std::result::Result<Vec<u8>, String> {
    let bytes = serde_json::to_vec(record);
    let mut bytes = bytes.map_err(|error| format!("the record cannot be written: {error}"))?;
    bytes.truncate(bytes.len().saturating_sub(1));
    let end = end(&bytes);
    bytes.extend_from_slice(end.as_bytes());
    Ok(bytes)
}

/// Parses and checks a record.
pub(crate) fn parse(bytes: &[u8], version: u64) -> std::result::Result<VersionRecord, Corrupt> {
    let (before, last) = bytes.split_at(bytes.len().saturating_sub(end(&[]).len()));
    if last != end(before).as_bytes() {
        let corrupt = Corrupt::from("not a record: its checksum is not that of its bytes");
        return Err(corrupt.at(before.len() as u64));
    }
    let record: VersionRecord =
        serde_json::from_slice(bytes).map_err(|error| format!("not a record: {error}"))?;
    match record.invalid_reason(version) {
        Some(reason) => Err(reason.into()),
        None => Ok(record),
    }
}

/// Returns whether decoding and encoding a record again yields the same record; `None` if the bytes are not a record.
pub(crate) fn record_survives_rewrite(bytes: &[u8], version: u64) -> Option<bool> {
    let record = parse(bytes, version).ok()?;
    let again = to_bytes(&record).ok().and_then(|bytes| parse(&bytes, version).ok());
    Some(again.is_some_and(|again| again == record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_named_by_a_version_are_records() {
        assert_eq!(version_of("00000000000000000012.json"), Some(12));
        assert_eq!(version_of("12.json"), None);
        assert_eq!(version_of("0000000000000000001x.json"), None);
        assert_eq!(version_of("99999999999999999999.json"), None);
        assert_eq!(version_of("+0000000000000000001.json"), None);
    }

    #[test]
    fn bytes_that_are_no_record_are_an_error_and_never_a_panic() {
        let signed = |text: &str| [text.as_bytes(), end(text.as_bytes()).as_bytes()].concat();
        for bytes in [&b""[..], b"{}", b"[1]", b"{\"format\": 9}", b"\xFF\xFE"] {
            parse(bytes, 1).unwrap_err();
            parse(&signed(&String::from_utf8_lossy(bytes)), 1).unwrap_err();
        }
        let rest = r#""epoch":0,"commit":"","time_ms":0,"operation":"","vertices":[],"edges":[]"#;
        let newer = signed(&format!(r#"{{"format":2,"version":1,{rest}"#));
        assert!(parse(&newer, 1).unwrap_err().reason.contains("newer"));

        let other = signed(&format!(r#"{{"format":1,"version":7,{rest}"#));
        assert!(parse(&other, 1).unwrap_err().reason.contains("version 7"));
        let record = parse(&other, 7).unwrap();
        assert_eq!(to_bytes(&record).unwrap(), other);
        let changed = String::from_utf8(other).unwrap().replace(":7,", ":8,");
        assert!(parse(changed.as_bytes(), 8).unwrap_err().reason.contains("checksum"));
    }
}
