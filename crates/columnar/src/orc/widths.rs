//! Widths of packed integers, and their five-bit codes.

/// Returns the width that a code stands for.
pub(super) fn decoded_width(code: u8) -> u32 {
    match code {
        0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// Returns the narrowest width with a code that fits.
pub(super) fn closest_width(width: u32) -> u32 {
    match width {
        0..=24 => width.max(1),
        25..=32 => width.next_multiple_of(2),
        _ => width.next_multiple_of(8),
    }
}

/// Returns the code of a width that has one.
pub(super) fn encoded_width(width: u32) -> u8 {
    match width {
        0..=24 => width.saturating_sub(1) as u8,
        25..=32 => 24 + ((width - 26) / 2) as u8,
        _ => 28 + ((width - 40) / 8) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_has_its_code() {
        for code in 0..32 {
            assert_eq!(encoded_width(decoded_width(code)), code);
        }
        for width in 1..=64 {
            let closest = closest_width(width);
            assert!(closest >= width && decoded_width(encoded_width(closest)) == closest);
        }
    }
}
