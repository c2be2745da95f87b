//! Compares the snappy decoder with the crate `snap`, and measures scans of files with and without compression: their
//! difference is the share of the decoder.

use arrow::array::StringArray;
use divan::{Bencher, black_box, counter::BytesCount};
use parquet::{basic::Compression, file::properties::WriterProperties};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Dictionaries, measure::decompress_snappy};

use crate::{
    parquet_sample::ParquetSample,
    sample_bytes::{SampleBytes, prose, strings},
};

const INPUTS: [SampleBytes; 4] =
    [SampleBytes::DictionaryPage, SampleBytes::Text, SampleBytes::Incompressible, SampleBytes::OneLiteral];
const COMPRESSIONS: [Compression; 2] = [Compression::SNAPPY, Compression::UNCOMPRESSED];
/// Rows of the scanned files.
const ROWS: usize = 1_000_000;
/// Bytes of a row of text.
const LINE: usize = 64;

fn compressed(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

#[divan::bench(args = INPUTS)]
fn ours(bencher: Bencher, input: SampleBytes) {
    let bytes = input.bytes();
    let block = compressed(&bytes);
    let mut room = Vec::new();
    assert!(decompress_snappy(&block, &mut room).unwrap() == bytes, "other bytes");

    let bencher = bencher.counter(BytesCount::new(bytes.len()));
    bencher.bench_local(|| decompress_snappy(black_box(&block), &mut room).unwrap().len());
}

#[divan::bench(args = INPUTS)]
fn snap_crate(bencher: Bencher, input: SampleBytes) {
    let bytes = input.bytes();
    let block = compressed(&bytes);
    let mut room = vec![0; bytes.len()];
    let mut decoder = snap::raw::Decoder::new();

    let bencher = bencher.counter(BytesCount::new(bytes.len()));
    bencher.bench_local(|| decoder.decompress(black_box(&block), &mut room).unwrap());
}

/// A million rows of 100,000 distinct strings, stored and returned as a dictionary.
#[divan::bench(args = COMPRESSIONS, sample_size = 1)]
fn scan_of_dictionary(bencher: Bencher, compression: Compression) {
    let values = strings(100_000);
    let mut random = StdRng::seed_from_u64(17);
    let rows = (0..ROWS).map(|_| values[random.random_range(0..values.len())].as_str());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_page_size_limit(64 << 20)
        .build();

    let sample = ParquetSample::new(StringArray::from_iter_values(rows), properties);
    sample.bench_scans(bencher, &Dictionaries::All);
}

/// A million rows of text, PLAIN and dense.
#[divan::bench(args = COMPRESSIONS, sample_size = 1)]
fn scan_of_text(bencher: Bencher, compression: Compression) {
    let text = prose(ROWS * LINE);
    let rows = text.as_bytes().chunks_exact(LINE).map(|line| str::from_utf8(line).unwrap());
    let properties =
        WriterProperties::builder().set_compression(compression).set_dictionary_enabled(false).build();

    let sample = ParquetSample::new(StringArray::from_iter_values(rows), properties);
    sample.bench_scans(bencher, &Dictionaries::None);
}
