//! Encodes columns of decimals: unscaled values, and their scales.

use arrow::{array::ArrayRef, buffer::NullBuffer, datatypes::Decimal128Type};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, OrcColumnWriter, RowGroupStats, present, primitive};
use crate::orc::write::{
    compression::OrcChunkCompressor,
    encode::{
        ints::RleV2Encoder,
        packing::{push_varints, push_wide_varint, zigzag},
    },
    options::OrcEncoderOptions,
    statistics::{OrcTypeStatistics, bounds_of, decimal, widen},
    stream::OrcStreamWriter,
};

/// Values that are processed while they are in the CPU cache.
const BLOCK: usize = 512;

pub(super) struct DecimalColumnWriter {
    precision: u8,
    scale: u32,
    digits: OrcStreamWriter,
    groups: Vec<u64>,
    scales: RleV2Encoder,
    room: Vec<i128>,
    /// Zigzag values, if 64 bits are enough.
    short: Vec<u64>,
}

impl DecimalColumnWriter {
    pub(super) fn new(precision: u8, scale: u32, options: &OrcEncoderOptions) -> Self {
        Self {
            precision,
            scale,
            digits: OrcStreamWriter::new(options.chunk),
            groups: Vec::new(),
            scales: RleV2Encoder::of(true, options),
            room: Vec::new(),
            short: Vec::new(),
        }
    }
}

/// Minimum, maximum and sum of some values; the sum is `None` if it exceeds 128 bits.
type DecimalSummary = (i128, i128, Option<i128>);

/// Appends values, and summarizes them; `None` if there are none.
fn append(values: &[i128], short: &mut Vec<u64>, out: &mut Vec<u8>) -> Option<DecimalSummary> {
    let is_short = |value: i128| i128::from(value as i64) == value;
    if !values.iter().fold(true, |all, value| all & is_short(*value)) {
        values.iter().for_each(|value| push_wide_varint((*value << 1 ^ *value >> 127) as u128, out));
        let (min, max) = bounds_of(values)?;
        return Some((min, max, values.iter().try_fold(0, |sum: i128, value| sum.checked_add(*value))));
    }

    let first = *values.first()? as i64;
    let mut min = first;
    let mut max = first;
    let mut sum = 0;
    short.clear();
    short.extend(values.iter().map(|value| {
        let value = *value as i64;
        (min, max, sum) = (min.min(value), max.max(value), sum + i128::from(value));
        zigzag(value)
    }));
    push_varints(short, out);

    Some((min.into(), max.into(), Some(sum)))
}

impl OrcColumnWriter for DecimalColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = primitive::<Decimal128Type>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        let limit = 10_i128.pow(u32::from(self.precision));
        let OrcTypeStatistics::Decimals { bounds, sum, .. } = &mut stats.statistics.detail else {
            return Ok(());
        };

        for values in values.chunks(BLOCK) {
            let Some((min, max, more)) = append(values, &mut self.short, &mut self.digits.raw) else {
                continue;
            };
            if let Some(value) = [min, max].into_iter().find(|value| *value <= -limit || *value >= limit) {
                let value = decimal(value, self.scale);
                return Err(
                    format!("{value} has more digits than a decimal of {} holds", self.precision).into()
                );
            }

            widen(bounds, Some((min, max)));
            *sum = sum.zip(more).and_then(|(sum, more)| sum.checked_add(more));
        }

        if let Some(bloom) = &mut stats.bloom {
            values.iter().for_each(|value| bloom.add_bytes(decimal(*value, self.scale).as_bytes()));
        }
        self.scales.repeat(i64::from(self.scale), values.len());
        Ok(())
    }

    fn begin_group(&mut self) {
        self.groups.push(self.digits.position());
        self.scales.begin_group();
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.digits.compress(compressor)?;
        self.scales.compress(compressor)
    }

    fn memory(&self) -> usize {
        self.digits.memory() + self.scales.memory()
    }

    fn encoded(&self) -> usize {
        self.digits.encoded() + self.scales.encoded()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let digits = self.digits.finish(compressor)?;
        for (entry, group) in end.entries.iter_mut().zip(&self.groups) {
            digits.append_position(*group, entry);
        }
        let scales = self.scales.finish(compressor)?;
        scales.append_positions(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.extend([(StreamKind::Data, digits), (StreamKind::Secondary, scales.written)]);

        Ok(())
    }
}
