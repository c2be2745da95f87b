//! Decodes columns of booleans, integers, floating-point numbers, dates and decimals.

use std::{marker::PhantomData, sync::Arc};

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Int8Array, PrimitiveArray,
    },
    buffer::NullBuffer,
    datatypes::Date32Type,
};

use super::{
    OrcColumnReader,
    bits::{BatchValidity, BooleanRleDecoder, ByteRleDecoder, PresentStreamDecoder},
    ints::{INITIAL_CAPACITY, IntRleDecoder},
    reached::DecodedPosition,
};
use crate::orc::{calendar::Calendar, fault::OrcReadError, stream::OrcStreamReader};

/// Exponent of the largest power of ten, which is the maximum precision.
const MAX_POWER: u32 = 38;
/// Floating-point numbers that are converted from bytes at a time.
const FLOATS_PER_READ: usize = 1024;

pub(super) struct BooleanColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) bits: BooleanRleDecoder,
}

impl OrcColumnReader for BooleanColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let values = rows.spread_bits(self.bits.read(rows.values())?);
        Ok(Arc::new(BooleanArray::new(values, rows.nulls)))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.bits.reached()?);
        Ok(())
    }
}

pub(super) struct ByteColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) runs: ByteRleDecoder,
}

impl OrcColumnReader for ByteColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let values = self.runs.read(rows.values())?.into_iter().map(|byte| byte as i8).collect();
        Ok(Arc::new(Int8Array::new(rows.scatter(values).into(), rows.nulls)))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.runs.reached()?);
        Ok(())
    }
}

/// Decoder of integers and dates.
pub(super) struct IntColumnReader<T> {
    pub(super) presence: PresentStreamDecoder,
    pub(super) ints: IntRleDecoder,
    pub(super) of: PhantomData<fn() -> T>,
}

/// Decoder of dates in a file that counts early ones by the Julian calendar.
pub(super) struct HybridDateColumnReader(pub(super) IntColumnReader<Date32Type>);

impl OrcColumnReader for HybridDateColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let days = self.0.next(len, parent)?;
        let named = days.as_primitive::<Date32Type>().try_unary::<_, Date32Type, _>(|day| {
            let named = Calendar::Hybrid.day(i64::from(day));
            i32::try_from(named)
                .map_err(|_| OrcReadError::corrupt(format!("{day} days since 1970 are no date")))
        });
        Ok(Arc::new(named?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        self.0.reached(reached)
    }
}

/// Integer of up to 64 bits.
pub(super) trait OrcNativeInt: Copy + Into<i64> {
    /// Truncates to the lowest bits.
    fn lowest(number: i64) -> Self;
}

macro_rules! whole {
    ($($native:ty)*) => {
        $(impl OrcNativeInt for $native {
            fn lowest(number: i64) -> Self {
                number as Self
            }
        })*
    };
}

whole!(i16 i32 i64);

impl<T> OrcColumnReader for IntColumnReader<T>
where
    T: ArrowPrimitiveType,
    T::Native: OrcNativeInt,
{
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let mut values: Vec<T::Native> = Vec::with_capacity(rows.values().min(INITIAL_CAPACITY));
        self.ints.each(rows.values(), |piece| {
            values.extend(piece.iter().map(|number| T::Native::lowest(*number)));
            let is_itself = |number: &i64| T::Native::lowest(*number).into() == *number;
            if piece.iter().fold(true, |all, number| all & is_itself(number)) {
                return Ok(());
            }
            let large = piece.iter().find(|number| !is_itself(number)).copied().unwrap_or_default();
            Err(OrcReadError::corrupt(format!("{large} is too large for {}", T::DATA_TYPE)))
        })?;

        Ok(Arc::new(PrimitiveArray::<T>::new(rows.scatter(values).into(), rows.nulls)))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.ints.reached()?);
        Ok(())
    }
}

/// Decoder of floating-point numbers: `SIZE` little-endian bytes each.
pub(super) struct FloatColumnReader<T, const SIZE: usize> {
    pub(super) presence: PresentStreamDecoder,
    pub(super) stream: OrcStreamReader,
    pub(super) of: PhantomData<fn() -> T>,
}

/// Number that is stored as its bytes.
pub(super) trait FromLeBytes<const SIZE: usize> {
    fn from_bytes(bytes: [u8; SIZE]) -> Self;
}

impl FromLeBytes<4> for f32 {
    fn from_bytes(bytes: [u8; 4]) -> Self {
        Self::from_le_bytes(bytes)
    }
}

impl FromLeBytes<8> for f64 {
    fn from_bytes(bytes: [u8; 8]) -> Self {
        Self::from_le_bytes(bytes)
    }
}

impl<T, const SIZE: usize> OrcColumnReader for FloatColumnReader<T, SIZE>
where
    T: ArrowPrimitiveType,
    T::Native: FromLeBytes<SIZE>,
{
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let mut values = Vec::with_capacity(rows.values().min(INITIAL_CAPACITY));
        while values.len() < rows.values() {
            let bytes = self.stream.take((rows.values() - values.len()).min(FLOATS_PER_READ) * SIZE)?;
            values.extend(bytes.as_chunks::<SIZE>().0.iter().map(|bytes| T::Native::from_bytes(*bytes)));
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(rows.scatter(values).into(), rows.nulls)))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(DecodedPosition::of(&self.stream));
        Ok(())
    }
}

/// Decoder of decimals: unscaled values, and the scale of each.
pub(super) struct DecimalColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) digits: OrcStreamReader,
    pub(super) scales: IntRleDecoder,
    pub(super) precision: u8,
    pub(super) scale: i8,
}

impl OrcColumnReader for DecimalColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let mut values = Vec::with_capacity(rows.values().min(INITIAL_CAPACITY));
        // Union of all bits, which shows for nearly all columns that no value is too large.
        let mut any = 0;
        let digits = &mut self.digits;
        let scale = i64::from(self.scale);
        self.scales.each(rows.values(), |scales| {
            let before = values.len();
            any |= digits.wide_zigzags(scales.len(), &mut values)?;
            if scales.iter().fold(true, |same, of| same & (*of == scale)) {
                return Ok(());
            }

            any = u128::MAX;
            for (digits, from) in values.iter_mut().skip(before).zip(scales) {
                *digits = rescaled(*digits, *from, scale).ok_or_else(|| {
                    OrcReadError::corrupt(format!("{digits} of scale {from} cannot have a scale of {scale}"))
                })?;
            }

            Ok(())
        })?;

        decimals(rows, values, any, self.precision, self.scale)
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(DecodedPosition::of(&self.digits));
        reached.push(self.scales.reached()?);
        Ok(())
    }
}

/// Decoder of decimals of up to 18 digits, all of the column's scale.
pub(super) struct ShortDecimalColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) ints: IntRleDecoder,
    pub(super) precision: u8,
    pub(super) scale: i8,
}

impl OrcColumnReader for ShortDecimalColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let mut values = Vec::with_capacity(rows.values().min(INITIAL_CAPACITY));
        self.ints.each(rows.values(), |piece| {
            values.extend(piece.iter().map(|number| i128::from(*number)));
            Ok(())
        })?;
        decimals(rows, values, u128::MAX, self.precision, self.scale)
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.ints.reached()?);
        Ok(())
    }
}

/// Returns the rows, given in `any` the union of the bits of all zigzag-encoded values.
fn decimals(
    rows: BatchValidity,
    values: Vec<i128>,
    any: u128,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef, OrcReadError> {
    let limit = 10_u128.pow(u32::from(precision).min(MAX_POWER));
    let may_be_large = (any >> 1) + 1 >= limit;
    let mut large = values.iter().filter(|value| may_be_large && value.unsigned_abs() >= limit);
    if let Some(value) = large.next() {
        return Err(OrcReadError::corrupt(format!("{value} has more than {precision} digits")));
    }

    let array = Decimal128Array::new(rows.scatter(values).into(), rows.nulls);
    let array = array.with_precision_and_scale(precision, scale);
    Ok(Arc::new(array.map_err(|error| OrcReadError::corrupt(error.to_string()))?))
}

/// Returns the value with another scale; `None` if digits would be lost.
fn rescaled(digits: i128, from: i64, to: i64) -> Option<i128> {
    let power = |digits: i64| 10_i128.checked_pow(u32::try_from(digits).ok()?);
    match to.checked_sub(from)? {
        _ if digits == 0 => Some(0),
        0 => Some(digits),
        more @ 1.. => digits.checked_mul(power(more)?),
        fewer => {
            let power = power(fewer.checked_neg()?)?;
            (digits % power == 0).then(|| digits / power)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rescaled;

    #[test]
    fn decimals_keep_their_value_when_their_scale_changes() {
        assert_eq!(rescaled(15, 1, 3), Some(1500));
        assert_eq!(rescaled(-1500, 3, 1), Some(-15));
        assert_eq!(rescaled(1501, 3, 1), None);
        assert_eq!(rescaled(0, i64::MIN, 38), None);
        assert_eq!(rescaled(0, 1000, 0), Some(0));
        assert_eq!(rescaled(1, -100, 10), None);
        assert_eq!(rescaled(i128::MAX, 0, 1), None);
    }
}
