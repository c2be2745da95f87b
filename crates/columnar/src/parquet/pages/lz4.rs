//! Decompresses LZ4 as Hadoop's codec writes it: length-prefixed blocks, each of one or more compressed pieces.
//!
//! Source: `BlockCompressorStream` of Apache Hadoop. The Parquet format calls this codec LZ4 and does not specify its
//! framing; others wrote frames or bare blocks under the same name.

use stylobate_storage::ByteReader;

/// Decompresses a page into `into`, and returns its length. `None` if the page is framed differently or does not fill
/// `into` exactly.
pub(crate) fn decompress_blocks(page: &[u8], into: &mut [u8]) -> Option<usize> {
    let mut page = ByteReader::new(page);
    let mut made = 0_usize;
    while !page.is_empty() {
        let mut left = page.u32_be()? as usize;
        while left > 0 {
            let piece = page.u32_be()?;
            let piece = page.take(piece as usize)?;
            let room = into.get_mut(made..made.checked_add(left)?)?;
            let here = lz4_flex::block::decompress_into(piece, room).ok().filter(|here| *here > 0)?;
            made += here;
            left = left.checked_sub(here)?;
        }
    }

    (made == into.len()).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> Vec<u8> {
        let compressed = lz4_flex::block::compress(bytes);
        [&(compressed.len() as u32).to_be_bytes()[..], &compressed].concat()
    }

    fn block(pieces: &[&[u8]]) -> Vec<u8> {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>() as u32;
        let pieces: Vec<u8> = pieces.iter().flat_map(|bytes| piece(bytes)).collect();
        [&length.to_be_bytes()[..], &pieces].concat()
    }

    #[test]
    fn a_page_has_any_number_of_blocks_and_pieces() {
        let a = [1_u8; 1000];
        let b = [2_u8; 70];
        let c = b"some other bytes".to_vec();
        let page = [block(&[&a]), block(&[&b, &c]), block(&[])].concat();
        let mut made = vec![0; 1000 + 70 + c.len()];
        assert_eq!(decompress_blocks(&page, &mut made), Some(made.len()));
        assert_eq!(made, [&a[..], &b, &c].concat());
    }

    #[test]
    fn other_bytes_are_none_and_do_not_panic() {
        let page = block(&[&[1; 1000]]);
        assert_eq!(decompress_blocks(&page, &mut [0; 999]), None, "longer than the page");
        assert_eq!(decompress_blocks(&page, &mut [0; 1001]), None, "shorter than the page");

        for end in 1..page.len() {
            assert_eq!(decompress_blocks(&page[..end], &mut [0; 1000]), None, "{end}");
        }
        let frame = [0x04, 0x22, 0x4d, 0x18, 0x64, 0x40, 0xa7, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decompress_blocks(&frame, &mut [0; 1000]), None);
        assert_eq!(decompress_blocks(&[0xff; 64], &mut [0; 64]), None);
    }
}
