//! Encodes runs of patched base: most numbers in few bits above the minimum, with patches after them for the high bits
//! of those that need more.

use super::packing::{bits, bytes_of, pack};
use crate::orc::widths::{closest_width, encoded_width};

/// Maximum patches: a twentieth of the longest run, as in reference writers; with the entries that only extend gaps
/// they are fewer than the 31 that can be counted.
const MAX_PATCHES: usize = 26;
/// Maximum magnitude of a base that readers accept.
const MAX_BASE: u64 = 1 << 56;
/// Maximum bits of a patch: with its gap it is packed into 64 bits.
const MAX_PATCH_BITS: u32 = 56;
/// Maximum gap from one patch to the next.
const MAX_GAP: usize = 255;
const MAX_GAP_BITS: u32 = 8;
/// Numbers that are examined together.
const PIECE: usize = 64;
/// Minimum numbers of a run that is worth patching.
const MIN_NUMBERS: usize = 8;

/// Split of a run into numbers and patches.
pub(crate) struct PatchedBasePlan {
    base: i64,
    /// Bits of each number.
    pub(crate) width: u32,
    patch_width: u32,
    /// Approximate bytes of the run.
    pub(crate) bytes: usize,
}

impl PatchedBasePlan {
    /// Returns the best split of numbers between `min` and `max`, whose difference does not overflow; `None` if there
    /// is none.
    pub(crate) fn of(numbers: &[i64], min: i64, max: i64) -> Option<Self> {
        if numbers.len() < MIN_NUMBERS || min.unsigned_abs() >= MAX_BASE {
            return None;
        }

        let widest = bits(max.abs_diff(min));
        // Usually too many numbers are large, which is detected early.
        let half = 1_u64.wrapping_shl(widest.saturating_sub(1));
        let mut large = 0;

        for piece in numbers.chunks(PIECE) {
            large += piece.iter().filter(|number| number.abs_diff(min) >= half).count();
            if large > MAX_PATCHES {
                return None;
            }
        }
        // Count of numbers by their bits above the base.

        let mut counts = [0_u16; u64::BITS as usize + 1];
        for number in numbers {
            let needed = bits(number.abs_diff(min)) as usize;
            if let Some(count) = counts.get_mut(needed) {
                *count += 1;
            }
        }

        let mut best: Option<Self> = None;
        let mut patched = 0;
        for (width, count) in counts.iter().enumerate().take(widest as usize + 1).rev() {
            let width = width as u32;
            if patched > MAX_PATCHES {
                break;
            }

            if patched > 0 && width > 0 && closest_width(width) == width {
                let patch_width = closest_width(widest - width);
                if patch_width <= MAX_PATCH_BITS {
                    let entry = closest_width(patch_width + MAX_GAP_BITS);
                    let bytes = 4
                        + base_bytes(min)
                        + bytes_of(numbers.len(), width)
                        + bytes_of(patched + patched / 8, entry);
                    if best.as_ref().is_none_or(|best| bytes < best.bytes) {
                        best = Some(Self { base: min, width, patch_width, bytes });
                    }
                }
            }

            patched += usize::from(*count);
        }

        best
    }

    /// Appends the run after its first two bytes.
    pub(crate) fn append(&self, numbers: &[i64], scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
        let Self { base, width, patch_width, .. } = *self;
        let mask = u64::MAX >> (u64::BITS - width);
        // Each patch with its gap to the previous one.
        let mut patches: Vec<(usize, u64)> = Vec::with_capacity(MAX_PATCHES + 2);
        let mut last = 0;
        scratch.clear();

        for (at, number) in numbers.iter().enumerate() {
            let above = number.abs_diff(base);
            if above > mask {
                let mut gap = at - last;
                while gap > MAX_GAP {
                    patches.push((MAX_GAP, 0));
                    gap -= MAX_GAP;
                }
                patches.push((gap, above >> width));
                last = at;
            }

            scratch.push(above & mask);
        }

        let longest = patches.iter().map(|(gap, _)| *gap).max().unwrap_or_default();
        let gap_width = bits(longest as u64).max(1);

        let base_bytes = base_bytes(base);
        out.push((base_bytes as u8 - 1) << 5 | encoded_width(patch_width));
        out.push((gap_width as u8 - 1) << 5 | patches.len() as u8);
        let sign = if base < 0 { 1 << (base_bytes * 8 - 1) } else { 0 };
        let signed = base.unsigned_abs() | sign;
        out.extend_from_slice(signed.to_be_bytes().get(8 - base_bytes..).unwrap_or_default());
        pack(scratch, width, out);
        scratch.clear();
        scratch.extend(patches.iter().map(|(gap, patch)| (*gap as u64) << patch_width | patch));
        pack(scratch, closest_width(gap_width + patch_width), out);
    }
}

/// Returns the size in bytes of a base and its sign.
fn base_bytes(base: i64) -> usize {
    (bits(base.unsigned_abs()) + 1).div_ceil(8) as usize
}
