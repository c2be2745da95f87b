//! Columns of decimals: the digits of each, and how many of them lie behind the point.

use arrow::{array::ArrayRef, buffer::NullBuffer, datatypes::Decimal128Type};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{Encode, End, Notes, Wrong, present, primitive};
use crate::orc::write::{
    compression::Compressor,
    ints::Ints,
    options::ColumnPlan,
    packing::{push_varint, push_wide_varint, zigzag},
    statistics::{Detail, bounds_of, decimal, widen},
    stream::Stream,
};

pub(super) struct Decimals {
    precision: u8,
    scale: u32,
    digits: Stream,
    groups: Vec<u64>,
    scales: Ints,
    room: Vec<i128>,
}

impl Decimals {
    pub(super) fn new(precision: u8, scale: u32, options: &ColumnPlan) -> Self {
        Self {
            precision,
            scale,
            digits: Stream::new(options.chunk),
            groups: Vec::new(),
            scales: Ints::of(true, options),
            room: Vec::new(),
        }
    }
}

impl Encode for Decimals {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        notes: &mut Notes,
    ) -> Result<(), Wrong> {
        let array = primitive::<Decimal128Type>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        let Some((min, max)) = bounds_of(values) else { return Ok(()) };
        let limit = 10_i128.pow(u32::from(self.precision));
        if let Some(value) = [min, max].into_iter().find(|value| *value <= -limit || *value >= limit) {
            let value = decimal(value, self.scale);
            return Err(format!("{value} has more digits than a decimal of {} holds", self.precision).into());
        }
        if let Detail::Decimals { bounds, sum, .. } = &mut notes.statistics.detail {
            widen(bounds, Some((min, max)));
            *sum = values
                .iter()
                .try_fold((*sum).unwrap_or_default(), |sum, value| sum.checked_add(*value))
                .filter(|_| sum.is_some());
        }
        if let Some(bloom) = &mut notes.bloom {
            values.iter().for_each(|value| bloom.add_bytes(decimal(*value, self.scale).as_bytes()));
        }
        for &value in values {
            match i64::try_from(value) {
                Ok(value) => push_varint(zigzag(value), &mut self.digits.raw),
                Err(_) => push_wide_varint((value << 1 ^ value >> 127) as u128, &mut self.digits.raw),
            }
        }
        self.scales.repeat(i64::from(self.scale), values.len());
        Ok(())
    }

    fn begin_group(&mut self) {
        self.groups.push(self.digits.position());
        self.scales.begin_group();
    }

    fn squeeze(&mut self, compressor: &mut Compressor) -> Result<(), String> {
        self.digits.squeeze(compressor)?;
        self.scales.squeeze(compressor)
    }

    fn memory(&self) -> usize {
        self.digits.memory() + self.scales.memory()
    }

    fn encoded(&self) -> usize {
        self.digits.encoded() + self.scales.encoded()
    }

    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong> {
        let digits = self.digits.finish(compressor)?;
        for (entry, group) in end.entries.iter_mut().zip(&self.groups) {
            digits.place(*group, entry);
        }
        let scales = self.scales.finish(compressor)?;
        scales.places(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.extend([(StreamKind::Data, digits), (StreamKind::Secondary, scales.written)]);
        Ok(())
    }
}
