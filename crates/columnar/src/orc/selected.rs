//! Reads some row groups of a stripe: the bytes that hold them, and no other bytes of their columns.
//!
//! The positions of a row index are not trusted: the rows decoded from one must end, in every stream, where the next
//! row group begins according to the index, or at the end of the stream. The last byte of a bit stream does not show
//! which bit is the last: to read to its end, the previous row group is decoded too, and must end where the first
//! requested one begins.

use std::{collections::HashMap, ops::Range, sync::Arc};

use ::bytes::Bytes;
use stylobate_storage::OpenObject;

use super::{
    OrcFile,
    bytes::{self, StripeStreams},
    decode::{OrcBatches, StripeDictionaries},
    fault::OrcReadError,
    grown,
    index::{
        positions::{self, OrcStreamLayout},
        row_groups::StripeRowGroups,
        row_index::OrcColumnIndex,
    },
    statistics::OrcStatistics,
    stream::{OrcStreamReader, RowIndexPosition},
    stripe::{StreamKind, StripeFooter},
    tree::OrcType,
};
use crate::{Result, chunk::ColumnBatch, file::schema::ProjectedColumn};

/// Row groups of a stripe to read, and their bytes once read.
pub(crate) struct SelectedRowGroups {
    stripe: usize,
    columns: Vec<ProjectedColumn>,
    /// Ascending and disjoint.
    groups: Vec<Range<usize>>,
    /// True if the first group of the last range is present only to verify its end.
    leads: bool,
    footer: Arc<StripeFooter>,
    streams: Vec<SelectedStream>,
    /// Ranges of the object.
    ranges: Vec<Range<u64>>,
    /// Approximate bytes of the strings in the row groups.
    texts: u64,
    read: Vec<Bytes>,
}

/// Stream that is read in part.
struct SelectedStream {
    column: u32,
    kind: StreamKind,
    /// Range in the object.
    at: Range<u64>,
    /// Positions of row groups; `None` if all of them need the whole stream.
    positions: Option<Vec<RowIndexPosition>>,
    shape: OrcStreamLayout,
}

impl SelectedRowGroups {
    /// Returns the number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the memory that reading and decoding will take, in bytes: all rows are decoded before the first is
    /// returned.
    pub(crate) fn working_bytes(&self) -> u64 {
        grown(self.bytes(), self.texts)
    }
}

impl OrcFile {
    /// Returns the row groups of a stripe, as ranges of rows, with the indexes of some columns; `None` if all of these
    /// are empty.
    pub(crate) fn row_groups(
        &self,
        stripe: usize,
        columns: Vec<(usize, Arc<OrcColumnIndex>)>,
    ) -> Option<(Vec<Range<u64>>, OrcStatistics<'_>)> {
        // There are as many row groups as an index has entries, so these lists are no longer than it.
        columns.iter().find(|(_, index)| !index.is_empty())?;
        let footer = self.known_footer(stripe)?;
        let rows = self.stripe_rows(stripe);
        let stride = self.tail.stride;
        let starts = (0..self.groups(stripe)).map(|group| group * stride);
        let ranges: Vec<Range<u64>> = starts.map(|start| start..(start + stride).min(rows)).collect();
        let rows = ranges.iter().map(|range| range.end - range.start).collect();

        Some((ranges, OrcStatistics::of_row_groups(&self.tail, StripeRowGroups { rows, columns, footer })))
    }

    /// Returns the bytes of `fields` that hold `rows`, which are row groups, ascending and disjoint; `None` if the
    /// index of a column does not locate them. `indexes` has the index of each of the columns.
    pub(crate) fn select(
        &self,
        stripe: usize,
        fields: &[ProjectedColumn],
        rows: &[Range<u64>],
        indexes: &[(usize, Arc<OrcColumnIndex>)],
    ) -> Option<SelectedRowGroups> {
        let footer = self.known_footer(stripe)?;
        let group = |row: u64| usize::try_from(row.div_ceil(self.tail.stride.max(1))).ok();
        let groups = rows.iter().map(|rows| Some(group(rows.start)?..group(rows.end)?));
        let mut groups: Vec<Range<usize>> = groups.collect::<Option<_>>()?;
        let mut streams = Vec::new();
        let root = self.tail.root.clone_without_children();
        let columns = self.wanted_columns(fields).ok()?;
        let mut found = Some(());

        for column in [root].iter().chain(&columns) {
            column.visit(&mut |column| {
                let index = indexes.iter().find(|(id, _)| *id == column.id as usize);
                let more = self.selected_streams(&footer, column, index.map(|(_, index)| index.as_ref()));
                match more {
                    Some(more) => streams.extend(more),
                    None => found = None,
                }
            });
        }

        found?;
        let total = self.groups(stripe);
        let leads = match groups.last_mut() {
            Some(last)
                if last.end as u64 == total
                    && streams.iter().any(|stream| stream.shape == OrcStreamLayout::Bits) =>
            {
                let is_first = last.start == 0;
                last.start = last.start.saturating_sub(1);
                !is_first
            }
            _ => false,
        };

        let mut ranges: Vec<Range<u64>> = Vec::new();
        for stream in &streams {
            for groups in &groups {
                ranges.push(stream.span(groups, self)?);
            }
        }

        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        let ranges = bytes::merged(ranges);
        let selected: u64 = groups.iter().map(|groups| groups.len() as u64).sum();
        let texts =
            u128::from(self.all_text_bytes(stripe, fields)) * u128::from(selected) / total.max(1) as u128;

        Some(SelectedRowGroups {
            stripe,
            columns: fields.to_vec(),
            groups,
            leads,
            footer,
            streams,
            ranges,
            texts: u64::try_from(texts).unwrap_or(u64::MAX),
            read: Vec::new(),
        })
    }

    /// Reads the bytes.
    pub(crate) async fn read_selected(
        &self,
        object: &OpenObject,
        mut selected: SelectedRowGroups,
    ) -> Result<SelectedRowGroups> {
        if !selected.ranges.is_empty() {
            selected.read = object.read(&selected.ranges).await?;
        }
        Ok(selected)
    }

    /// Decodes the row groups in memory, on the calling thread: batches of up to `batch_rows` rows, with dictionary
    /// arrays for columns that have a dictionary in the stripe. An error may be due to the row index, in which case the
    /// stripe can still be read without it.
    pub(crate) fn decode_selected(
        &self,
        selected: &SelectedRowGroups,
        batch_rows: usize,
    ) -> Result<Vec<ColumnBatch>> {
        let error = |fault: OrcReadError| fault.into_error(&self.name, Some(selected.stripe));
        let columns = self.wanted_columns(&selected.columns).map_err(error)?;
        let mut dictionaries = StripeDictionaries::kept();
        let mut decoded = Vec::new();

        for (at, groups) in selected.groups.iter().enumerate() {
            let run = RowGroupRun { file: self, selected, groups, columns: &columns, batch_rows };
            let mut wanted = groups.clone();
            if selected.leads && at + 1 == selected.groups.len() {
                wanted.start += 1;
                run.decode(groups.start..wanted.start, &mut dictionaries)?;
            }
            decoded.extend(run.decode(wanted, &mut dictionaries)?);
        }

        Ok(decoded)
    }

    /// Returns the streams of one column, without its children.
    fn selected_streams(
        &self,
        footer: &StripeFooter,
        column: &OrcType,
        index: Option<&OrcColumnIndex>,
    ) -> Option<Vec<SelectedStream>> {
        let stream = |kind, shape, positions| {
            let at = footer.stream(column.id, kind)?.clone();
            Some(SelectedStream { column: column.id, kind, at, positions, shape })
        };
        if !footer.streams.iter().any(|stream| stream.column == column.id) {
            return Some(Vec::new());
        }

        let encoding = (*footer.encodings.get(column.id as usize)?)?;
        let has_presence = footer.stream(column.id, StreamKind::Present).is_some();
        let lists = index?.positions()?;
        let codec = self.tail.codec;
        let of_groups = positions::of_column(column, encoding, has_presence, codec.is_some(), &lists)?;
        let whole = match encoding.dictionary {
            Some(_) if column.is_text() => &[StreamKind::Length, StreamKind::DictionaryData][..],
            _ => &[],
        };
        let of_groups =
            of_groups.into_iter().filter_map(|(kind, shape, positions)| stream(kind, shape, Some(positions)));

        Some(
            of_groups
                .chain(whole.iter().filter_map(|kind| stream(*kind, OrcStreamLayout::Bytes, None)))
                .collect(),
        )
    }

    /// Returns the footer of a stripe, if it was read.
    pub(super) fn known_footer(&self, stripe: usize) -> Option<Arc<StripeFooter>> {
        self.footers.get(stripe)?.get().cloned()
    }
}

impl SelectedStream {
    /// Returns the bytes of the object that hold row groups.
    fn span(&self, groups: &Range<usize>, file: &OrcFile) -> Option<Range<u64>> {
        let Some(positions) = &self.positions else { return Some(self.at.clone()) };
        let span =
            positions::span(positions, groups, self.shape, file.tail.codec, self.at.end - self.at.start)?;
        Some(self.at.start + span.start..self.at.start + span.end)
    }
}

impl SelectedRowGroups {
    /// Returns the streams positioned at the start of `group`, which may be the end of the last row group. They have
    /// the bytes of all of `groups`.
    fn streams(
        &self,
        file: &OrcFile,
        groups: &Range<usize>,
        group: usize,
    ) -> Result<StripeStreams, OrcReadError> {
        let codec = file.tail.codec;
        let mut streams = HashMap::with_capacity(self.streams.len());
        for selected in &self.streams {
            let lost = || OrcReadError::corrupt("fewer bytes were read than asked for");
            let span = selected.span(groups, file).ok_or_else(lost)?;
            let bytes = if span.start < span.end {
                bytes::cut(&self.ranges, &self.read, &span).ok_or_else(lost)?
            } else {
                Bytes::new()
            };
            let stream = match &selected.positions {
                None => OrcStreamReader::new(bytes, codec),
                Some(positions) => {
                    let position = positions.get(group).ok_or_else(lost)?;
                    let stream =
                        OrcStreamReader::at(&bytes, span.start - selected.at.start, codec, position)?;
                    match selected.shape {
                        OrcStreamLayout::Varints => stream.at_a_varint()?,
                        _ => stream,
                    }
                }
            };

            streams.insert((selected.column, selected.kind), (selected.at.start, stream));
        }

        Ok(StripeStreams::within(self.footer.clone(), streams))
    }
}

/// Consecutive row groups in memory.
struct RowGroupRun<'a> {
    file: &'a OrcFile,
    selected: &'a SelectedRowGroups,
    groups: &'a Range<usize>,
    columns: &'a [OrcType],
    batch_rows: usize,
}

impl RowGroupRun<'_> {
    /// Decodes some of the row groups, and verifies that they end where they should.
    fn decode(
        &self,
        groups: Range<usize>,
        dictionaries: &mut StripeDictionaries,
    ) -> Result<Vec<ColumnBatch>> {
        let error = |fault: OrcReadError| fault.into_error(&self.file.name, Some(self.selected.stripe));
        let total = self.file.stripe_rows(self.selected.stripe);
        let first_row = |group: usize| (group as u64).saturating_mul(self.file.tail.stride).min(total);
        let start = first_row(groups.start);
        let end = first_row(groups.end);
        let mut batches =
            self.batches(groups.start, end.saturating_sub(start), dictionaries).map_err(error)?;
        let mut decoded = Vec::new();

        for batch in batches.by_ref() {
            let batch = batch?;
            let rows = batch.first().map_or(0, |column| column.len());
            decoded.push((batch, rows));
        }

        let reached = batches.reached().map_err(error)?;
        let is_right = if end < total {
            let next = self.batches(groups.end, 0, dictionaries).and_then(|mut next| next.reached());
            next.map_err(error)? == reached
        } else {
            reached.iter().all(|stream| stream.is_end())
        };
        if is_right {
            Ok(decoded)
        } else {
            Err(error(OrcReadError::corrupt("a row index with wrong positions")))
        }
    }

    /// Returns the rows from the start of a row group.
    fn batches(
        &self,
        group: usize,
        rows: u64,
        dictionaries: &mut StripeDictionaries,
    ) -> Result<OrcBatches, OrcReadError> {
        let streams = self.selected.streams(self.file, self.groups, group)?;
        let name = self.file.name.clone();
        let stripe = self.selected.stripe;
        OrcBatches::new(name, stripe, rows, self.batch_rows, self.columns, &streams, dictionaries)
    }
}
