//! Encodes columns of timestamps: seconds since the beginning of 2015, and nanoseconds.

use arrow::{
    array::ArrayRef,
    buffer::NullBuffer,
    datatypes::{
        TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, OrcColumnWriter, RowGroupStats, present, primitive};
use crate::orc::write::{
    compression::OrcChunkCompressor,
    encode::ints::RleV2Encoder,
    options::OrcEncoderOptions,
    statistics::{OrcTypeStatistics, bounds_of, milliseconds, widen},
};

/// 2015-01-01T00:00:00 in UTC.
const EPOCH: i64 = 1_420_070_400;
/// Readers assume that seconds before 1970 were truncated towards zero if their nanoseconds exceed this.
const CUT_OFF: i64 = 999_999;
/// Maximum trailing zeros that a number of nanoseconds can omit.
const MAX_ZEROS: i64 = 8;

pub(super) struct TimestampColumnWriter {
    unit: TimeUnit,
    seconds: RleV2Encoder,
    nanoseconds: RleV2Encoder,
    room: Vec<i64>,
    split: Vec<(i64, i64)>,
}

impl TimestampColumnWriter {
    pub(super) fn new(unit: TimeUnit, options: &OrcEncoderOptions) -> Self {
        Self {
            unit,
            seconds: RleV2Encoder::of(true, options),
            nanoseconds: RleV2Encoder::of(false, options),
            room: Vec::new(),
            split: Vec::new(),
        }
    }
}

impl OrcColumnWriter for TimestampColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let values = match self.unit {
            TimeUnit::Second => primitive::<TimestampSecondType>(array)?.values(),
            TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(array)?.values(),
            TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(array)?.values(),
            TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(array)?.values(),
        };
        let values = present(values, nulls, &mut self.room);
        let Some((min, max)) = bounds_of(values) else { return Ok(()) };
        let unit = self.unit;

        if let Some(far) = [min, max].into_iter().find(|value| milliseconds(*value, unit).is_none()) {
            return Err(
                format!("{far} seconds since 1970 are more milliseconds than readers can count").into()
            );
        }

        if let OrcTypeStatistics::Times { bounds, .. } = &mut stats.statistics.detail {
            widen(bounds, Some((min, max)));
        }
        if let Some(bloom) = &mut stats.bloom {
            let known = values.iter().filter_map(|value| milliseconds(*value, unit));
            known.for_each(|(milliseconds, _)| bloom.add_whole(milliseconds));
        }
        let (per_second, each) = match unit {
            TimeUnit::Second => (1, 1_000_000_000),
            TimeUnit::Millisecond => (1_000, 1_000_000),
            TimeUnit::Microsecond => (1_000_000, 1_000),
            TimeUnit::Nanosecond => (1_000_000_000, 1),
        };
        self.split.clear();

        for &value in values {
            let seconds = value.div_euclid(per_second);
            let nanoseconds = value.rem_euclid(per_second) * each;
            let cut = seconds < 0 && nanoseconds > CUT_OFF;
            if cut && seconds == -1 {
                return Err(format!(
                    "{value} {unit} since 1970 are a fraction of the last second before it: readers of ORC take it \
                     for one of the first second after"
                )
                .into());
            }

            self.split.push((seconds + i64::from(cut) - EPOCH, coded(nanoseconds)));
        }

        self.seconds.push(&self.split, |(seconds, _)| seconds);
        self.nanoseconds.push(&self.split, |(_, nanoseconds)| nanoseconds);
        Ok(())
    }

    fn begin_group(&mut self) {
        self.seconds.begin_group();
        self.nanoseconds.begin_group();
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.seconds.compress(compressor)?;
        self.nanoseconds.compress(compressor)
    }

    fn memory(&self) -> usize {
        self.seconds.memory() + self.nanoseconds.memory()
    }

    fn encoded(&self) -> usize {
        self.seconds.encoded() + self.nanoseconds.encoded()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let seconds = self.seconds.finish(compressor)?;
        seconds.append_positions(&mut end.entries);
        let nanoseconds = self.nanoseconds.finish(compressor)?;
        nanoseconds.append_positions(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams
            .extend([(StreamKind::Data, seconds.written), (StreamKind::Secondary, nanoseconds.written)]);
        Ok(())
    }
}

/// Encodes nanoseconds: trailing zeros are removed if there are at least two, and the last three bits are the number of
/// removed zeros minus one.
fn coded(nanoseconds: i64) -> i64 {
    if nanoseconds == 0 || nanoseconds % 100 != 0 {
        return nanoseconds << 3;
    }

    let mut digits = nanoseconds / 100;
    let mut zeros = 2;
    while digits % 10 == 0 && zeros < MAX_ZEROS {
        digits /= 10;
        zeros += 1;
    }

    digits << 3 | (zeros - 1)
}

#[cfg(test)]
mod tests {
    use super::coded;

    #[test]
    fn zeros_are_left_out() {
        assert_eq!(coded(0), 0);
        assert_eq!(coded(1000), 0x0a);
        assert_eq!(coded(100_000), 0x0c);
        assert_eq!(coded(500_000_000), 5 << 3 | 7);
        assert_eq!(coded(10), 80);
        assert_eq!(coded(123_456_789), 123_456_789 << 3);
    }
}
