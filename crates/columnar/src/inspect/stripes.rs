//! Describes the stripes and columns of ORC files by their footers.

use std::collections::BTreeMap;

use arrow::datatypes::TimeUnit;
use orc_rust::proto::{self, column_encoding, stream, r#type::Kind as TypeKind};
use stylobate_storage::OpenObject;

use super::{
    bound::{FooterValue, FooterValueType},
    inspection::{
        ChunkInspection, ColumnInspection, DictionaryUse, ExtentContent, FileExtent, FileFormat, Inspection,
        MetadataEntry, PartInspection, SchemaNode,
    },
};
use crate::{Result, orc::OrcMessages};

/// Reads and describes the footers.
pub(super) async fn inspect(object: &OpenObject) -> Result<Inspection> {
    let messages = OrcMessages::read(object).await?;
    let footer = &messages.footer;
    let postscript = &messages.postscript;
    let columns = OrcColumnNode::all(&footer.types);
    let codec = postscript.compression().as_str_name().to_owned();
    // Statistics of the original version of the first writer are wrong.
    let trusted =
        footer.writer.unwrap_or_default() != 0 || postscript.writer_version.unwrap_or_default() >= 1;

    let mut described: Vec<_> = columns
        .iter()
        .map(|column| ColumnInspection::new(column.path.clone(), type_name(&footer.types, column.id)))
        .collect();

    let mut parts = Vec::with_capacity(footer.stripes.len());
    for (number, (stripe, stripe_footer)) in footer.stripes.iter().zip(&messages.stripes).enumerate() {
        let statistics =
            messages.statistics.stripe_stats.get(number).map_or(&[][..], |stripe| &stripe.col_stats);
        let known = OrcFooterStatistics {
            statistics: if trusted { statistics } else { &[] },
            rows: stripe.number_of_rows(),
        };

        let mut extents = stream_extents(stripe, stripe_footer);
        let chunks = columns.iter().map(|column| ChunkInspection {
            extents: extents.remove(&column.id).unwrap_or_default(),
            ..chunk(column, stripe_footer, &known, &codec)
        });
        let chunks: Vec<_> = chunks.collect();
        let mut of_stripe: Vec<_> = extents.into_values().flatten().collect();
        of_stripe.push(footer_extent(stripe));

        described.iter_mut().zip(&chunks).for_each(|(column, chunk)| column.add(chunk));
        let lengths = [stripe.index_length(), stripe.data_length(), stripe.footer_length()];
        parts.push(PartInspection {
            rows: stripe.number_of_rows(),
            offset: Some(stripe.offset()),
            compressed_size: lengths.iter().fold(0, |sum, length| sum.saturating_add(*length)),
            uncompressed_size: None,
            sorted_by: Vec::new(),
            columns: chunks,
            extents: of_stripe,
        });
    }

    let rows = footer.stripes.iter().fold(0, |sum: u64, stripe| sum.saturating_add(stripe.number_of_rows()));
    let whole = OrcFooterStatistics { statistics: if trusted { &footer.statistics } else { &[] }, rows };
    for (inspected, column) in described.iter_mut().zip(&columns) {
        (inspected.values, inspected.nulls) = whole.counts(column);
        (inspected.min, inspected.max) = whole.bounds(column);
    }

    Ok(Inspection {
        object: object.name(),
        format: FileFormat::Orc,
        format_version: postscript.version.iter().map(u32::to_string).collect::<Vec<_>>().join("."),
        size: object.meta().size,
        footer_size: messages.size,
        rows,
        created_by: Some(writer(footer)),
        metadata: footer.metadata.iter().map(entry).collect(),
        schema: columns
            .iter()
            .filter(|column| column.parent.is_none())
            .map(|top| node(&columns, footer, top))
            .collect(),
        columns: described,
        parts,
    })
}

/// A column, or a field within one.
struct OrcColumnNode {
    id: usize,
    name: String,
    path: String,
    /// Index of its parent among all columns; `None` at the top.
    parent: Option<usize>,
    /// Set if it has one value per value of its parent, not any number.
    one_each: bool,
    meaning: FooterValueType,
}

impl OrcColumnNode {
    /// Returns all columns below the root, each before its children.
    fn all(types: &[proto::Type]) -> Vec<Self> {
        let mut columns = Vec::new();
        Self::add(types, 0, None, &mut columns);
        columns
    }

    fn add(types: &[proto::Type], id: usize, parent: Option<usize>, columns: &mut Vec<Self>) {
        let Some(data_type) = types.get(id) else { return };
        for (index, child) in data_type.subtypes.iter().enumerate() {
            let id = *child as usize;
            let name = match (data_type.kind(), index) {
                (TypeKind::Struct, _) => data_type.field_names.get(index).cloned().unwrap_or_default(),
                (TypeKind::List, _) => "item".to_owned(),
                (TypeKind::Map, 0) => "key".to_owned(),
                (TypeKind::Map, _) => "value".to_owned(),
                _ => format!("_union_{index}"),
            };

            let path = match parent.and_then(|parent| columns.get(parent)) {
                Some(parent) => format!("{}.{name}", parent.path),
                None => name.clone(),
            };

            let one_each = data_type.kind() == TypeKind::Struct;
            let meaning = types.get(id).map_or(FooterValueType::Unordered, meaning);
            columns.push(Self { id, name, path, parent, one_each, meaning });
            // The parser of the tail checked that the types are a tree of bounded depth.
            Self::add(types, id, Some(columns.len() - 1), columns);
        }
    }
}

fn node(columns: &[OrcColumnNode], footer: &proto::Footer, column: &OrcColumnNode) -> SchemaNode {
    let position = columns.iter().position(|other| other.id == column.id);
    let fields = columns.iter().filter(|other| other.parent.is_some() && other.parent == position);
    SchemaNode {
        name: column.name.clone(),
        data_type: type_name(&footer.types, column.id),
        physical_type: None,
        nullable: true,
        repeated: false,
        fields: fields.map(|field| node(columns, footer, field)).collect(),
    }
}

fn meaning(data_type: &proto::Type) -> FooterValueType {
    match data_type.kind() {
        TypeKind::Boolean => FooterValueType::Boolean,
        TypeKind::Byte | TypeKind::Short | TypeKind::Int | TypeKind::Long => FooterValueType::Signed,
        TypeKind::Float | TypeKind::Double => FooterValueType::Float,
        TypeKind::String | TypeKind::Varchar | TypeKind::Char | TypeKind::Decimal => FooterValueType::Text,
        TypeKind::Date => FooterValueType::Date,
        TypeKind::Timestamp => FooterValueType::Timestamp { unit: TimeUnit::Millisecond, utc: false },
        TypeKind::TimestampInstant => FooterValueType::Timestamp { unit: TimeUnit::Millisecond, utc: true },
        TypeKind::Binary | TypeKind::List | TypeKind::Map | TypeKind::Struct | TypeKind::Union => {
            FooterValueType::Unordered
        }
    }
}

fn type_name(types: &[proto::Type], id: usize) -> String {
    let Some(data_type) = types.get(id) else { return "unknown".to_owned() };

    let name = match data_type.kind() {
        TypeKind::Byte => "tinyint",
        TypeKind::Short => "smallint",
        TypeKind::Long => "bigint",
        TypeKind::TimestampInstant => "timestamp with local time zone",
        TypeKind::Decimal => return format!("decimal({}, {})", data_type.precision(), data_type.scale()),
        TypeKind::Varchar => return format!("varchar({})", data_type.maximum_length()),
        TypeKind::Char => return format!("char({})", data_type.maximum_length()),
        other => return other.as_str_name().to_lowercase(),
    };

    name.to_owned()
}

/// Statistics of a stripe or of the file, and its rows.
struct OrcFooterStatistics<'a> {
    statistics: &'a [proto::ColumnStatistics],
    rows: u64,
}

impl OrcFooterStatistics<'_> {
    /// Returns the number of values, nulls included, and the number of nulls.
    fn counts(&self, column: &OrcColumnNode) -> (Option<u64>, Option<u64>) {
        // A nested column has no value where its parent is null, and is not counted there.
        let values = (column.parent.is_none()).then_some(self.rows);
        let Some(statistics) = self.statistics.get(column.id) else { return (values, None) };
        if statistics.has_null == Some(false) && column.one_each {
            return (values.or(statistics.number_of_values), Some(0));
        }

        let nulls = values.zip(statistics.number_of_values).and_then(|(all, known)| all.checked_sub(known));
        // A writer that does not count reports zero values, but does not claim that there are nulls.
        let counted =
            nulls.filter(|nulls| *nulls < self.rows || *nulls == 0 || statistics.has_null == Some(true));
        (values, counted)
    }

    fn bounds(&self, column: &OrcColumnNode) -> (Option<super::BoundValue>, Option<super::BoundValue>) {
        let bounds = self.statistics.get(column.id).and_then(bounds);
        let shown = |value: Option<&FooterValue>| value.and_then(|value| value.shown(column.meaning));
        (shown(bounds.as_ref().map(|bounds| &bounds.0)), shown(bounds.as_ref().map(|bounds| &bounds.1)))
    }
}

fn bounds(statistics: &proto::ColumnStatistics) -> Option<(FooterValue, FooterValue)> {
    let integers = |min: Option<i64>, max: Option<i64>| {
        Some((FooterValue::Integer(min?.into()), FooterValue::Integer(max?.into())))
    };
    let texts = |min: Option<&String>, max: Option<&String>| {
        Some((FooterValue::Bytes(min?.clone().into()), FooterValue::Bytes(max?.clone().into())))
    };
    if let Some(known) = &statistics.int_statistics {
        integers(known.minimum, known.maximum)
    } else if let Some(known) = &statistics.double_statistics {
        Some((FooterValue::Float(known.minimum?), FooterValue::Float(known.maximum?)))
    } else if let Some(known) = &statistics.string_statistics {
        texts(
            known.minimum.as_ref().or(known.lower_bound.as_ref()),
            known.maximum.as_ref().or(known.upper_bound.as_ref()),
        )
    } else if let Some(known) = &statistics.decimal_statistics {
        texts(known.minimum.as_ref(), known.maximum.as_ref())
    } else if let Some(known) = &statistics.date_statistics {
        integers(known.minimum.map(i64::from), known.maximum.map(i64::from))
    } else if let Some(known) = &statistics.timestamp_statistics {
        integers(known.minimum_utc.or(known.minimum), known.maximum_utc.or(known.maximum))
    } else {
        let trues = *statistics.bucket_statistics.as_ref()?.count.first()?;
        let all = statistics.number_of_values?;
        (all > 0).then_some((FooterValue::Boolean(trues >= all), FooterValue::Boolean(trues > 0)))
    }
}

fn chunk(
    column: &OrcColumnNode,
    footer: &proto::StripeFooter,
    known: &OrcFooterStatistics<'_>,
    codec: &str,
) -> ChunkInspection {
    let encoding = footer.columns.get(column.id);
    let kind = encoding.map(proto::ColumnEncoding::kind);
    let is_dictionary =
        matches!(kind, Some(column_encoding::Kind::Dictionary | column_encoding::Kind::DictionaryV2));
    let own = footer.streams.iter().filter(|stream| stream.column() as usize == column.id);
    let (index, data): (Vec<_>, Vec<_>) = own.partition(|stream| {
        use stream::Kind::{BloomFilter, BloomFilterUtf8, RowIndex};
        matches!(stream.kind(), RowIndex | BloomFilter | BloomFilterUtf8)
    });
    let (values, nulls) = known.counts(column);
    let (min, max) = known.bounds(column);

    ChunkInspection {
        name: column.path.clone(),
        encodings: kind.map(|kind| kind.as_str_name().to_owned()).into_iter().collect(),
        codec: codec.to_owned(),
        dictionary: if is_dictionary { DictionaryUse::All } else { DictionaryUse::None },
        dictionary_values: encoding
            .filter(|_| is_dictionary)
            .map(|encoding| encoding.dictionary_size().into()),
        pages: None,
        compressed_size: data.iter().fold(0, |sum, stream| sum.saturating_add(stream.length())),
        uncompressed_size: None,
        values,
        nulls,
        min,
        max,
        indexed: index.iter().any(|stream| stream.kind() == stream::Kind::RowIndex),
        bloom_filter: index.iter().any(|stream| stream.kind() != stream::Kind::RowIndex),
        extents: Vec::new(),
    }
}

/// Returns the ranges of a stripe's streams by column, each list in the order of the file. Streams follow each other in
/// the order of the footer; neighbours with the same content are one range.
fn stream_extents(
    stripe: &proto::StripeInformation,
    footer: &proto::StripeFooter,
) -> BTreeMap<usize, Vec<FileExtent>> {
    let mut extents: BTreeMap<usize, Vec<FileExtent>> = BTreeMap::new();
    let mut offset = stripe.offset();

    for stream in &footer.streams {
        let column = stream.column() as usize;
        let encoding = footer.columns.get(column).map(proto::ColumnEncoding::kind);
        let content = stream_content(stream.kind(), encoding);
        let size = stream.length();
        let of_column = extents.entry(column).or_default();

        match of_column.last_mut() {
            Some(last) if last.content == content && last.offset.checked_add(last.size) == Some(offset) => {
                last.size = last.size.saturating_add(size);
            }
            _ if size > 0 => of_column.push(FileExtent { content, offset, size }),
            _ => {}
        }

        offset = offset.saturating_add(size);
    }

    extents
}

fn stream_content(kind: stream::Kind, encoding: Option<column_encoding::Kind>) -> ExtentContent {
    use stream::Kind;

    let is_dictionary =
        matches!(encoding, Some(column_encoding::Kind::Dictionary | column_encoding::Kind::DictionaryV2));
    match kind {
        Kind::RowIndex | Kind::EncryptedIndex => ExtentContent::Index,
        Kind::BloomFilter | Kind::BloomFilterUtf8 => ExtentContent::BloomFilter,
        Kind::DictionaryData | Kind::DictionaryCount => ExtentContent::Dictionary,
        Kind::Length if is_dictionary => ExtentContent::Dictionary,
        _ => ExtentContent::Data,
    }
}

fn footer_extent(stripe: &proto::StripeInformation) -> FileExtent {
    let before = stripe.index_length().saturating_add(stripe.data_length());
    FileExtent {
        content: ExtentContent::Footer,
        offset: stripe.offset().saturating_add(before),
        size: stripe.footer_length(),
    }
}

/// Returns the name of the program that wrote the file: the format numbers the known ones.
fn writer(footer: &proto::Footer) -> String {
    let name = match footer.writer.unwrap_or_default() {
        0 => "ORC Java",
        1 => "ORC C++",
        2 => "Presto",
        3 => "Scritchley Go",
        4 => "Trino",
        5 => "CUDF",
        other => return format!("writer {other} {}", footer.software_version()).trim_end().to_owned(),
    };

    format!("{name} {}", footer.software_version()).trim_end().to_owned()
}

fn entry(item: &proto::UserMetadataItem) -> MetadataEntry {
    let value = item.value.as_ref().map(|value| match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| format!("{byte:02x}")).collect(),
    });
    MetadataEntry { key: item.name().to_owned(), value }
}
