//! Decodes integers in either version of run-length encoding.

use stylobate_storage::unzigzag;

use super::{
    reached::{DecodedPosition, skippable},
    unpack::unpack,
};
use crate::orc::{
    fault::OrcReadError,
    stream::OrcStreamReader,
    widths::{closest_width, decoded_width},
};

/// Maximum numbers of a run, which is decoded as a whole.
const MAX_RUN: usize = 512;
/// Capacity reserved for values before any is decoded.
pub(super) const INITIAL_CAPACITY: usize = 64 << 10;

/// Decoder of a stream of numbers of up to 64 bits; unsigned ones above `i64::MAX` are returned as negative numbers.
#[derive(Debug)]
pub(in crate::orc) struct IntRleDecoder {
    stream: OrcStreamReader,
    signed: bool,
    is_rle_v2: bool,
    run: Vec<i64>,
    /// Numbers of the run that were returned.
    used: usize,
    /// Patches of the run, if any.
    patches: Vec<i64>,
    /// Numbers to skip before the first requested one.
    before: u64,
}

impl IntRleDecoder {
    pub(in crate::orc) fn new(mut stream: OrcStreamReader, signed: bool, is_rle_v2: bool) -> Self {
        let before = stream.take_before().values;
        let run = Vec::with_capacity(MAX_RUN);
        let patches = Vec::new();
        Self { stream, signed, is_rle_v2, run, used: 0, patches, before }
    }

    /// Returns the position reached.
    pub(super) fn reached(&mut self) -> Result<DecodedPosition, OrcReadError> {
        self.begin()?;
        Ok(DecodedPosition { cursor: self.stream.cursor(), run: self.run.len() - self.used, bits: 0 })
    }

    /// Reads the next `len` numbers.
    pub(in crate::orc) fn read(&mut self, len: usize) -> Result<Vec<i64>, OrcReadError> {
        let mut values = Vec::with_capacity(len.min(INITIAL_CAPACITY));
        self.each(len, |piece| {
            values.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(values)
    }

    /// Emits the next `len` numbers, run by run, while they are in the CPU cache.
    pub(super) fn each(
        &mut self,
        len: usize,
        mut take: impl FnMut(&[i64]) -> Result<(), OrcReadError>,
    ) -> Result<(), OrcReadError> {
        let mut left = len;
        while left > 0 {
            let piece = self.piece(left)?;
            left -= piece.len();
            take(piece)?;
        }
        self.begin()
    }

    /// Returns the next numbers of the run: at most `max_count`, and at least 1.
    pub(super) fn piece(&mut self, max_count: usize) -> Result<&[i64], OrcReadError> {
        self.begin()?;
        self.fill()?;
        let ready = self.run.get(self.used..).unwrap_or_default();
        let piece = ready.get(..max_count).unwrap_or(ready);
        self.used += piece.len();
        Ok(piece)
    }

    /// Skips to the first requested number.
    fn begin(&mut self) -> Result<(), OrcReadError> {
        let mut before = skippable(std::mem::take(&mut self.before))?;
        while before > 0 {
            self.fill()?;
            let now = before.min(self.run.len() - self.used);
            self.used += now;
            before -= now;
        }
        Ok(())
    }

    /// Decodes the next run if the current one is exhausted.
    fn fill(&mut self) -> Result<(), OrcReadError> {
        if self.used == self.run.len() {
            self.run.clear();
            self.used = 0;
            if self.is_rle_v2 { self.second_run()? } else { self.first_run()? }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<i64, OrcReadError> {
        let value = self.stream.varint()?;
        Ok(if self.signed { unzigzag(value) } else { value as i64 })
    }

    /// Decodes a run or literals of version 1.
    fn first_run(&mut self) -> Result<(), OrcReadError> {
        let control = self.stream.byte()? as i8;
        if control < 0 {
            for _ in 0..control.unsigned_abs() {
                let literal = self.varint()?;
                self.run.push(literal);
            }
        } else {
            let delta = i64::from(self.stream.byte()? as i8);
            let base = self.varint()?;
            self.run
                .extend((0..i64::from(control) + 3).map(|step| base.wrapping_add(delta.wrapping_mul(step))));
        }

        Ok(())
    }

    /// Decodes a run of version 2: its two highest bits are its kind.
    fn second_run(&mut self) -> Result<(), OrcReadError> {
        let header = self.stream.byte()?;
        if header >> 6 == 0 {
            return self.short_repeat(header);
        }

        let len = (usize::from(header & 1) << 8 | usize::from(self.stream.byte()?)) + 1;
        let width = (header >> 1) & 0x1f;
        match header >> 6 {
            1 => self.direct(decoded_width(width), len),
            2 => self.patched_base(decoded_width(width), len),
            _ => self.delta(if width == 0 { 0 } else { decoded_width(width) }, len),
        }
    }

    fn short_repeat(&mut self, header: u8) -> Result<(), OrcReadError> {
        let value = self.big_endian(usize::from(header >> 3) + 1)?;
        let value = if self.signed { unzigzag(value) } else { value as i64 };
        self.run.extend(std::iter::repeat_n(value, usize::from(header & 7) + 3));
        Ok(())
    }

    fn direct(&mut self, width: u32, len: usize) -> Result<(), OrcReadError> {
        self.unpack(width, len)?;
        if self.signed {
            self.run.iter_mut().for_each(|value| *value = unzigzag(*value as u64));
        }
        Ok(())
    }

    /// Decodes numbers above a base, most of them in few bits; the high bits of those that need more follow as patches.
    fn patched_base(&mut self, width: u32, len: usize) -> Result<(), OrcReadError> {
        let third = self.stream.byte()?;
        let fourth = self.stream.byte()?;
        let base_bytes = usize::from(third >> 5) + 1;
        let patch_width = decoded_width(third & 0x1f);
        let gap_width = u32::from(fourth >> 5) + 1;
        let patches = usize::from(fourth & 0x1f);

        if patch_width + gap_width > 64 {
            return Err(OrcReadError::corrupt("patches of more than 64 bits"));
        }
        // Sign and magnitude, whether or not the numbers are signed.

        let base = self.big_endian(base_bytes)?;
        let sign = 1_u64 << (base_bytes * 8 - 1);
        let base = if base & sign == 0 { base as i64 } else { ((base & !sign) as i64).wrapping_neg() };

        self.unpack(width, len)?;
        self.patches.clear();
        let width_of_patch = closest_width(patch_width + gap_width);
        let bytes = self.stream.take_ahead(packed_bytes(width_of_patch, patches))?;
        unpack(bytes, width_of_patch, patches, &mut self.patches);
        let mut at = 0;

        for entry in &self.patches {
            let entry = *entry as u64;
            at += entry.checked_shr(patch_width).unwrap_or(0) as usize;
            let patch = if patch_width < 64 { entry & ((1 << patch_width) - 1) } else { entry };
            // An empty patch only extends the gap to the next one.
            if patch != 0 {
                let value = self
                    .run
                    .get_mut(at)
                    .ok_or_else(|| OrcReadError::corrupt("a patch past the end of its run"))?;
                *value |= patch.checked_shl(width).unwrap_or(0) as i64;
            }
        }

        self.run.iter_mut().for_each(|value| *value = value.wrapping_add(base));
        Ok(())
    }

    fn delta(&mut self, width: u32, len: usize) -> Result<(), OrcReadError> {
        let mut value = self.varint()?;
        let first = unzigzag(self.stream.varint()?);
        if width == 0 {
            self.run.extend((0..len as i64).map(|step| value.wrapping_add(first.wrapping_mul(step))));
            return Ok(());
        }

        let Some(more) = len.checked_sub(2) else {
            return Err(OrcReadError::corrupt("a run of differences with fewer than two values"));
        };

        let second = value.wrapping_add(first);
        self.run.extend([value, second]);
        self.unpack(width, more)?;
        // So far `run` has only the differences after these two numbers; differences after the first have no sign.
        let falls = first < 0;
        value = second;

        for slot in self.run.iter_mut().skip(2) {
            value = if falls { value.wrapping_sub(*slot) } else { value.wrapping_add(*slot) };
            *slot = value;
        }

        Ok(())
    }

    fn big_endian(&mut self, len: usize) -> Result<u64, OrcReadError> {
        let bytes = self.stream.take(len)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Appends numbers of `width` bits each to the run.
    fn unpack(&mut self, width: u32, len: usize) -> Result<(), OrcReadError> {
        let bytes = self.stream.take_ahead(packed_bytes(width, len))?;
        unpack(bytes, width, len, &mut self.run);
        Ok(())
    }
}

/// Returns the size in bytes of `len` numbers of `width` bits each, with the last byte padded.
fn packed_bytes(width: u32, len: usize) -> usize {
    (len * width as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn read(bytes: &[u8], signed: bool, is_rle_v2: bool, len: usize) -> Vec<i64> {
        let stream = OrcStreamReader::new(Bytes::copy_from_slice(bytes), None);
        let mut ints = IntRleDecoder::new(stream, signed, is_rle_v2);
        let values = ints.read(len).unwrap();
        assert!(ints.read(1).is_err(), "more values than expected");
        values
    }

    #[test]
    fn the_examples_of_the_specification_decode_to_what_it_says() {
        assert_eq!(read(&[0x61, 0x00, 0x07], false, false, 100), [7; 100]);
        assert_eq!(read(&[0x61, 0xff, 0x64], false, false, 100), (1..=100).rev().collect::<Vec<_>>());
        assert_eq!(read(&[0xfb, 0x02, 0x03, 0x04, 0x07, 0x0b], false, false, 5), [2, 3, 4, 7, 11]);
        assert_eq!(read(&[0x0a, 0x27, 0x10], false, true, 5), [10_000; 5]);
        let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
        assert_eq!(read(&direct, false, true, 4), [23_713, 43_806, 57_005, 48_879]);

        let patched = [
            0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a,
            0x64, 0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
        ];
        let mut expected = vec![2030, 2000, 2020, 1_000_000];
        expected.extend((2040..=2190).step_by(10));
        assert_eq!(read(&patched, false, true, 20), expected);
        let delta = [0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46];
        assert_eq!(read(&delta, false, true, 10), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    }

    #[test]
    fn a_base_above_which_64_bits_overflow_wraps_as_it_did_when_it_was_written() {
        // One value of 56 bits above a base of -(2^55), no patches.
        let mut bytes = vec![0x80 | 30 << 1, 0, 6 << 5, 0];
        bytes.extend([0x80 | 0x40, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0xff; 7]);
        assert_eq!(read(&bytes, true, true, 1), [(1 << 56) - 1 - (1 << 54)]);
    }

    #[test]
    fn differences_after_a_first_one_of_nothing_rise() {
        // 5, then 5 + 0, then differences of 3 and 1 in two bits each.
        assert_eq!(read(&[0xc0 | 1 << 1, 3, 10, 0, 0b1101_0000], true, true, 4), [5, 5, 8, 9]);
    }

    #[test]
    fn runs_that_end_too_soon_are_errors() {
        for bytes in [
            &[][..],
            &[0x61],
            &[0x5e, 0x03, 0x5c],
            &[0x8e, 0x13, 0x2b],
            &[0xc6, 0x09, 0x02],
            &[0xc2, 0, 1, 1],
        ] {
            for is_rle_v2 in [false, true] {
                let stream = OrcStreamReader::new(Bytes::copy_from_slice(bytes), None);
                assert!(IntRleDecoder::new(stream, true, is_rle_v2).read(600).is_err(), "{bytes:?}");
            }
        }
    }
}
