//! Checks that the page index and bloom filter of a column chunk agree with themselves and with the footer. Those that
//! do not are treated as absent: they would hide rows.

use bytes::Bytes;
use parquet::{
    basic::SortOrder,
    file::{
        metadata::ColumnChunkMetaData,
        page_index::{column_index::ColumnIndexMetaData, offset_index::PageLocation},
        statistics::{Statistics, ValueStatistics},
    },
};

use crate::parquet::{footer, pages::header::bloom_filter_lengths};

/// Bytes of a bloom filter block.
const BLOCK: usize = 32;

/// Returns whether the pages cover their chunk, in order, and both halves of the index agree with the footer.
pub(crate) fn is_sound(
    values: Option<&ColumnIndexMetaData>,
    locations: &[PageLocation],
    chunk: &ColumnChunkMetaData,
    rows: u64,
) -> bool {
    let Some(counts) = rows_of_pages(locations, chunk, rows) else { return false };
    match values {
        Some(ColumnIndexMetaData::NONE) | None => true,
        Some(values) => {
            values.num_pages() == counts.len() as u64
                && has_nulls_of_footer(values, &counts, chunk)
                && has_bounds_of_footer(values, chunk)
        }
    }
}

/// Returns whether the bytes begin with a bloom filter of the length that the footer and the filter's own header give.
pub(crate) fn has_length_of_footer(bytes: &Bytes, chunk: &ColumnChunkMetaData) -> bool {
    let Ok(Some((header, bits))) = bloom_filter_lengths(bytes) else { return false };
    let length = header.saturating_add(bits);
    let is_whole = match chunk.bloom_filter_length() {
        Some(given) => usize::try_from(given) == Ok(length),
        None => length <= bytes.len(),
    };
    is_whole && bits > 0 && bits % BLOCK == 0
}

/// Returns the rows of each page; `None` unless the pages follow one another from the first data page to the end of the
/// chunk, and from the first row to the last.
fn rows_of_pages(locations: &[PageLocation], chunk: &ColumnChunkMetaData, rows: u64) -> Option<Vec<u64>> {
    let mut next_byte = u64::try_from(chunk.data_page_offset()).ok()?;
    for page in locations {
        let start = u64::try_from(page.offset).ok().filter(|start| *start == next_byte)?;
        next_byte = start.checked_add(u64::try_from(page.compressed_page_size).ok()?)?;
    }

    let starts: Option<Vec<u64>> =
        locations.iter().map(|page| u64::try_from(page.first_row_index).ok()).collect();
    let starts = starts?;
    let ends = starts.iter().skip(1).copied().chain([rows]);
    let counts = starts.iter().zip(ends).map(|(start, end)| end.checked_sub(*start).filter(|rows| *rows > 0));
    let counts: Vec<u64> = counts.collect::<Option<_>>()?;

    (starts.first() == Some(&0) && next_byte == footer::range(chunk).end).then_some(counts)
}

/// Returns whether the null counts of pages are plausible: none in a required column, no more than rows in any page,
/// and in total as many as the footer states.
fn has_nulls_of_footer(values: &ColumnIndexMetaData, rows: &[u64], chunk: &ColumnChunkMetaData) -> bool {
    let descriptor = chunk.column_descr();
    let is_required = descriptor.max_def_level() == 0;
    let is_flat = descriptor.max_rep_level() == 0;
    let mut total = Some(0_u64);
    let mut has_values = false;

    for (page, rows) in rows.iter().enumerate() {
        let is_null = values.is_null_page(page);
        has_values |= !is_null;
        let nulls = match values.null_count(page).map(u64::try_from) {
            Some(Ok(nulls)) => Some(nulls),
            Some(Err(_)) => return false,
            None => None,
        };
        if is_required && (is_null || nulls.is_some_and(|nulls| nulls > 0)) {
            return false;
        }
        // The values of lists are not counted in rows.
        if is_flat && nulls.is_some_and(|nulls| nulls > *rows || (nulls == *rows) != is_null) {
            return false;
        }

        total = total.zip(nulls).and_then(|(total, nulls)| total.checked_add(nulls));
    }

    let Some(statistics) = chunk.statistics() else { return true };
    let of_footer = statistics.null_count_opt();
    let has_bounds = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
    let all = u64::try_from(chunk.num_values()).ok();
    let only_nulls = of_footer.is_some() && of_footer == all;
    let same_nulls = !is_flat || total.zip(of_footer).is_none_or(|(total, of_footer)| total == of_footer);

    same_nulls && (has_values || !has_bounds) && !(is_flat && has_values && only_nulls)
}

/// Returns whether the minimum and maximum of all pages are those of the footer, if both are exact.
fn has_bounds_of_footer(values: &ColumnIndexMetaData, chunk: &ColumnChunkMetaData) -> bool {
    let order = chunk.column_descr().sort_order();
    // Old writers compared all values as signed.
    let is_old = chunk.statistics().is_some_and(Statistics::is_min_max_deprecated);
    match (values, chunk.statistics()) {
        (ColumnIndexMetaData::INT32(index), Some(Statistics::Int32(of_footer))) => match order {
            SortOrder::SIGNED => {
                has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value)
            }
            SortOrder::UNSIGNED if !is_old => {
                has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value as u32)
            }
            _ => true,
        },
        (ColumnIndexMetaData::INT64(index), Some(Statistics::Int64(of_footer))) => match order {
            SortOrder::SIGNED => {
                has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value)
            }
            SortOrder::UNSIGNED if !is_old => {
                has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value as u64)
            }
            _ => true,
        },
        (ColumnIndexMetaData::FLOAT(index), Some(Statistics::Float(of_footer))) => {
            has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value)
        }
        (ColumnIndexMetaData::DOUBLE(index), Some(Statistics::Double(of_footer))) => {
            has_bounds(index.min_values_iter(), index.max_values_iter(), of_footer, |value| *value)
        }
        (ColumnIndexMetaData::BYTE_ARRAY(index), Some(Statistics::ByteArray(of_footer)))
            if order == SortOrder::UNSIGNED && !is_old =>
        {
            // Bounds of pages may be truncated, which makes them wider.
            let index_min = index.min_values_iter().flatten().min();
            let index_max = index.max_values_iter().flatten().max();
            let min = of_footer.min_opt().filter(|_| of_footer.min_is_exact());
            let max = of_footer.max_opt().filter(|_| of_footer.max_is_exact());
            index_min.zip(min).is_none_or(|(index_min, min)| index_min <= min.data())
                && index_max.zip(max).is_none_or(|(index_max, max)| index_max >= max.data())
        }
        _ => true,
    }
}

fn has_bounds<'a, T: 'a, K: PartialOrd>(
    mins: impl Iterator<Item = Option<&'a T>>,
    maxes: impl Iterator<Item = Option<&'a T>>,
    of_footer: &ValueStatistics<T>,
    key: impl Fn(&T) -> K,
) -> bool {
    let index_min = mins.flatten().map(&key).filter(is_number).reduce(|a, b| if b < a { b } else { a });
    let index_max = maxes.flatten().map(&key).filter(is_number).reduce(|a, b| if b > a { b } else { a });
    let min = of_footer.min_opt().map(&key).filter(is_number);
    let max = of_footer.max_opt().map(&key).filter(is_number);
    index_min.zip(min).is_none_or(|(index_min, min)| index_min == min)
        && index_max.zip(max).is_none_or(|(index_max, max)| index_max == max)
}

/// Returns whether a value is comparable: not NaN.
fn is_number<K: PartialOrd>(value: &K) -> bool {
    value.partial_cmp(value).is_some()
}
