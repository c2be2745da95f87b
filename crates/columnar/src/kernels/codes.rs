//! Dictionary codes: unpacked from bits, checked once against the size of the dictionary, widened on demand.
//!
//! This is the decode kernel. Eight values are unpacked at a time: a byte shuffle puts the bytes of each into a lane of
//! 32 bits, a shift per lane and a mask leave its bits. Memory is written once, never zeroed first. Processors without
//! AVX2 use the scalar loop, with the same result.

#![expect(
    unsafe_code,
    reason = "unpacking by vectors is several times faster, and a checked array is not checked again"
)]

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, PrimitiveArray},
    buffer::{BooleanBuffer, NullBuffer, ScalarBuffer},
    datatypes::{ArrowDictionaryKeyType, ArrowNativeType, UInt8Type, UInt16Type, UInt32Type},
    util::bit_iterator::BitSliceIterator,
};
use stylobate_storage::{ByteReader, Corrupt};

#[cfg(target_arch = "x86_64")]
mod avx2;
mod views;

pub(crate) use self::views::{ViewTables, string_views};

/// Integer type of codes.
pub(crate) trait DictionaryCode: ArrowNativeType + Ord + From<u8> {
    /// Key type of dictionary arrays with these codes.
    type Key: ArrowPrimitiveType<Native = Self> + ArrowDictionaryKeyType;
    /// Bits of a code.
    const BITS: u8;

    /// Truncates to the low bits.
    fn truncate(value: u32) -> Self;

    /// Unpacks as many values as whole vectors allow. Returns their number and the largest of them.
    ///
    /// # Safety
    ///
    /// The processor has AVX2; `out` has room for `count` values; `width` is from 1 to 25 and at most `Self::BITS`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn unpack_vectors(data: &[u8], width: u8, count: usize, out: *mut Self) -> (usize, Self);
}

macro_rules! code {
    ($native:ty, $key:ty, $bits:literal, $unpack:ident) => {
        impl DictionaryCode for $native {
            type Key = $key;
            const BITS: u8 = $bits;

            fn truncate(value: u32) -> Self {
                value as Self
            }

            #[cfg(target_arch = "x86_64")]
            unsafe fn unpack_vectors(data: &[u8], width: u8, count: usize, out: *mut Self) -> (usize, Self) {
                // SAFETY: the caller upholds the same contract.
                unsafe { avx2::$unpack(data, width, count, out) }
            }
        }
    };
}

code!(u8, UInt8Type, 8, unpack_u8);
code!(u16, UInt16Type, 16, unpack_u16);
code!(u32, UInt32Type, 32, unpack_u32);

/// The narrowest codes for the number of values of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeWidth {
    U8,
    U16,
    U32,
}

impl CodeWidth {
    /// Returns the narrowest codes for a dictionary of `values` values.
    pub(crate) fn of(values: usize) -> Self {
        match values {
            0..=256 => Self::U8,
            257..=65_536 => Self::U16,
            _ => Self::U32,
        }
    }
}

/// Codes that were checked when they were appended.
#[derive(Clone, Debug)]
pub(crate) struct Codes<T> {
    codes: Vec<T>,
    /// Invariant: each code is less than this, or is 0.
    limit: usize,
}

impl<T: DictionaryCode> Codes<T> {
    /// Creates empty codes with room for `rows` of them.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { codes: Vec::with_capacity(rows), limit: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.codes.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.codes.clear();
        self.limit = 0;
    }

    /// Runs `append`, which appends codes and fails unless all of them are less than `values`. If it fails or panics,
    /// the codes that it appended are removed, so that no unchecked code is left.
    fn append_checked(
        &mut self,
        values: usize,
        append: impl FnOnce(&mut Vec<T>) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        struct UncheckedCodes<'a, T> {
            codes: &'a mut Vec<T>,
            before: usize,
        }

        impl<T> Drop for UncheckedCodes<'_, T> {
            fn drop(&mut self) {
                self.codes.truncate(self.before);
            }
        }

        let before = self.codes.len();
        let mut unchecked = UncheckedCodes { codes: &mut self.codes, before };
        append(unchecked.codes)?;
        unchecked.before = unchecked.codes.len();

        self.limit = self.limit.max(values);
        Ok(())
    }

    pub(crate) fn push(&mut self, code: u32) {
        self.limit = self.limit.max(code as usize + 1);
        self.codes.push(T::truncate(code));
    }

    pub(crate) fn extend(&mut self, codes: &[u32]) {
        let max_code = codes.iter().fold(0, |max_code: u32, code| max_code.max(*code));
        self.limit = self.limit.max(max_code as usize + 1);
        self.codes.extend(codes.iter().map(|code| T::truncate(*code)));
    }

    /// Appends those of `present` where `valid` is set, and 0 elsewhere.
    pub(crate) fn append_scattered(&mut self, present: &Self, valid: &BooleanBuffer) {
        let before = self.codes.len();
        self.limit = self.limit.max(present.limit);
        self.codes.reserve(valid.len());
        let mut left = present.codes.as_slice();
        for (start, end) in BitSliceIterator::new(valid.values(), valid.offset(), valid.len()) {
            self.codes.resize(before + start, T::from(0));
            let (run, rest) = left.split_at(left.len().min(end - start));
            self.codes.extend_from_slice(run);
            left = rest;
        }

        self.codes.resize(before + valid.len(), T::from(0));
    }

    /// Narrows the codes to a type that holds them all.
    pub(crate) fn narrowed<N: DictionaryCode>(&self) -> Codes<N> {
        let codes = self.codes.iter().map(|code| N::truncate(code.as_usize() as u32)).collect();
        Codes { codes, limit: self.limit }
    }

    /// Returns a dictionary array. Fails if there are too few values.
    pub(crate) fn into_array(self, nulls: Option<NullBuffer>, values: ArrayRef) -> Result<ArrayRef, Corrupt> {
        if nulls.as_ref().is_some_and(|nulls| nulls.len() != self.codes.len()) {
            return Err("as many codes as rows are needed".into());
        }

        let all_null =
            nulls.as_ref().map_or(self.codes.is_empty(), |nulls| nulls.null_count() == nulls.len());
        if !all_null && self.limit.max(1) > values.len() {
            return Err("a code beyond the dictionary".into());
        }
        let keys = PrimitiveArray::<T::Key>::new(ScalarBuffer::from(self.codes), nulls);
        // SAFETY: every code is less than the number of values, or every row is null.
        Ok(Arc::new(unsafe { DictionaryArray::new_unchecked(keys, values) }))
    }
}

/// Appends the `count` codes that `data` holds in Parquet's hybrid of runs and packed bits. Fails, and appends nothing,
/// if any of them is not less than `values`.
pub(crate) fn append_hybrid<T: DictionaryCode>(
    data: &[u8],
    width: u8,
    count: usize,
    values: usize,
    codes: &mut Codes<T>,
) -> Result<(), Corrupt> {
    if width > 32 {
        return Err("codes of more than 32 bits".into());
    }
    // A code wider than `T` would lose bits.
    let values = values.min(1_usize.checked_shl(u32::from(T::BITS)).unwrap_or(usize::MAX));
    codes.append_checked(values, |out| append_runs(data, width, count, values, out))
}

/// Appends codes. After an error, the appended codes are unspecified.
fn append_runs<T: DictionaryCode>(
    data: &[u8],
    width: u8,
    count: usize,
    values: usize,
    out: &mut Vec<T>,
) -> Result<(), Corrupt> {
    let mut data = ByteReader::new(data);
    let mut left = count;
    while left > 0 {
        let header = data.varint()?.ok_or("a run of codes has no header")?;
        let length = (header >> 1) as usize;
        if header & 1 == 0 {
            let bytes = usize::from(width).div_ceil(8);
            let value = data.take(bytes).ok_or("a run of codes has no value")?;
            let value = value.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            if length == 0 {
                return Err("a run of no codes".into());
            }
            if value as usize >= values {
                return Err("a code beyond the dictionary".into());
            }

            let taken = length.min(left);
            out.resize(out.len() + taken, T::truncate(value));
            left -= taken;
        } else {
            let taken = length.checked_mul(8).ok_or("a run of codes is too long")?.min(left);
            let needed = (taken * usize::from(width)).div_ceil(8);
            if taken == 0 || data.rest().len() < needed {
                return Err("packed codes end early".into());
            }

            // The bytes after the run are passed as well: vectors may load them, but do not use them.
            append_packed(data.rest(), width, taken, values, out)?;
            // The last run may omit the bytes of its unused codes.
            data.take(length.saturating_mul(usize::from(width)).min(data.rest().len()));
            left -= taken;
        }
    }

    Ok(())
}

fn append_packed<T: DictionaryCode>(
    data: &[u8],
    width: u8,
    count: usize,
    values: usize,
    out: &mut Vec<T>,
) -> Result<(), Corrupt> {
    let max_code = if width == 0 {
        out.resize(out.len() + count, T::from(0));
        0
    } else if width <= T::BITS {
        unpack(data, width, count, out).as_usize()
    } else {
        // Some writers use more bits than the dictionary needs.
        let mut wide: Vec<u32> = Vec::with_capacity(count);
        let max_code = unpack(data, width, count, &mut wide);
        out.extend(wide.iter().map(|code| T::truncate(*code)));
        max_code as usize
    };

    if max_code < values { Ok(()) } else { Err("a code beyond the dictionary".into()) }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Appends `count` values of `width` bits, at most as many as `T` has, and returns the largest; `data` holds them all.
fn unpack<T: DictionaryCode>(data: &[u8], width: u8, count: usize, out: &mut Vec<T>) -> T {
    out.reserve(count);
    let mut done = 0;
    let mut max = T::from(0);

    #[cfg(target_arch = "x86_64")]
    if width <= 25 && has_avx2() {
        let start = out.len();
        let spare = out.spare_capacity_mut().as_mut_ptr().cast::<T>();
        // SAFETY: AVX2 was detected, `reserve` made room for `count` values, and the width is within bounds. All `done`
        // values were written.
        unsafe {
            (done, max) = T::unpack_vectors(data, width, count, spare);
            out.set_len(start + done);
        }
    }

    while done < count {
        let value = T::truncate(one(data, width, done));
        max = max.max(value);
        out.push(value);
        done += 1;
    }

    max
}

/// Returns the value at `index`; missing bits are 0.
fn one(data: &[u8], width: u8, index: usize) -> u32 {
    let bit = index * usize::from(width);
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(data.get(bit / 8..).unwrap_or_default()) {
        *to = *from;
    }
    (u64::from_le_bytes(bytes) >> (bit % 8) & ((1_u64 << width) - 1)) as u32
}

/// Widens the codes of a dictionary array. Returns it unchanged if its codes have that width, and `None` if they
/// are wider or of another type.
pub(crate) fn widened(array: &ArrayRef, width: CodeWidth) -> Option<ArrayRef> {
    fn widen<F: DictionaryCode + Into<T>, T: DictionaryCode>(from: &DictionaryArray<F::Key>) -> ArrayRef {
        let codes: Vec<T> = from.keys().values().iter().map(|code| (*code).into()).collect();
        let keys = PrimitiveArray::<T::Key>::new(ScalarBuffer::from(codes), from.keys().nulls().cloned());
        // SAFETY: they are the codes of an array with the same invariant.
        Arc::new(unsafe { DictionaryArray::new_unchecked(keys, from.values().clone()) })
    }

    let u8s = array.as_dictionary_opt::<UInt8Type>();
    let u16s = array.as_dictionary_opt::<UInt16Type>();
    let u32s = array.as_dictionary_opt::<UInt32Type>();

    match (width, u8s, u16s, u32s) {
        (CodeWidth::U8, Some(_), ..) | (CodeWidth::U16, _, Some(_), _) | (CodeWidth::U32, .., Some(_)) => {
            Some(array.clone())
        }
        (CodeWidth::U16, Some(from), ..) => Some(widen::<u8, u16>(from)),
        (CodeWidth::U32, Some(from), ..) => Some(widen::<u8, u32>(from)),
        (CodeWidth::U32, _, Some(from), _) => Some(widen::<u16, u32>(from)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
