//! Checksums of blocks, seeded by the page and the block's number, so that the bytes of another block never match.

use twox_hash::XxHash3_64;

use crate::page_cache::PageKey;

/// Computes the checksum of one block of a page.
pub(crate) fn of_block(key: &PageKey, block: u32, bytes: &[u8]) -> u64 {
    let mut identity = [0; 24];
    identity[..16].copy_from_slice(&key.object.0.to_le_bytes());
    identity[16..20].copy_from_slice(&key.page.to_le_bytes());
    identity[20..].copy_from_slice(&block.to_le_bytes());

    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&identity), bytes)
}

/// Computes the checksums of consecutive blocks that begin with block `first`.
pub(crate) fn of_blocks(key: &PageKey, first: u32, bytes: &[u8], block_size: usize) -> Box<[u64]> {
    (first..).zip(bytes.chunks(block_size)).map(|(block, bytes)| of_block(key, block, bytes)).collect()
}

/// Returns whether `bytes` are the blocks from `first` on for which `expected` was computed.
pub(crate) fn verify(key: &PageKey, first: u32, bytes: &[u8], block_size: usize, expected: &[u64]) -> bool {
    let blocks = bytes.chunks(block_size);

    blocks.len() == expected.len()
        && (first..)
            .zip(blocks.zip(expected))
            .all(|(block, (bytes, expected))| of_block(key, block, bytes) == *expected)
}

/// Computes the checksum of a batch header.
pub(crate) fn of_header(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectHash;

    #[test]
    fn the_bytes_of_another_block_or_page_do_not_pass() {
        let key = PageKey { object: ObjectHash(7), page: 3 };
        let bytes = [5; 10_000];
        let checksums = of_blocks(&key, 2, &bytes, 4096);
        assert_eq!(checksums.len(), 3);
        assert!(verify(&key, 2, &bytes, 4096, &checksums));

        assert!(!verify(&key, 1, &bytes, 4096, &checksums));
        assert!(!verify(&PageKey { page: 4, ..key }, 2, &bytes, 4096, &checksums));
        assert!(!verify(&PageKey { object: ObjectHash(8), ..key }, 2, &bytes, 4096, &checksums));
        assert!(!verify(&key, 2, &bytes[..8192], 4096, &checksums), "a block is missing");
    }
}
