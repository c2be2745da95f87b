//! Upper bounds of the decompressed size of compressed buffers, from their frames alone: stated lengths may be damaged.

const ZSTD_MAGIC: u32 = 0xFD2F_B528;
/// Magic number of skippable Zstandard frames, except for its last four bits.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// Maximum decompressed bytes of a Zstandard block (RFC 8878, section 3.1.1.2.4).
const ZSTD_BLOCK: u32 = 128 << 10;
/// Maximum bytes that one byte of an LZ4 block decompresses to.
const LZ4_RATIO: u64 = 255;

/// Returns the maximum number of bytes that an LZ4 frame decompresses to.
pub(super) fn max_lz4_bytes(frame: &[u8]) -> u64 {
    (frame.len() as u64).saturating_mul(LZ4_RATIO)
}

/// Returns the maximum number of bytes that Zstandard frames decompress to. The first malformed frame and all
/// after it are not counted.
pub(super) fn max_zstd_bytes(mut frames: &[u8]) -> u64 {
    let mut size = 0_u64;
    while let Some((decompressed, rest)) = zstd_frame(frames) {
        size = size.saturating_add(decompressed);
        frames = rest;
    }

    size
}

/// Returns the maximum decompressed size of the first frame, and the bytes after it; `None` if it is malformed.
fn zstd_frame(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xF == SKIPPABLE_MAGIC {
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        return Some((0, rest.get(len..)?));
    }
    if magic != ZSTD_MAGIC {
        return None;
    }

    let (descriptor, rest) = rest.split_first()?;
    let has_checksum = descriptor & 0b100 != 0;
    let is_single_segment = descriptor & 0b10_0000 != 0;
    let window = usize::from(!is_single_segment);
    let dictionary_id = match descriptor & 0b11 {
        3 => 4,
        len => usize::from(len),
    };
    let content_size = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };

    let rest = rest.get(window + dictionary_id..)?;
    let (content_size, blocks) = rest.split_at_checked(content_size)?;
    let content_size = match content_size {
        [] => u64::MAX,
        [low, high] => u64::from(u16::from_le_bytes([*low, *high])) + 256,
        bytes => bytes.iter().rev().fold(0, |size, byte| (size << 8) | u64::from(*byte)),
    };

    let (size, rest) = zstd_blocks(blocks)?;
    let checksum = if has_checksum { 4 } else { 0 };
    Some((size.min(content_size), rest.get(checksum..)?))
}

/// Returns the maximum decompressed size of the blocks of a frame, and the bytes after them.
fn zstd_blocks(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut size = 0_u64;
    loop {
        let (header, content) = bytes.split_first_chunk::<3>()?;
        let [low, middle, high] = *header;
        let header = u32::from_le_bytes([low, middle, high, 0]);

        let len = header >> 3;
        let (stored, decompressed) = match (header >> 1) & 0b11 {
            // Uncompressed.
            0 => (len, len),
            // One byte, repeated.
            1 => (1, len.min(ZSTD_BLOCK)),
            // Compressed.
            2 => (len, ZSTD_BLOCK),
            _ => return None,
        };

        size = size.saturating_add(u64::from(decompressed));
        bytes = content.get(usize::try_from(stored).ok()?..)?;
        if header & 1 == 1 {
            return Some((size, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::FrameEncoder;

    use super::*;

    #[test]
    fn frames_are_no_larger_than_their_bounds() {
        let noise: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let zeros = vec![0; 3 << 20];
        let words = b"one two three four five ".repeat(20_000);

        for bytes in [&noise, &zeros, &words, &Vec::new(), &vec![7; 200]] {
            let len = bytes.len() as u64;
            for level in [-5, 1, 19] {
                let whole = zstd::bulk::compress(bytes, level).unwrap();
                assert_eq!(max_zstd_bytes(&whole), len);

                // Such a frame does not state its size.
                let streamed = zstd::stream::encode_all(bytes.as_slice(), level).unwrap();
                assert!(max_zstd_bytes(&streamed) >= len);

                let skipped: &[u8] = &[0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9];
                let several = [whole.as_slice(), skipped, &streamed].concat();
                assert_eq!(max_zstd_bytes(&several), len + max_zstd_bytes(&streamed));
            }

            let mut encoder = FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            assert!(max_lz4_bytes(&encoder.finish().unwrap()) >= len);
        }
    }

    #[test]
    fn a_malformed_frame_counts_for_nothing() {
        let frame = zstd::bulk::compress(&[1; 1000], 3).unwrap();
        for cut in 0..frame.len() {
            assert_eq!(max_zstd_bytes(frame.get(..cut).unwrap()), 0, "{cut} bytes");
        }
        assert_eq!(max_zstd_bytes(b"no frame at all"), 0);
    }
}
