//! Statistics of stripes in their encoded form, and which of them can be trusted.

use bytes::Bytes;
use orc_rust::proto::{ColumnStatistics, Footer, PostScript};
use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

/// Field number of the entries, in both the file's and a stripe's statistics.
const ENTRIES: u32 = 1;

/// Encoded statistics of all stripes, parsed for the requested columns.
#[derive(Debug)]
pub(super) struct StripeStatistics {
    stripes: Vec<Bytes>,
    bytes: usize,
    pub(super) trust: StatisticsTrust,
}

/// Statistics that can be trusted: early versions of the first writer got some wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatisticsTrust {
    /// True if any bounds can be trusted.
    pub(super) bounds: bool,
    pub(super) timestamps: bool,
    pub(super) decimals: bool,
    pub(super) bloom_filters: bool,
}

/// Writer number of the C++ library.
pub(super) const CPP_WRITER: u32 = 1;
/// Releases of the C++ library that hash integers differently, as do those that do not state their version.
const OTHER_HASHES: [&str; 13] = [
    "1.6.0", "1.6.1", "1.6.2", "1.6.3", "1.6.4", "1.6.5", "1.6.6", "1.6.7", "1.6.8", "1.6.9", "1.6.10",
    "1.6.11", "1.7.0",
];

impl StripeStatistics {
    pub(super) fn new(metadata: Bytes, postscript: &PostScript, footer: &Footer) -> Self {
        let first_writer = footer.writer.unwrap_or_default() == 0;
        let since = |version| !first_writer || postscript.writer_version.unwrap_or_default() >= version;
        let release = footer.software_version.as_deref().map(|it| it.split('-').next().unwrap_or(it));
        let hashes = footer.writer.unwrap_or_default() != CPP_WRITER
            || release.is_some_and(|release| !OTHER_HASHES.contains(&release));
        let trust = StatisticsTrust {
            bounds: since(1),
            timestamps: since(6),
            decimals: since(7),
            bloom_filters: hashes,
        };
        let bytes = metadata.len();
        let known = trust.bounds.then(|| entries(&metadata).collect::<Option<Vec<_>>>()).flatten();
        let stripes = known.filter(|stripes| stripes.len() == footer.stripes.len()).unwrap_or_default();

        Self { stripes, bytes, trust }
    }

    pub(super) fn weight(&self) -> usize {
        self.bytes + self.stripes.capacity() * size_of::<Bytes>()
    }

    /// Returns the statistics of a column in a stripe.
    pub(super) fn get(&self, stripe: usize, column: u32) -> Option<ColumnStatistics> {
        let entry = entries(self.stripes.get(stripe)?).nth(column as usize)??;
        ColumnStatistics::decode(entry).ok()
    }
}

/// Returns the entries of a message that has no other relevant fields; `None` for those that cannot be read.
pub(super) fn entries(message: &Bytes) -> impl Iterator<Item = Option<Bytes>> {
    let mut rest = message.clone();
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let Ok((tag, wire_type)) = decode_key(&mut rest) else { return Some(end(&mut rest)) };
            if (tag, wire_type) != (ENTRIES, WireType::LengthDelimited) {
                if skip_field(wire_type, tag, &mut rest, DecodeContext::default()).is_err() {
                    return Some(end(&mut rest));
                }
                continue;
            }

            return Some(match decode_varint(&mut rest) {
                Ok(len) if len <= rest.len() as u64 => Some(rest.split_to(len as usize)),
                _ => end(&mut rest),
            });
        }

        None
    })
}

fn end(rest: &mut Bytes) -> Option<Bytes> {
    rest.clear();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_message_that_is_cut_off_end_with_one_that_is_not_known() {
        let whole = Bytes::from_static(&[0x0a, 2, 8, 1, 0x18, 5, 0x0a, 0]);
        assert_eq!(entries(&whole).map(|it| it.map(|it| it.len())).collect::<Vec<_>>(), [Some(2), Some(0)]);
        for len in [1, 3, 5, 7] {
            assert_eq!(entries(&whole.slice(..len)).last(), Some(None), "{len} bytes");
        }
    }
}
