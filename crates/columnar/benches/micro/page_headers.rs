//! Compares the parser of page headers with the parquet crate's, and measures a scan of the same small pages.
//!
//! The parquet crate parses headers only within its reader of pages. The benchmark makes that reader skip all pages, so
//! that it reads nothing but headers.

use std::{ops::Range, sync::Arc};

use arrow::array::StringArray;
use bytes::Bytes;
use divan::{Bencher, black_box, counter::ItemsCount};
use parquet::{
    column::page::PageReader,
    file::{
        metadata::ColumnChunkMetaData,
        properties::WriterProperties,
        reader::FileReader,
        serialized_reader::{SerializedFileReader, SerializedPageReader},
    },
};
use stylobate_columnar::{Dictionaries, measure::read_page_headers};

use crate::{parquet_sample::ParquetSample, sample_bytes::strings};

const ROWS: usize = 200_000;
const ROWS_OF_A_PAGE: usize = 500;

/// Content of the headers of data pages.
#[derive(Clone, Copy, Debug)]
enum PageHeaderContent {
    /// The default of the parquet crate's writer.
    WithoutStatistics,
    /// Four additional strings, which are skipped.
    WithStatistics,
}

const CONTENTS: [PageHeaderContent; 2] =
    [PageHeaderContent::WithoutStatistics, PageHeaderContent::WithStatistics];

/// Writes 400 pages of strings, uncompressed.
fn sample(content: PageHeaderContent) -> ParquetSample {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(ROWS_OF_A_PAGE)
        .set_data_page_row_count_limit(ROWS_OF_A_PAGE)
        .set_write_page_header_statistics(matches!(content, PageHeaderContent::WithStatistics));
    ParquetSample::new(StringArray::from_iter_values(strings(ROWS)), properties.build())
}

/// The bytes of a file, and its only column chunk.
struct ColumnChunkBytes {
    file: Arc<Bytes>,
    column: ColumnChunkMetaData,
}

impl ColumnChunkBytes {
    fn new(content: PageHeaderContent) -> Self {
        let file = Bytes::from(std::fs::read(sample(content).path).unwrap());
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let column = reader.metadata().row_group(0).column(0).clone();
        Self { file: Arc::new(file), column }
    }

    fn range(&self) -> Range<usize> {
        let (start, length) = self.column.byte_range();
        start as usize..(start + length) as usize
    }

    fn pages(&self) -> SerializedPageReader<Bytes> {
        SerializedPageReader::new(self.file.clone(), &self.column, ROWS, None).unwrap()
    }

    /// Counts the pages with the parquet crate.
    fn count(&self) -> usize {
        let mut pages = self.pages();
        let mut count = 0;
        while pages.peek_next_page().unwrap().is_some() {
            pages.skip_next_page().unwrap();
            count += 1;
        }

        count
    }
}

#[divan::bench(args = CONTENTS)]
fn ours(bencher: Bencher, content: PageHeaderContent) {
    let chunk = ColumnChunkBytes::new(content);
    let bytes = chunk.file.slice(chunk.range());
    let count = chunk.count();
    assert_eq!(read_page_headers(&bytes).unwrap(), count);

    let bencher = bencher.counter(ItemsCount::new(count));
    bencher.bench_local(|| read_page_headers(black_box(&bytes)).unwrap());
}

#[divan::bench(args = CONTENTS)]
fn parquet_crate(bencher: Bencher, content: PageHeaderContent) {
    let chunk = ColumnChunkBytes::new(content);
    let count = chunk.count();

    let bencher = bencher.counter(ItemsCount::new(count));
    bencher.bench_local(|| {
        let mut pages = chunk.pages();
        (0..count).for_each(|_| pages.skip_next_page().unwrap());
    });
}

/// Measures all of a scan that reads these pages.
#[divan::bench(args = CONTENTS, sample_size = 1)]
fn scan(bencher: Bencher, content: PageHeaderContent) {
    sample(content).bench_scans(bencher, &Dictionaries::None);
}
