//! The header of a batch: pieces appended to a segment together.
//!
//! ```text
//! segment: batch │ batch │ … │ unused, or batches of an earlier generation
//! batch:   header, padded to 4 KiB │ piece, padded to 4 KiB │ piece …
//!
//! header (little-endian)
//!  0 magic            8    40 segment        4
//!  8 checksum         8    44 offset / 4 KiB 4   of the batch in its segment
//! 16 version          4    48 data length    8   pieces with their padding
//! 20 header length    4    56 entries        4
//! 24 generation       8    60 zero           4
//! 32 sequence         8    64 entries …
//!
//! entry
//!  0 object 16 │ 16 page 4 │ 20 first block 1 │ 21 blocks 1 │ 22 zero 2 │ 24 length 4 │ 28 checksums 8 each
//! ```
//!
//! The checksum covers the header after itself, padding included. The sequence numbers all batches of a folder in the
//! order in which they were written. The generation of a segment is the sequence of its first batch: batches after the
//! last one that was written to it belong to another generation or have a smaller sequence, so they are not mistaken
//! for its continuation.

use super::{aligned::SECTOR, segment::LogGeometry};
use crate::{
    ByteReader,
    object::ObjectHash,
    page_cache::{PageKey, checksum},
};

const MAGIC: [u8; 8] = *b"page-log";
const VERSION: u32 = 2;
/// End of the checksum, which covers all bytes after itself.
const CHECKSUM_END: usize = 16;
const FIXED_LEN: usize = 64;
const ENTRY_LEN: usize = 28;

/// Maximum length of a header, about 18,000 one-block entries: a corrupt length cannot make recovery allocate more.
pub(super) const MAX_HEADER_LEN: usize = 640 << 10;

/// One piece of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchEntry {
    pub(super) key: PageKey,
    pub(super) first_block: u32,
    /// Length without padding, in bytes.
    pub(super) len: u32,
    /// One per block.
    pub(super) checksums: Box<[u64]>,
}

impl BatchEntry {
    /// Returns the padded length on disk, in bytes.
    pub(super) fn padded_len(&self) -> u64 {
        u64::from(self.len).next_multiple_of(SECTOR as u64)
    }

    fn encoded_len(&self) -> usize {
        encoded_len(self.checksums.len())
    }
}

/// Returns the encoded length of an entry for `blocks` blocks.
pub(super) fn encoded_len(blocks: usize) -> usize {
    ENTRY_LEN + 8 * blocks
}

/// Returns the length of a header whose entries take `entries` bytes.
pub(super) fn header_len(entries: usize) -> usize {
    (FIXED_LEN + entries).next_multiple_of(SECTOR)
}

/// Returns the length of a batch with a single piece of `len` bytes.
pub(super) fn lone_batch_len(len: u64, block_size: u64) -> u64 {
    let blocks = len.div_ceil(block_size.max(1)) as usize;
    header_len(encoded_len(blocks)) as u64 + len.next_multiple_of(SECTOR as u64)
}

/// Position of a batch in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchPosition {
    pub(super) segment: u32,
    pub(super) generation: u64,
    pub(super) sequence: u64,
    /// Offset in bytes from the start of the segment.
    pub(super) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) position: BatchPosition,
    pub(super) entries: Vec<BatchEntry>,
}

impl BatchHeader {
    /// Returns the length of the encoded header.
    pub(super) fn len(&self) -> usize {
        header_len(self.entries.iter().map(BatchEntry::encoded_len).sum())
    }

    /// Returns the offset of the first byte after the batch.
    pub(super) fn end(&self) -> u64 {
        self.position.offset + self.len() as u64 + self.data_len()
    }

    /// Returns each entry with the offset of its data in the segment.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, &BatchEntry)> {
        let start = self.position.offset + self.len() as u64;

        self.entries.iter().scan(start, |next, entry| {
            let offset = *next;
            *next += entry.padded_len();
            Some((offset, entry))
        })
    }

    fn data_len(&self) -> u64 {
        self.entries.iter().map(BatchEntry::padded_len).sum()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let len = self.len();
        let mut covered = Vec::with_capacity(len);
        covered.extend_from_slice(&VERSION.to_le_bytes());
        covered.extend_from_slice(&(len as u32).to_le_bytes());
        covered.extend_from_slice(&self.position.generation.to_le_bytes());
        covered.extend_from_slice(&self.position.sequence.to_le_bytes());
        covered.extend_from_slice(&self.position.segment.to_le_bytes());
        covered.extend_from_slice(&((self.position.offset / SECTOR as u64) as u32).to_le_bytes());
        covered.extend_from_slice(&self.data_len().to_le_bytes());
        covered.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        covered.extend_from_slice(&[0; 4]);

        for entry in &self.entries {
            covered.extend_from_slice(&entry.key.object.0.to_le_bytes());
            covered.extend_from_slice(&entry.key.page.to_le_bytes());
            covered.extend_from_slice(&[entry.first_block as u8, entry.checksums.len() as u8, 0, 0]);
            covered.extend_from_slice(&entry.len.to_le_bytes());
            entry.checksums.iter().for_each(|sum| covered.extend_from_slice(&sum.to_le_bytes()));
        }

        covered.resize(len - CHECKSUM_END, 0);
        let checksum = checksum::of_header(&covered).to_le_bytes();
        [&MAGIC[..], &checksum, &covered].concat()
    }

    /// Decodes a complete header; `None` if it is damaged or describes an impossible batch.
    pub(super) fn decode(bytes: &[u8], geometry: &LogGeometry) -> Option<Self> {
        if encoded_header_len(bytes)? != bytes.len() {
            return None;
        }

        let mut input = ByteReader::new(bytes);
        input.array::<8>()?;
        let checksum = input.u64_le()?;
        if checksum::of_header(input.rest()) != checksum {
            return None;
        }

        input.array::<8>()?;
        let generation = input.u64_le()?;
        let sequence = input.u64_le()?;
        let segment = input.u32_le()?;
        let offset = u64::from(input.u32_le()?) * SECTOR as u64;
        let data_len = input.u64_le()?;
        let count = input.u32_le()?;
        input.array::<4>()?;

        // Each entry consumes input, so a corrupt count ends the loop early.
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(decode_entry(&mut input, geometry)?);
        }

        let position = BatchPosition { segment, generation, sequence, offset };
        let header = Self { position, entries };
        let is_consistent = !header.entries.is_empty()
            && header.len() == bytes.len()
            && header.data_len() == data_len
            && header.end() <= geometry.segment_size;
        is_consistent.then_some(header)
    }
}

/// Returns the length of a header, read from its first sector; `None` if it has no header.
pub(super) fn encoded_header_len(bytes: &[u8]) -> Option<usize> {
    let mut input = ByteReader::new(bytes);
    if input.array()? != MAGIC {
        return None;
    }

    input.u64_le()?;
    let version = input.u32_le()?;
    let len = input.u32_le()? as usize;
    let is_plausible =
        version == VERSION && len.is_multiple_of(SECTOR) && (SECTOR..=MAX_HEADER_LEN).contains(&len);
    is_plausible.then_some(len)
}

/// Returns whether decoding and re-encoding a header preserves it; `None` if the bytes are not a header of a log with
/// these sizes.
pub(crate) fn header_survives_rewrite(
    bytes: &[u8],
    capacity: u64,
    page_size: u64,
    block_size: u64,
) -> Option<bool> {
    let geometry = LogGeometry::new(capacity, page_size, block_size);
    let header = BatchHeader::decode(bytes, &geometry)?;
    Some(BatchHeader::decode(&header.encode(), &geometry).is_some_and(|again| again == header))
}

fn decode_entry(input: &mut ByteReader<'_>, geometry: &LogGeometry) -> Option<BatchEntry> {
    let object = ObjectHash(u128::from_le_bytes(input.array()?));
    let page = input.u32_le()?;
    let [first_block, blocks, _, _] = input.array()?;
    let len = input.u32_le()?;

    let first_block = u32::from(first_block);
    let blocks = u32::from(blocks);
    let fits = first_block + blocks <= geometry.blocks_per_page();
    if !fits || len == 0 || u64::from(len).div_ceil(geometry.block_size) != u64::from(blocks) {
        return None;
    }

    let checksums = (0..blocks).map(|_| input.u64_le()).collect::<Option<_>>()?;
    Some(BatchEntry { key: PageKey { object, page }, first_block, len, checksums })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn geometry() -> LogGeometry {
        LogGeometry::new(1 << 30, 1 << 20, 64 << 10)
    }

    fn header(entries: u32) -> BatchHeader {
        let entry = |page| BatchEntry {
            key: PageKey { object: ObjectHash(u128::MAX - 3), page },
            first_block: page % 14,
            len: (64 << 10) + 77,
            checksums: Box::new([1, u64::MAX]),
        };
        let position = BatchPosition { segment: 2, generation: 5, sequence: 9, offset: 8192 };
        BatchHeader { position, entries: (0..entries).map(entry).collect() }
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        for entries in [1, 100, 200] {
            let header = header(entries);
            let bytes = header.encode();
            assert_eq!(encoded_header_len(&bytes[..SECTOR]), Some(bytes.len()));
            assert_eq!(BatchHeader::decode(&bytes, &geometry()), Some(header.clone()));
            let (last, entry) = header.pieces().last().unwrap();
            assert_eq!(last + entry.padded_len(), header.end());
        }
    }

    proptest! {
        #[test]
        fn a_damaged_header_is_none(at in 0usize..12_288, bit in 0u8..8) {
            let mut bytes = header(100).encode();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(BatchHeader::decode(&bytes, &geometry()), None);
        }

        #[test]
        fn any_bytes_with_a_valid_checksum_decode_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), SECTOR),
            count in 0u32..5,
        ) {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
            bytes[20..24].copy_from_slice(&(SECTOR as u32).to_le_bytes());
            bytes[56..60].copy_from_slice(&count.to_le_bytes());
            let checksum = checksum::of_header(&bytes[16..]);
            bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
            BatchHeader::decode(&bytes, &geometry());
        }
    }
}
