//! Encodes integers in version 2 of run-length encoding.
//!
//! Numbers are processed in blocks of 512. A block is one run, or is split where a value repeats often enough that
//! a separate run is shorter; the parts in between become the shortest of three other kinds of runs.
//!
//! ```text
//! short repeat   one value, 3 to 10 times                         1 byte and the value
//! direct         each value in as many bits as the largest needs  2 bytes and the values
//! patched base   most values in few bits above the least, and the high bits of the others after them
//! delta          first value, first difference, and the other differences if they all have its sign
//! ```

use std::ops::{Range, RangeInclusive};

use super::{
    packing::{bits, bytes_of, pack, push_varint, varint_bytes, zigzag},
    patches::PatchedBasePlan,
};
use crate::orc::{
    widths::{closest_width, encoded_width},
    write::{
        compression::OrcChunkCompressor,
        options::OrcEncoderOptions,
        stream::{OrcEncodedStream, OrcStreamWriter},
    },
};

/// Maximum numbers of a run, and of a block.
const BLOCK: usize = 512;
/// Lengths of a short repeat.
const SHORT_REPEAT: RangeInclusive<usize> = 3..=10;
/// Bits of the header of the run that resumes after a repeat.
const REPEAT_ALONE_BITS: usize = 16;
/// Bits of the shortest repeat, including that header.
const MIN_REPEAT_BITS: usize = 16 + REPEAT_ALONE_BITS;
/// Minimum number of bits by which the largest difference exceeds the mean for patches to be tried: only few
/// differences are large then.
const UNEVEN_BITS: u32 = 4;
const DIRECT: u8 = 1;
const PATCHED_BASE: u8 = 2;
const DELTA: u8 = 3;

/// Sign and packing of a stream's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RleV2Options {
    pub(crate) signed: bool,
    /// Only widths of 1, 2, 4 or a multiple of 8 bits are used: they compress better.
    pub(crate) aligned: bool,
}

/// Position of a row group in a stream of numbers: the offset of its run, and the numbers of the run before it.
#[derive(Clone, Copy, Debug)]
struct IntRunPosition {
    position: u64,
    consumed: u64,
}

/// Encoder of a stream of integers; unsigned ones are at most `i64::MAX`.
pub(crate) struct RleV2Encoder {
    stream: OrcStreamWriter,
    packing: RleV2Options,
    /// Numbers of the incomplete block.
    block: Vec<i64>,
    marks: Vec<IntRunPosition>,
    scratch: Vec<u64>,
}

/// Encoded stream, and the positions of row groups in it.
pub(crate) struct EncodedIntStream {
    pub(crate) written: OrcEncodedStream,
    marks: Vec<IntRunPosition>,
}

impl EncodedIntStream {
    /// Appends the positions to the row index of each row group.
    pub(crate) fn append_positions(&self, entries: &mut [Vec<u64>]) {
        for (entry, mark) in entries.iter_mut().zip(&self.marks) {
            self.written.append_position(mark.position, entry);
            entry.push(mark.consumed);
        }
    }
}

impl RleV2Encoder {
    /// Creates an encoder with the options of a column.
    pub(crate) fn of(signed: bool, options: &OrcEncoderOptions) -> Self {
        Self::new(RleV2Options { signed, aligned: options.aligned }, options.chunk)
    }

    fn new(packing: RleV2Options, chunk: usize) -> Self {
        Self {
            stream: OrcStreamWriter::new(chunk),
            packing,
            block: Vec::with_capacity(BLOCK),
            marks: Vec::new(),
            scratch: Vec::with_capacity(BLOCK),
        }
    }

    pub(crate) fn begin_group(&mut self) {
        self.marks
            .push(IntRunPosition { position: self.stream.position(), consumed: self.block.len() as u64 });
    }

    /// Appends `number` of each value.
    #[inline]
    pub(crate) fn push<T: Copy>(&mut self, values: &[T], number: impl Fn(T) -> i64) {
        let mut rest = values;
        while !rest.is_empty() {
            let (now, later) = rest.split_at((BLOCK - self.block.len()).min(rest.len()));
            self.block.extend(now.iter().map(|value| number(*value)));
            rest = later;
            if self.block.len() == BLOCK {
                self.end_block();
            }
        }
    }

    /// Appends one number many times.
    pub(crate) fn repeat(&mut self, number: i64, mut times: usize) {
        while times > 0 {
            let now = (BLOCK - self.block.len()).min(times);
            self.block.resize(self.block.len() + now, number);
            times -= now;
            if self.block.len() == BLOCK {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        encode(&self.block, self.packing, &mut self.scratch, &mut self.stream.raw);
        self.block.clear();
    }

    pub(crate) fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.stream.compress(compressor)
    }

    pub(crate) fn memory(&self) -> usize {
        self.stream.memory() + 2 * BLOCK * size_of::<i64>()
    }

    pub(crate) fn encoded(&self) -> usize {
        self.stream.encoded() + self.block.len()
    }

    pub(crate) fn finish(mut self, compressor: &mut OrcChunkCompressor) -> Result<EncodedIntStream, String> {
        self.end_block();
        Ok(EncodedIntStream { written: self.stream.finish(compressor)?, marks: self.marks })
    }
}

/// Properties of numbers that select their encoding.
struct IntRunStats {
    min: i64,
    max: i64,
    /// Bits of the largest packed number.
    any: u32,
    /// True if no difference is negative, or none is positive; only for numbers whose differences do not overflow.
    rises: bool,
    falls: bool,
    /// Bits of the largest difference after the first, as an absolute value; meaningless unless numbers rise or fall.
    differences: u32,
    /// True if all differences are equal.
    steady: bool,
}

impl IntRunStats {
    fn of(numbers: &[i64], packing: RleV2Options) -> Self {
        let first = numbers.first().copied().unwrap_or_default();
        let later = numbers.get(1..).unwrap_or_default();
        let step = later.first().map_or(0, |second| second.wrapping_sub(first));
        let (min, max) = bounds(numbers);
        // Unordered numbers are detected early.
        let pairs = numbers.iter().zip(later);
        let rises = pairs.clone().all(|(before, number)| number.wrapping_sub(*before) >= 0);
        let falls = pairs.clone().all(|(before, number)| before.wrapping_sub(*number) >= 0);
        let steady = pairs.clone().all(|(before, number)| number.wrapping_sub(*before) == step);

        let differences = if rises || falls {
            pairs.skip(1).fold(0, |any, (before, number)| any | number.abs_diff(*before))
        } else {
            0
        };
        let any = bits(packing.packed(min)).max(bits(packing.packed(max)));
        Self { min, max, any, rises, falls, differences: bits(differences), steady }
    }

    /// Returns whether no difference between two of them overflows.
    fn is_narrow(&self) -> bool {
        self.max.checked_sub(self.min).is_some()
    }
}

/// Returns the minimum and maximum, in independent lanes.
fn bounds(numbers: &[i64]) -> (i64, i64) {
    let Some(&first) = numbers.first() else { return (0, 0) };
    let (pairs, rest) = numbers.as_chunks::<2>();
    let one = rest.first().copied().unwrap_or(first);
    let mut min = (one, one);
    let mut max = (one, one);

    for [left, right] in pairs {
        min = (min.0.min(*left), min.1.min(*right));
        max = (max.0.max(*left), max.1.max(*right));
    }

    (min.0.min(min.1), max.0.max(max.1))
}

/// Appends the runs of up to 512 numbers.
pub(crate) fn encode(numbers: &[i64], packing: RleV2Options, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    let Some(&first) = numbers.first() else { return };
    if numbers.len() >= *SHORT_REPEAT.start() && numbers.iter().all(|number| *number == first) {
        return repeat(first, numbers.len(), packing, out);
    }

    let shape = IntRunStats::of(numbers, packing);
    if shape.steady {
        return segment(numbers, &shape, packing, scratch, out);
    }

    let each = if (shape.rises || shape.falls) && shape.is_narrow() {
        packing.width(shape.differences)
    } else {
        packing.width(shape.any)
    };
    let mut rest = numbers;
    while let Some(run) = repeat_that_pays(rest, each as usize, packing) {
        let (before, behind) = rest.split_at(run.start);
        whole_segment(before, packing, scratch, out);
        if let Some(value) = behind.first() {
            repeat(*value, run.len(), packing, out);
        }
        rest = behind.get(run.len()..).unwrap_or_default();
    }

    if rest.len() == numbers.len() {
        segment(numbers, &shape, packing, scratch, out);
    } else {
        whole_segment(rest, packing, scratch, out);
    }
}

/// Returns the first repeat that is shorter as a separate run than with `each` bits per number, even with the cost
/// of ending the previous run.
fn repeat_that_pays(numbers: &[i64], each: usize, packing: RleV2Options) -> Option<Range<usize>> {
    // No shorter repeat pays, and every repeat of at least that length covers one of the positions probed at this
    // distance.
    let min_len = (MIN_REPEAT_BITS / each.max(1) + 1).max(*SHORT_REPEAT.start());
    let mut probe = min_len - 1;
    while let Some(value) = numbers.get(probe) {
        let is_same = |number: &&i64| *number == value;
        let start = probe - numbers.iter().take(probe).rev().take_while(is_same).count();
        let end = probe + numbers.iter().skip(probe).take_while(is_same).count();
        let times = end - start;
        if times >= min_len && repeat_bits(*value, times, packing) + REPEAT_ALONE_BITS < times * each {
            return Some(start..end);
        }
        probe = end + min_len - 1;
    }

    None
}

impl RleV2Options {
    /// Returns the width in which numbers of `bits` bits are packed.
    fn width(self, bits: u32) -> u32 {
        if !self.aligned {
            closest_width(bits)
        } else if bits <= 8 {
            bits.max(1).next_power_of_two()
        } else {
            bits.next_multiple_of(8)
        }
    }

    /// Packs a number: zigzag if signed.
    fn packed(self, number: i64) -> u64 {
        if self.signed { zigzag(number) } else { number as u64 }
    }
}

/// Returns the bits of a run that repeats a value.
fn repeat_bits(value: i64, times: usize, packing: RleV2Options) -> usize {
    let packed = packing.packed(value);
    if SHORT_REPEAT.contains(&times) {
        8 + 8 * bits(packed).max(1).div_ceil(8) as usize
    } else {
        8 * (3 + varint_bytes(packed))
    }
}

fn repeat(value: i64, times: usize, packing: RleV2Options, out: &mut Vec<u8>) {
    let packed = packing.packed(value);
    if SHORT_REPEAT.contains(&times) {
        let bytes = bits(packed).max(1).div_ceil(8) as usize;
        out.push((bytes as u8 - 1) << 3 | (times - SHORT_REPEAT.start()) as u8);
        out.extend_from_slice(packed.to_be_bytes().get(8 - bytes..).unwrap_or_default());
    } else {
        header(DELTA, 0, times, out);
        push_varint(packed, out);
        out.push(0);
    }
}

/// Appends the two bytes that most runs begin with; `width` is the code.
fn header(kind: u8, width: u8, len: usize, out: &mut Vec<u8>) {
    let len = len.saturating_sub(1);
    out.extend([kind << 6 | width << 1 | (len >> 8) as u8, len as u8]);
}

fn whole_segment(numbers: &[i64], packing: RleV2Options, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    if !numbers.is_empty() {
        segment(numbers, &IntRunStats::of(numbers, packing), packing, scratch, out);
    }
}

/// Appends numbers as one run, or as two if the differences must begin with one that is not 0.
fn segment(
    numbers: &[i64],
    shape: &IntRunStats,
    packing: RleV2Options,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    let (Some(&first), Some(&second)) = (numbers.first(), numbers.get(1)) else {
        return direct(numbers, shape, packing, scratch, out);
    };

    let direct_bytes = 2 + bytes_of(numbers.len(), packing.width(shape.any));
    if !shape.is_narrow() {
        return direct(numbers, shape, packing, scratch, out);
    }
    if shape.rises || shape.falls {
        let delta_bytes = |first: i64, second: i64| {
            let more = if shape.steady {
                0
            } else {
                bytes_of(numbers.len() - 2, packing.width(shape.differences.max(2)))
            };
            2 + varint_bytes(packing.packed(first)) + varint_bytes(zigzag(second.wrapping_sub(first))) + more
        };
        // If few differences need many bits, patches may be shorter.

        let mean = shape.max.abs_diff(shape.min) / numbers.len() as u64;
        let patched_bytes = if shape.differences >= bits(mean) + UNEVEN_BITS {
            PatchedBasePlan::of(numbers, shape.min, shape.max).map_or(usize::MAX, |patches| patches.bytes)
        } else {
            usize::MAX
        };
        let others = direct_bytes.min(patched_bytes);
        if first != second {
            if delta_bytes(first, second) < others {
                return delta(numbers, shape, packing, scratch, out);
            }
        } else if numbers.len() > 4 {
            // The first difference carries the sign, so the equal values before it become a separate run.
            let equal = numbers.iter().take_while(|number| **number == first).count();
            let (before, behind) = numbers.split_at(equal - 1);
            let next = numbers.get(equal).copied().unwrap_or(first);
            let cost = 2 + bytes_of(before.len(), packing.width(bits(packing.packed(first))));

            if delta_bytes(first, next) + cost < others {
                encode_constant(before, packing, scratch, out);
                return delta(behind, &IntRunStats::of(behind, packing), packing, scratch, out);
            }
        }
    }

    if let Some(patches) =
        PatchedBasePlan::of(numbers, shape.min, shape.max).filter(|it| it.bytes < direct_bytes)
    {
        header(PATCHED_BASE, encoded_width(patches.width), numbers.len(), out);
        return patches.append(numbers, scratch, out);
    }
    direct(numbers, shape, packing, scratch, out);
}

/// Appends numbers that are all the same.
fn encode_constant(numbers: &[i64], packing: RleV2Options, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    match numbers {
        [value, _, _, ..] => repeat(*value, numbers.len(), packing, out),
        few => direct(few, &IntRunStats::of(few, packing), packing, scratch, out),
    }
}

fn direct(
    numbers: &[i64],
    shape: &IntRunStats,
    packing: RleV2Options,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    let width = packing.width(shape.any);
    header(DIRECT, encoded_width(width), numbers.len(), out);
    scratch.clear();
    if packing.signed {
        scratch.extend(numbers.iter().map(|number| zigzag(*number)));
    } else {
        scratch.extend(numbers.iter().map(|number| *number as u64));
    }
    pack(scratch, width, out);
}

/// Appends numbers that rise or fall, where the first difference is not 0.
fn delta(
    numbers: &[i64],
    shape: &IntRunStats,
    packing: RleV2Options,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    let (Some(&first), Some(&second)) = (numbers.first(), numbers.get(1)) else {
        return direct(numbers, shape, packing, scratch, out);
    };
    // The code of one bit means that all differences are the same.

    let width = packing.width(shape.differences.max(2));
    header(DELTA, if shape.steady { 0 } else { encoded_width(width) }, numbers.len(), out);
    push_varint(packing.packed(first), out);
    push_varint(zigzag(second.wrapping_sub(first)), out);
    if !shape.steady {
        let differences = numbers.iter().skip(1).zip(numbers.iter().skip(2));
        scratch.clear();
        scratch.extend(differences.map(|(before, number)| number.abs_diff(*before)));
        pack(scratch, width, out);
    }
}
