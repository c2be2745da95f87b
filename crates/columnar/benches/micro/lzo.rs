//! Compares the LZO decoder of ORC with the crate `lzokay-native`, which orc-rust uses, and with a copy of the same
//! bytes.
//!
//! This workspace has its own decoder not for speed, but because that crate panics on damaged bytes and does not bound
//! its output. No writer of this workspace produces LZO, so there is no scan to compare.

use divan::{Bencher, black_box, counter::BytesCount};
use stylobate_columnar::measure::decompress_lzo;

use crate::sample_bytes::SampleBytes;

const INPUTS: [SampleBytes; 3] =
    [SampleBytes::DictionaryPage, SampleBytes::Text, SampleBytes::Incompressible];
/// Bytes of a chunk: the default of ORC's writers.
const CHUNK: usize = 256 << 10;

fn bytes(input: SampleBytes) -> Vec<u8> {
    let mut bytes = input.bytes();
    bytes.truncate(CHUNK);
    bytes
}

#[divan::bench(args = INPUTS)]
fn ours(bencher: Bencher, input: SampleBytes) {
    let bytes = bytes(input);
    let chunk = lzokay_native::compress(&bytes).unwrap();
    let mut room = vec![0; bytes.len()];
    assert_eq!(decompress_lzo(&chunk, &mut room).unwrap(), bytes.len());
    assert!(room == bytes, "other bytes");

    let bencher = bencher.counter(BytesCount::new(bytes.len()));
    bencher.bench_local(|| decompress_lzo(black_box(&chunk), &mut room).unwrap());
}

#[divan::bench(args = INPUTS)]
fn lzokay_crate(bencher: Bencher, input: SampleBytes) {
    let bytes = bytes(input);
    let chunk = lzokay_native::compress(&bytes).unwrap();

    let bencher = bencher.counter(BytesCount::new(bytes.len()));
    bencher.bench_local(|| lzokay_native::decompress_all(black_box(&chunk), Some(bytes.len())).unwrap());
}

#[divan::bench]
fn copy(bencher: Bencher) {
    let bytes = bytes(SampleBytes::Incompressible);
    let mut room = vec![0; bytes.len()];

    let bencher = bencher.counter(BytesCount::new(bytes.len()));
    bencher.bench_local(|| {
        room.copy_from_slice(black_box(&bytes));
        black_box(&mut room);
    });
}
