//! Unpacks integers of a few bits each, highest bit first: eight at a time, which take as many bytes as one takes bits,
//! by loads and shifts that are constant at compile time.

/// Numbers that are unpacked together.
const LANES: usize = 8;

/// Appends `count` numbers of `width` bits each, all within `bytes`. Bytes after them are not used, but allow the
/// faster path. Only widths that have a code are valid.
pub(super) fn unpack(bytes: &[u8], width: u32, count: usize, out: &mut Vec<i64>) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_all::<$width, { window($width) }>(bytes, count, out),)*
                _ => {
                    let words = bytes.as_chunks::<8>().0.iter().take(count);
                    out.extend(words.map(|word| i64::from_be_bytes(*word)));
                }
            }
        };
    }

    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 26 28 30 32 40 48 56);
}

/// Returns the bytes loaded for some numbers: eight from the start of the last of them.
const fn window(width: usize) -> usize {
    (LANES - 1) * width / 8 + 8
}

fn unpack_all<const WIDTH: usize, const WINDOW: usize>(bytes: &[u8], count: usize, out: &mut Vec<i64>) {
    out.reserve(count);
    let mut rest = bytes;
    let mut left = count;

    while left >= LANES
        && let Some(window) = rest.first_chunk::<WINDOW>()
    {
        out.extend_from_slice(&unpack_window::<WIDTH, WINDOW>(window));
        rest = rest.get(WIDTH..).unwrap_or_default();
        left -= LANES;
    }
    while left > 0 {
        let mut window = [0; WINDOW];
        window.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let now = left.min(LANES);
        out.extend_from_slice(unpack_window::<WIDTH, WINDOW>(&window).get(..now).unwrap_or_default());
        rest = rest.get(WIDTH..).unwrap_or_default();
        left -= now;
    }
}

#[inline(always)]
fn unpack_window<const WIDTH: usize, const WINDOW: usize>(window: &[u8; WINDOW]) -> [i64; LANES] {
    std::array::from_fn(|at| {
        let bit = at * WIDTH;
        let word =
            window.get(bit / 8..).and_then(|from| from.first_chunk::<8>()).copied().unwrap_or_default();
        // Widths above 32 bits are whole bytes, so that eight bytes always hold a number.
        (u64::from_be_bytes(word) << (bit % 8) >> (64 - WIDTH)) as i64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orc::widths::decoded_width;

    #[test]
    fn numbers_of_every_width_come_out_whatever_lies_behind_them() {
        for code in 0..32 {
            let width = decoded_width(code);
            for count in [0, 1, 2, 7, 8, 9, 63, 64, 65, 511, 512] {
                let mask = u64::MAX >> (64 - width);
                let numbers: Vec<i64> = (1..=count as u64)
                    .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask) as i64)
                    .collect();
                let text: String =
                    numbers.iter().map(|it| format!("{it:0width$b}", width = width as usize)).collect();
                let mut bytes: Vec<u8> = text
                    .as_bytes()
                    .chunks(8)
                    .map(|bits| {
                        u8::from_str_radix(&format!("{:0<8}", str::from_utf8(bits).unwrap()), 2).unwrap()
                    })
                    .collect();

                for _ in 0..70 {
                    let mut out = vec![5];
                    unpack(&bytes, width, count, &mut out);
                    assert_eq!(out[1..], numbers, "{count} of {width} bits");
                    bytes.push(0xff);
                }
            }
        }
    }
}
