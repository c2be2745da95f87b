//! Checks a message of Arrow IPC before it is decoded: arrow allocates as much as a damaged length states, which
//! aborts the process.

use std::fmt::Display;

use arrow::ipc::{Buffer, CompressionType, Message, RecordBatch, root_as_message};
use stylobate_storage::Corrupt;

use super::compressed::{max_lz4_bytes, max_zstd_bytes};

/// Maximum rows of arrays that take no bytes, such as those of nulls.
const MAX_BARE_ROWS: u64 = i32::MAX as u64;
/// Decompressed length of a buffer that is not compressed.
const NOT_COMPRESSED: i64 = -1;
/// Bytes from which an allocation is tried first.
const PROBED_BYTES: u64 = 64 << 20;
/// Maximum bytes of one allocation. libFuzzer aborts at large ones, even if they are only tried.
const MAX_BYTES: u64 = if cfg!(fuzzing) { PROBED_BYTES } else { i64::MAX as u64 };

/// Checks a message whose metadata and body arrive separately, as in Flight, before a decoder of arrow reads it.
///
/// `metadata` is the flatbuffer of the message, without its length.
///
/// # Errors
///
/// If the metadata is malformed, if a buffer lies outside of the body or cannot decompress to its stated length, or if
/// an array has more rows than its bytes can hold. The offset, if known, is within the body.
pub fn check_ipc_message(metadata: &[u8], body: &[u8]) -> Result<(), Corrupt> {
    check_message(&parse_message(metadata)?, body)
}

/// Parses the flatbuffer of a message.
pub(super) fn parse_message(metadata: &[u8]) -> Result<Message<'_>, Corrupt> {
    root_as_message(metadata).map_err(|error| malformed("the metadata of a message", &error))
}

/// Returns the error of a malformed flatbuffer, without the trace in its further lines.
pub(super) fn malformed(of: &str, error: &dyn Display) -> Corrupt {
    let error = error.to_string();
    format!("{of} is malformed: {}", error.lines().next().unwrap_or("no reason given")).into()
}

/// Checks a message as [`check_ipc_message`] does.
pub(super) fn check_message(message: &Message<'_>, body: &[u8]) -> Result<(), Corrupt> {
    if let Some(batch) = message.header_as_record_batch() {
        check_batch(&batch, body)?;
    }
    if let Some(dictionary) = message.header_as_dictionary_batch() {
        let batch = dictionary.data().ok_or("a dictionary has no values")?;
        check_batch(&batch, body)?;
    }

    Ok(())
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), Corrupt> {
    let codec = batch.compression().map(|compression| compression.codec());
    let mut buffers = 0_i64;
    let mut bytes = 0_u64;
    let mut largest = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let stored = stored_bytes(buffer, body).ok_or_else(|| beyond_body(buffer, body))?;
        let decoded = decoded_len(stored, codec);
        let decoded = decoded.map_err(|corrupt| corrupt.at(buffer.offset().unsigned_abs()))?;
        bytes = bytes.saturating_add(decoded);
        largest = decoded.max(largest);
        buffers += 1;
    }

    for count in batch.variadicBufferCounts().into_iter().flatten() {
        if !(0..=buffers).contains(&count) {
            return Err(format!("an array has {count} buffers of a batch that has {buffers}").into());
        }
    }

    // A value takes a bit at least.
    let max_rows = MAX_BARE_ROWS.max(bytes.saturating_mul(8));
    check_count("rows of a batch", batch.length(), max_rows)?;
    for node in batch.nodes().into_iter().flatten() {
        let rows = check_count("values of an array", node.length(), max_rows)?;
        check_count("nulls of an array", node.null_count(), rows)?;
    }

    // Each buffer is allocated separately, if its column is read at all.
    if codec.is_some() { probe_allocation(largest) } else { Ok(()) }
}

/// Returns the bytes of a buffer in the body; `None` if it lies outside of it.
fn stored_bytes<'body>(buffer: &Buffer, body: &'body [u8]) -> Option<&'body [u8]> {
    let start = usize::try_from(buffer.offset()).ok()?;
    let len = usize::try_from(buffer.length()).ok()?;
    body.get(start..start.checked_add(len)?)
}

fn beyond_body(buffer: &Buffer, body: &[u8]) -> Corrupt {
    let (len, offset) = (buffer.length(), buffer.offset());
    format!("a buffer of {len} bytes at {offset} lies outside of its body of {} bytes", body.len()).into()
}

/// Returns the length of a buffer once it is decompressed. Fails if its bytes cannot decompress to the stated length.
fn decoded_len(stored: &[u8], codec: Option<CompressionType>) -> Result<u64, Corrupt> {
    let Some(codec) = codec.filter(|_| !stored.is_empty()) else { return Ok(stored.len() as u64) };

    let (len, frame) = stored.split_first_chunk::<8>().ok_or("a compressed buffer lacks its length")?;
    let len = i64::from_le_bytes(*len);
    if len == NOT_COMPRESSED {
        return Ok(frame.len() as u64);
    }

    let max = if codec == CompressionType::ZSTD { max_zstd_bytes(frame) } else { max_lz4_bytes(frame) };
    let valid = u64::try_from(len).ok().filter(|len| *len <= max);
    valid.ok_or_else(|| {
        let stored = frame.len();
        format!("a buffer is to decompress to {len} bytes, and its {stored} bytes hold at most {max}").into()
    })
}

/// Fails if a number is negative or greater than a maximum.
fn check_count(of: &str, count: i64, max: u64) -> Result<u64, Corrupt> {
    let valid = u64::try_from(count).ok().filter(|count| *count <= max);
    valid.ok_or_else(|| format!("the number of {of} is {count}, and at most {max} fit").into())
}

/// Fails if the allocator refuses this many bytes, where arrow would abort the process.
pub(super) fn probe_allocation(bytes: u64) -> Result<(), Corrupt> {
    if bytes < PROBED_BYTES {
        return Ok(());
    }

    let mut probe: Vec<u8> = Vec::new();
    let len = usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES);
    let is_allocated = len.is_some_and(|len| probe.try_reserve_exact(len).is_ok());
    // Otherwise the compiler may omit an allocation that is not used.
    std::hint::black_box(&mut probe);

    if is_allocated { Ok(()) } else { Err(format!("{bytes} bytes do not fit into memory").into()) }
}
