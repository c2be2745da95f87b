//! Corrupts valid bytes.

use rand::{Rng, rngs::StdRng};

/// Changes a file a little: bits, stretches, its end; digits of texts, so that numbers change.
pub fn mangle(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            return vec![random.random()];
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.random_range(1..40)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + random.random_range(1..40)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => more_digits(&mut bytes, at, random),
        }
    }

    bytes
}

/// Replaces the next number of a text by another one, most often a large one.
fn more_digits(bytes: &mut Vec<u8>, from: usize, random: &mut StdRng) {
    let Some(start) = (from..bytes.len()).find(|at| bytes[*at].is_ascii_digit()) else { return };
    let end = (start..bytes.len()).find(|at| !bytes[*at].is_ascii_digit()).unwrap_or(bytes.len());
    let numbers = ["0", "1", "-1", "7", "1000", "4294967296", "1000000000000", "9223372036854775807", "1e9"];
    let number = numbers[random.random_range(0..numbers.len())];
    bytes.splice(start..end, number.bytes());
}
