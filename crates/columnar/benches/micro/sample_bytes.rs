//! Sample input for compressors: values and text.

use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};

/// Bytes of a string.
const STRING: usize = 32;
/// Number of distinct words in [`prose`].
const WORDS: usize = 2000;

/// Input of a compressor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SampleBytes {
    /// 100,000 random strings of 32 bytes, as a Parquet file stores its dictionary.
    DictionaryPage,
    /// A mebibyte of words.
    Text,
    /// A mebibyte of random bytes.
    Incompressible,
    /// 32 KiB of random bytes, which the compressor stores as one literal.
    OneLiteral,
}

impl SampleBytes {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::DictionaryPage => plain_page(&strings(100_000)),
            Self::Text => prose(1 << 20).into_bytes(),
            Self::Incompressible => random(1 << 20),
            Self::OneLiteral => random(32 << 10),
        }
    }
}

/// Returns distinct random strings of 32 printable characters.
pub(crate) fn strings(count: usize) -> Vec<String> {
    let mut letters = StdRng::seed_from_u64(7);
    let mut string = || (0..STRING).map(|_| char::from(letters.random_range(b'!'..=b'~'))).collect();
    (0..count).map(|_| string()).collect()
}

/// Encodes strings as PLAIN values.
fn plain_page(strings: &[String]) -> Vec<u8> {
    let mut page = Vec::new();
    for string in strings {
        page.extend((string.len() as u32).to_le_bytes());
        page.extend(string.as_bytes());
    }

    page
}

/// Returns `length` bytes of words, a few of them frequent.
pub(crate) fn prose(length: usize) -> String {
    let mut random = StdRng::seed_from_u64(11);
    let mut words = Vec::with_capacity(WORDS);
    for _ in 0..WORDS {
        let letters = random.random_range(2..10);
        words.push((0..letters).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect::<String>());
    }

    let mut text = String::with_capacity(length + STRING);
    while text.len() < length {
        let rank: f64 = random.random();
        text.push_str(&words[(rank.powi(3) * WORDS as f64) as usize]);
        text.push(' ');
    }

    text.truncate(length);
    text
}

fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(13).fill_bytes(&mut bytes);
    bytes
}
