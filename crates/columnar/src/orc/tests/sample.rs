//! Writes ORC files for tests byte by byte, for content that no available writer produces, or that none should.

use bytes::Bytes;
use orc_rust::proto::{
    ColumnEncoding, Footer, Metadata, PostScript, Stream, StripeFooter, StripeInformation, Type,
    stream::Kind as StreamKind, r#type::Kind,
};
use prost::Message;

/// Builder of a file. Unset parts are as plain as possible: no compression, encodings of version 1.
pub(super) struct SampleOrcFile {
    pub(super) footer: Footer,
    pub(super) metadata: Metadata,
    pub(super) postscript: PostScript,
    pub(super) stripes: Vec<SampleOrcStripe>,
}

pub(super) struct SampleOrcStripe {
    pub(super) rows: u64,
    pub(super) streams: Vec<(u32, StreamKind, Vec<u8>)>,
    pub(super) encodings: Vec<ColumnEncoding>,
    pub(super) zone: Option<String>,
}

impl SampleOrcFile {
    /// Creates a file of these types; the first is the root.
    pub(super) fn new(types: Vec<Type>) -> Self {
        let postscript =
            PostScript { magic: Some("ORC".into()), writer_version: Some(9), ..PostScript::default() };
        let footer = Footer { types, ..Footer::default() };
        Self { footer, metadata: Metadata::default(), postscript, stripes: Vec::new() }
    }

    pub(super) fn stripe(mut self, rows: u64, streams: Vec<(u32, StreamKind, Vec<u8>)>) -> Self {
        let encodings = vec![ColumnEncoding::default(); self.footer.types.len()];
        self.stripes.push(SampleOrcStripe { rows, streams, encodings, zone: None });
        self
    }

    pub(super) fn file(mut self) -> Bytes {
        let mut file = b"ORC".to_vec();
        for stripe in &self.stripes {
            let offset = file.len() as u64;
            stripe.streams.iter().for_each(|(_, _, bytes)| file.extend(bytes));
            let streams = stripe.streams.iter().map(|(column, kind, bytes)| Stream {
                kind: Some((*kind).into()),
                column: Some(*column),
                length: Some(bytes.len() as u64),
            });
            let footer = StripeFooter {
                streams: streams.collect(),
                columns: stripe.encodings.clone(),
                writer_timezone: stripe.zone.clone(),
                encryption: Vec::new(),
            };
            let data_length = file.len() as u64 - offset;
            let footer = footer.encode_to_vec();
            file.extend(&footer);

            self.footer.stripes.push(StripeInformation {
                offset: Some(offset),
                index_length: Some(0),
                data_length: Some(data_length),
                footer_length: Some(footer.len() as u64),
                number_of_rows: Some(stripe.rows),
                ..StripeInformation::default()
            });
        }

        let rows = self.stripes.iter().map(|stripe| stripe.rows).sum();
        self.footer.number_of_rows.get_or_insert(rows);
        let metadata = self.metadata.encode_to_vec();
        let footer = self.footer.encode_to_vec();
        self.postscript.metadata_length = Some(metadata.len() as u64);
        self.postscript.footer_length = Some(footer.len() as u64);
        let postscript = self.postscript.encode_to_vec();

        [metadata, footer, postscript.clone(), vec![postscript.len() as u8]]
            .iter()
            .for_each(|it| file.extend(it));
        file.into()
    }
}

/// Returns a type without fields.
pub(super) fn leaf(kind: Kind) -> Type {
    Type { kind: Some(kind.into()), ..Type::default() }
}

pub(super) fn decimal(precision: u32, scale: u32) -> Type {
    Type { precision: Some(precision), scale: Some(scale), ..leaf(Kind::Decimal) }
}

/// Returns a type with fields, named if it is a struct.
pub(super) fn parent(kind: Kind, subtypes: &[u32], names: &[&str]) -> Type {
    let field_names = names.iter().map(|name| (*name).to_owned()).collect();
    Type { subtypes: subtypes.to_vec(), field_names, ..leaf(kind) }
}

pub(super) fn ints(values: &[i64]) -> Vec<u8> {
    wide(&values.iter().map(|value| i128::from(*value)).collect::<Vec<_>>(), true)
}

/// Encodes the unscaled values of decimals.
pub(super) fn digits(values: &[i128]) -> Vec<u8> {
    wide(values, false)
}

fn wide(values: &[i128], runs: bool) -> Vec<u8> {
    let zigzag = |value: &i128| (value << 1 ^ value >> 127) as u128;
    varints(&values.iter().map(zigzag).collect::<Vec<_>>(), runs)
}

pub(super) fn lengths(values: &[u64]) -> Vec<u8> {
    varints(&values.iter().map(|value| u128::from(*value)).collect::<Vec<_>>(), true)
}

fn varints(values: &[u128], runs: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for run in values.chunks(128) {
        if runs {
            out.push((run.len() as u8).wrapping_neg());
        }
        for &value in run {
            let mut rest = value;
            while rest > 0x7f {
                out.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
    }

    out
}

pub(super) fn bits(values: &[bool]) -> Vec<u8> {
    let packed: Vec<u8> = values
        .chunks(8)
        .map(|bits| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << (7 - at)))
        .collect();
    packed.chunks(128).flat_map(|run| [&[(run.len() as u8).wrapping_neg()], run].concat()).collect()
}
