//! Assembles a stripe: the index of all columns, their data, and a footer that locates the streams.

use orc_rust::proto::{self, RowIndex, RowIndexEntry, stream::Kind as StreamKind};
use prost::Message;

use super::{
    column::EncodedColumn,
    compression::OrcChunkCompressor,
    statistics::{OrcStatsAccumulator, OrcTypeStatistics},
    stream::{self, OrcEncodedStream},
};

/// Time zone of timestamps without zone.
const ZONE: &str = "UTC";

/// Encoded stripe.
pub(super) struct EncodedStripe {
    /// In order: index, data, footer.
    pub(super) pieces: Vec<Vec<u8>>,
    pub(super) information: proto::StripeInformation,
    /// Of all columns, the root's first.
    pub(super) statistics: Vec<OrcStatsAccumulator>,
}

/// Parts of a stripe to write.
pub(super) struct StripeAssembler {
    /// Rows of a row group; 0 if there is no row index.
    pub(super) stride: usize,
    pub(super) chunk: usize,
}

impl StripeAssembler {
    /// Assembles the columns of a stripe that begins at `offset`.
    pub(super) fn stripe(
        &self,
        columns: Vec<EncodedColumn>,
        rows: u64,
        offset: u64,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<EncodedStripe, String> {
        let (root, mut statistics) = self.root(rows, compressor)?;
        let mut pieces = Vec::new();
        let mut streams = Vec::new();
        let mut push = |column: u32, kind: StreamKind, written: OrcEncodedStream| {
            streams.push(proto::Stream {
                kind: Some(kind.into()),
                column: Some(column),
                length: Some(written.len),
            });
            pieces.extend(written.pieces);
            written.len
        };

        let mut index_length = 0;
        let mut data = Vec::with_capacity(columns.len());
        let mut encodings = vec![proto::ColumnEncoding::default()];
        if self.stride > 0 {
            index_length += push(0, StreamKind::RowIndex, root);
        }

        for column in columns {
            if self.stride > 0 {
                index_length += push(column.id, StreamKind::RowIndex, column.row_index);
                if let Some(filters) = column.bloom_filters {
                    index_length += push(column.id, StreamKind::BloomFilterUtf8, filters);
                }
            }
            encodings.push(column.encoding);
            statistics.push(column.statistics);
            data.push((column.id, column.streams));
        }

        let mut data_length = 0;
        for (id, streams) in data {
            for (kind, written) in streams {
                data_length += push(id, kind, written);
            }
        }

        let footer = proto::StripeFooter {
            streams,
            columns: encodings,
            writer_timezone: Some(ZONE.to_owned()),
            encryption: Vec::new(),
        };
        let footer = stream::message(footer.encode_to_vec(), self.chunk, compressor)?;
        let information = proto::StripeInformation {
            offset: Some(offset),
            index_length: Some(index_length),
            data_length: Some(data_length),
            footer_length: Some(footer.len),
            number_of_rows: Some(rows),
            ..proto::StripeInformation::default()
        };

        pieces.extend(footer.pieces);
        Ok(EncodedStripe { pieces, information, statistics })
    }

    /// Appends the row index of the root, which has no streams, and its statistics.
    fn root(
        &self,
        rows: u64,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<(OrcEncodedStream, Vec<OrcStatsAccumulator>), String> {
        let of =
            |values| OrcStatsAccumulator { values, ..OrcStatsAccumulator::new(OrcTypeStatistics::Nothing) };
        let stride = if self.stride == 0 { rows } else { self.stride as u64 }.max(1);
        let groups = (0..rows.div_ceil(stride)).map(|group| stride.min(rows - group * stride));
        let entry = |values| RowIndexEntry { positions: Vec::new(), statistics: Some(of(values).message()) };
        let index = RowIndex { entry: groups.map(entry).collect() };
        let index = stream::message(index.encode_to_vec(), self.chunk, compressor)?;
        Ok((index, vec![OrcStatsAccumulator { bytes: Some(0), ..of(rows) }]))
    }
}
