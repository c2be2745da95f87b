//! Written files are read back, with the right metadata.

mod dictionaries;
mod errors;
mod export;
mod index;
mod kinds;
mod nested;
mod random;
mod readers;
mod runs;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::concat_batches,
};
use bytes::Bytes;
use object_store::{ObjectStoreExt, memory::InMemory};
use orc_rust::proto;
use prost::Message;
use stylobate_storage::{ByteSize, Overwrite, SinkOptions, Sinks};

pub(in crate::orc) use self::random::{array, data_type};
use super::{OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter, OrcWritten};
use crate::{
    Result,
    orc::{
        compression::OrcCodec,
        stream::OrcStreamReader,
        tests::{cast, read_all},
    },
};

pub(in crate::orc) const CODECS: [OrcCompression; 5] = [
    OrcCompression::None,
    OrcCompression::Zlib(6),
    OrcCompression::Snappy,
    OrcCompression::Lz4,
    OrcCompression::Zstd(3),
];

pub(in crate::orc) async fn write(
    batches: &[RecordBatch],
    options: OrcOptions,
) -> Result<(Bytes, OrcWritten)> {
    let store = Arc::new(InMemory::new());
    let sink = Sinks::new(SinkOptions::default()).object(store.clone(), "x".into(), Overwrite::Replace);
    let schema = batches.first().unwrap().schema();
    let mut writer = OrcWriter::new(sink, "x.orc", schema, options)?;

    for batch in batches {
        writer.write(batch).await?;
    }
    let written = writer.finish().await?;
    let bytes = store.get(&"x".into()).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);

    Ok((bytes, written))
}

fn of(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

async fn assert_comes_back(batches: &[RecordBatch], options: OrcOptions) -> (Bytes, OrcWritten) {
    let (bytes, written) = write(batches, options).await.unwrap();
    let whole = concat_batches(&batches.first().unwrap().schema(), batches).unwrap();
    assert_eq!(written.rows, whole.num_rows() as u64);
    let read = read_all(&bytes, 4096).unwrap();
    assert_eq!(read, cast(&whole, &read.schema()));
    (bytes, written)
}

/// Returns options with small row groups and chunks, and stripes of about 40 KB.
fn small(compression: OrcCompression) -> OrcOptions {
    OrcOptions::default()
        .with_compression(compression)
        .with_row_index_stride(1000)
        .with_chunk_size(ByteSize::kib(4))
        .with_stripe_size(ByteSize::kib(40))
}

/// Raw tail of a file.
struct RawOrcTail {
    postscript: proto::PostScript,
    footer: proto::Footer,
    statistics: proto::Metadata,
}

impl RawOrcTail {
    fn of(file: &Bytes) -> Self {
        let before = file.len() - 1 - usize::from(*file.last().unwrap());
        let postscript = proto::PostScript::decode(file.slice(before..file.len() - 1)).unwrap();
        let footer_start = before - postscript.footer_length() as usize;
        let statistics_start = footer_start - postscript.metadata_length() as usize;

        Self {
            footer: message(&postscript, file.slice(footer_start..before)),
            statistics: message(&postscript, file.slice(statistics_start..footer_start)),
            postscript,
        }
    }

    /// Returns the stripe's footer, and the messages of its index by column and kind.
    fn stripe(
        &self,
        file: &Bytes,
        at: usize,
    ) -> (proto::StripeFooter, Vec<(u32, proto::stream::Kind, Bytes)>) {
        let stripe = &self.footer.stripes[at];
        let streams_end = (stripe.offset() + stripe.index_length() + stripe.data_length()) as usize;
        let end = streams_end + stripe.footer_length() as usize;
        let footer: proto::StripeFooter = message(&self.postscript, file.slice(streams_end..end));
        let mut start = stripe.offset() as usize;
        let streams = footer.streams.iter().map(|stream| {
            let bytes = file.slice(start..start + stream.length() as usize);
            start += bytes.len();
            (stream.column(), stream.kind(), bytes)
        });
        let streams = streams.collect();

        (footer, streams)
    }

    fn row_index(&self, file: &Bytes, stripe: usize, column: u32) -> proto::RowIndex {
        let (_, streams) = self.stripe(file, stripe);
        let found = streams.iter().find(|it| it.0 == column && it.1 == proto::stream::Kind::RowIndex);
        message(&self.postscript, found.unwrap().2.clone())
    }
}

fn message<M: Message + Default>(postscript: &proto::PostScript, bytes: Bytes) -> M {
    let codec = OrcCodec::of(postscript).unwrap();
    M::decode(OrcStreamReader::new(bytes, codec).read_all(1 << 30).unwrap()).unwrap()
}
