//! Definition levels of a flat column as a bitmap: one bit per row, set if there is a value.

use arrow::array::BooleanBufferBuilder;
use stylobate_storage::{ByteReader, Corrupt};

/// Appends the `count` levels of `data`, in Parquet's RLE/bit-packed hybrid, and returns how many are set. A packed run
/// of single bits is a bitmap already.
pub(crate) fn append(data: &[u8], count: usize, out: &mut BooleanBufferBuilder) -> Result<usize, Corrupt> {
    let mut data = ByteReader::new(data);
    let mut left = count;
    let mut set = 0;
    while left > 0 {
        let header = data.varint()?.ok_or("a run of levels has no header")?;
        let length = (header >> 1) as usize;
        if length == 0 {
            return Err("a run of no levels".into());
        }
        if header & 1 == 0 {
            let value = data.byte().ok_or("a run of levels has no value")?;
            let taken = length.min(left);
            let is_set = match value {
                0 => false,
                1 => true,
                _ => return Err("a level above 1".into()),
            };
            out.append_n(taken, is_set);
            set += if is_set { taken } else { 0 };
            left -= taken;
        } else {
            let taken = length.saturating_mul(8).min(left);
            let packed = data.rest().get(..taken.div_ceil(8)).ok_or("packed levels end early")?;
            out.append_packed_range(0..taken, packed);
            set += ones(packed, taken);
            // The last run may lack the bytes of its unused levels.
            data.take(length.min(data.rest().len()));
            left -= taken;
        }
    }

    Ok(set)
}

/// Returns whether the first `count` levels are one run of values that are present, as most writers encode them.
pub(crate) fn are_all_present(data: &[u8], count: usize) -> bool {
    let mut data = ByteReader::new(data);
    let header = data.varint().ok().flatten();
    header.is_some_and(|header| header & 1 == 0 && (header >> 1) as usize >= count) && data.byte() == Some(1)
}

fn ones(packed: &[u8], bits: usize) -> usize {
    let (whole, rest) = packed.split_at(bits / 8);
    let partial = rest.first().map_or(0, |byte| (byte & ((1_u16 << (bits % 8)) - 1) as u8).count_ones());
    whole.iter().map(|byte| byte.count_ones() as usize).sum::<usize>() + partial as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_bits_become_one_bitmap() {
        // A run of five set, then eight packed bits; three rows are needed.
        let mut bits = BooleanBufferBuilder::new(0);
        assert_eq!(append(&[5 << 1, 1, 1 << 1 | 1, 0b1111_0101], 8, &mut bits), Ok(7));
        assert_eq!(
            bits.finish().iter().collect::<Vec<_>>(),
            [true, true, true, true, true, true, false, true]
        );
    }

    #[test]
    fn one_run_of_present_values_is_told_by_its_header() {
        assert!(are_all_present(&[5 << 1, 1], 5) && are_all_present(&[5 << 1, 1, 9], 3));
        assert!(!are_all_present(&[5 << 1, 1, 1 << 1, 1], 6), "several runs");
        assert!(!are_all_present(&[5 << 1, 0], 5) && !are_all_present(&[5 << 1, 2], 5));
        assert!(!are_all_present(&[1 << 1 | 1, 0xff], 8), "a packed run");
        assert!(
            !are_all_present(&[], 0) && !are_all_present(&[5 << 1], 5) && !are_all_present(&[0xff; 6], 1)
        );
    }

    #[test]
    fn levels_that_end_early_or_are_too_high_are_errors() {
        let append = |data: &[u8], count| append(data, count, &mut BooleanBufferBuilder::new(0));
        assert!(append(&[], 1).is_err());
        assert!(append(&[2], 1).is_err());
        assert!(append(&[2, 2], 1).is_err());
        assert!(append(&[1], 1).is_err());
        assert!(append(&[5, 0], 16).is_err());
        assert!(append(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 1).is_err());
        assert_eq!(append(&[], 0), Ok(0));
    }
}
