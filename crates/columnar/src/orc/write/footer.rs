//! Encodes the tail of a file: stripe statistics, footer and postscript.

use std::collections::BTreeMap;

use orc_rust::proto::{self, CalendarKind, CompressionKind};
use prost::Message;

use super::{
    column,
    compression::OrcChunkCompressor,
    plan::OrcColumnPlan,
    statistics::{OrcStatsAccumulator, OrcTypeStatistics},
    stream,
};

/// Magic at the start of a file.
pub(super) const MAGIC: &[u8; 3] = b"ORC";
/// Version of the format: that of Hive 0.12.
const VERSION: [u32; 2] = [0, 12];
/// Writer number of this implementation. It is not registered; readers treat an unknown number as a writer without the
/// bugs of early ones.
const WRITER: u32 = 0x5354;
/// First version number of writers other than the original one.
const WRITER_VERSION: u32 = 6;
/// Prefix of the software version.
pub(super) const SOFTWARE: &str = "stylobate ";

/// Builder of the tail, from the stripes written so far.
pub(super) struct OrcFooterBuilder {
    types: Vec<proto::Type>,
    statistics: Vec<OrcStatsAccumulator>,
    stripes: Vec<proto::StripeInformation>,
    stripe_statistics: Vec<proto::StripeStatistics>,
}

impl OrcFooterBuilder {
    pub(super) fn new(types: Vec<proto::Type>, plans: &[OrcColumnPlan]) -> Self {
        let mut statistics = vec![OrcStatsAccumulator {
            bytes: Some(0),
            ..OrcStatsAccumulator::new(OrcTypeStatistics::Nothing)
        }];
        plans.iter().for_each(|plan| append_empty(plan, &mut statistics));
        Self { types, statistics, stripes: Vec::new(), stripe_statistics: Vec::new() }
    }

    pub(super) fn stripes(&self) -> usize {
        self.stripes.len()
    }

    pub(super) fn push(&mut self, information: proto::StripeInformation, statistics: &[OrcStatsAccumulator]) {
        self.stripes.push(information);
        let messages = statistics.iter().map(OrcStatsAccumulator::message).collect();
        self.stripe_statistics.push(proto::StripeStatistics { col_stats: messages });
        for (all, more) in self.statistics.iter_mut().zip(statistics) {
            all.merge(more);
        }
    }

    /// Returns the bytes after the stripes, which end at `body`.
    pub(super) fn bytes(
        self,
        body: u64,
        rows: u64,
        stride: usize,
        metadata: &BTreeMap<String, Vec<u8>>,
        compression: (CompressionKind, usize, &mut OrcChunkCompressor),
    ) -> Result<Vec<u8>, String> {
        let (kind, chunk, compressor) = compression;
        let user = |(name, value): (&String, &Vec<u8>)| proto::UserMetadataItem {
            name: Some(name.clone()),
            value: Some(value.clone()),
        };
        let footer = proto::Footer {
            header_length: Some(MAGIC.len() as u64),
            content_length: Some(body),
            stripes: self.stripes,
            types: self.types,
            metadata: metadata.iter().map(user).collect(),
            number_of_rows: Some(rows),
            statistics: self.statistics.iter().map(OrcStatsAccumulator::message).collect(),
            row_index_stride: Some(u32::try_from(stride).unwrap_or(u32::MAX)),
            writer: Some(WRITER),
            encryption: None,
            calendar: Some(CalendarKind::ProlepticGregorian.into()),
            software_version: Some(format!("{SOFTWARE}{}", env!("CARGO_PKG_VERSION"))),
        };

        let statistics = proto::Metadata { stripe_stats: self.stripe_statistics };
        let statistics = stream::message(statistics.encode_to_vec(), chunk, compressor)?;
        let footer = stream::message(footer.encode_to_vec(), chunk, compressor)?;
        let postscript = proto::PostScript {
            footer_length: Some(footer.len),
            compression: Some(kind.into()),
            compression_block_size: Some(chunk as u64),
            version: VERSION.to_vec(),
            metadata_length: Some(statistics.len),
            writer_version: Some(WRITER_VERSION),
            magic: Some("ORC".to_owned()),
            ..proto::PostScript::default()
        };

        let postscript = postscript.encode_to_vec();
        let mut bytes = [statistics.pieces.concat(), footer.pieces.concat(), postscript].concat();
        let length = bytes.len() as u64 - statistics.len - footer.len;
        bytes.push(u8::try_from(length).map_err(|_| "its postscript is too long".to_owned())?);

        Ok(bytes)
    }
}

/// Appends statistics of no rows for a column and its descendants.
fn append_empty(plan: &OrcColumnPlan, statistics: &mut Vec<OrcStatsAccumulator>) {
    statistics
        .push(OrcStatsAccumulator { bytes: Some(0), ..OrcStatsAccumulator::new(column::detail(plan.kind)) });
    plan.children.iter().for_each(|child| append_empty(child, statistics));
}
