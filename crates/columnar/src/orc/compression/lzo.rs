//! Decompresses LZO1X chunks, into bounded memory.

use stylobate_storage::{ByteReader, Corrupt};

/// State after a run of literals that was too long to be encoded in an instruction.
const AFTER_LONG_LITERALS: usize = 4;
/// Start of far distances.
const MIN_FAR_DISTANCE: usize = 1 << 14;

/// Decompresses a chunk to the beginning of `out`; returns the number of bytes.
pub(crate) fn decompress(chunk: &[u8], out: &mut [u8]) -> Result<usize, Corrupt> {
    let capacity = out.len();
    let mut decoder = LzoDecoder { chunk: ByteReader::new(chunk), out, len: 0 };
    let corrupt = || Corrupt::new(format!("no LZO stream of at most {capacity} bytes"));
    decoder.run().ok_or_else(|| corrupt().at(decoder.chunk.offset() as u64))
}

struct LzoDecoder<'a> {
    chunk: ByteReader<'a>,
    out: &'a mut [u8],
    /// Bytes of output so far.
    len: usize,
}

impl LzoDecoder<'_> {
    /// Runs the decoder; `None` if the stream ends too early or too late, copies from before its beginning, or does not
    /// fit.
    fn run(&mut self) -> Option<usize> {
        // Literals that the previous instruction copied: the meaning of the smallest opcodes depends on it.
        let mut literals = 0;
        if let Some(count) =
            self.chunk.rest().first().and_then(|first| first.checked_sub(17)).filter(|count| *count > 0)
        {
            self.byte()?;
            self.literals(count.into())?;
            literals = usize::from(count).min(AFTER_LONG_LITERALS);
        }

        loop {
            let code = self.byte()?;
            let (distance, length, after) = match code {
                64.. => {
                    let distance = (self.byte()? << 3) + (code >> 2 & 7) + 1;
                    (distance, (code >> 5) + 1, code & 3)
                }
                32..64 => {
                    let length = self.length(code & 31, 31)? + 2;
                    let (distance, after) = self.distance()?;
                    (distance + 1, length, after)
                }
                16..32 => {
                    let length = self.length(code & 7, 7)? + 2;
                    let (distance, after) = self.distance()?;
                    let distance = ((code & 8) << 11) + distance;
                    if distance == 0 {
                        return (length == 3 && self.chunk.is_empty()).then_some(self.len);
                    }
                    (distance + MIN_FAR_DISTANCE, length, after)
                }
                _ if literals == 0 => {
                    let count = self.length(code, 15)? + 3;
                    self.literals(count)?;
                    literals = AFTER_LONG_LITERALS;
                    continue;
                }
                _ => {
                    let (nearest, length) = if literals == AFTER_LONG_LITERALS { (2049, 3) } else { (1, 2) };
                    ((self.byte()? << 2) + (code >> 2) + nearest, length, code & 3)
                }
            };

            self.copy(distance, length)?;
            self.literals(after)?;
            literals = after;
        }
    }

    fn byte(&mut self) -> Option<usize> {
        self.chunk.byte().map(usize::from)
    }

    /// Reads a length from the instruction, or from the bytes after it if that is zero.
    fn length(&mut self, given: usize, base: usize) -> Option<usize> {
        if given > 0 {
            return Some(given);
        }

        let mut length = base;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Some(length + last),
            }
        }
    }

    /// Reads a distance, and the number of literals after the copy.
    fn distance(&mut self) -> Option<(usize, usize)> {
        let both = self.byte()? | self.byte()? << 8;
        Some((both >> 2, both & 3))
    }

    fn literals(&mut self, count: usize) -> Option<()> {
        let literals = self.chunk.take(count)?;
        let end = self.len + count;
        self.out.get_mut(self.len..end)?.copy_from_slice(literals);
        self.len = end;
        Some(())
    }

    /// Copies output from `distance` bytes back; the ranges may overlap.
    fn copy(&mut self, distance: usize, length: usize) -> Option<()> {
        let from = self.len.checked_sub(distance)?;
        let end = self.len + length;
        let out = self.out.get_mut(from..end)?;
        let mut done = distance;

        while done < out.len() {
            let count = done.min(out.len() - done);
            let (before, after) = out.split_at_mut(done);
            after.get_mut(..count)?.copy_from_slice(before.get(..count)?);
            done += count;
        }

        self.len = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> impl Iterator<Item = Vec<u8>> {
        (0..40_u64).map(|seed| {
            let mut state = seed + 1;
            let mut next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize
            };
            let mut text = Vec::new();
            let min_len = [20, 3_000, 70_000, 200_000][seed as usize % 4];

            while text.len() < min_len {
                match next() % 4 {
                    0 => text.extend((0..next() % 500).map(|_| next() as u8)),
                    1 => text.extend(std::iter::repeat_n(next() as u8, next() % 2_000)),
                    _ if text.is_empty() => text.push(7),
                    _ => {
                        let from = text.len() - 1 - next() % text.len();
                        let to = (from + next() % 300).min(text.len());
                        text.extend_from_within(from..to);
                    }
                }
            }

            text
        })
    }

    #[test]
    fn what_another_compressor_made_is_undone() {
        for text in texts() {
            let chunk = lzokay_native::compress(&text).unwrap();
            let mut room = vec![0; text.len()];
            assert_eq!(decompress(&chunk, &mut room), Ok(text.len()));
            assert_eq!(room, text);
            let mut less = vec![0; text.len() - 1];
            assert!(decompress(&chunk, &mut less).is_err());

            for end in (0..chunk.len()).step_by(chunk.len() / 50 + 1) {
                assert!(decompress(&chunk[..end], &mut room).is_err());
            }
        }
    }

    #[test]
    fn changed_chunks_are_errors_or_fit() {
        for text in texts().take(12) {
            let chunk = lzokay_native::compress(&text).unwrap();
            let mut room = vec![0; text.len()];
            for at in (0..chunk.len()).step_by(chunk.len() / 200 + 1) {
                for with in [0, 1, 16, 17, 31, 64, 255] {
                    let mut changed = chunk.clone();
                    changed[at] = with;
                    if let Ok(len) = decompress(&changed, &mut room) {
                        assert!(len <= text.len());
                    }
                }
            }
        }
    }

    #[test]
    fn each_instruction_is_done() {
        let mut room = [0; 64];
        let mut text = |chunk: &[u8]| decompress(chunk, &mut room).map(|len| room[..len].to_vec());
        // Four literals in the first byte, then the end.
        assert_eq!(text(&[21, 1, 2, 3, 4, 17, 0, 0]).unwrap(), [1, 2, 3, 4]);
        // One literal, two bytes from one back, and a literal after them.
        assert_eq!(text(&[18, 1, 1, 0, 9, 17, 0, 0]).unwrap(), [1, 1, 1, 9]);
        // One literal, repeated 35 times by the length after the instruction.
        let repeated = text(&[18, 1, 32, 2, 0, 0, 17, 0, 0]).unwrap();
        assert_eq!(repeated, [1; 36]);

        for wrong in [&[][..], &[17, 0, 0, 0], &[18, 1, 1, 1, 17, 0, 0], &[21, 1, 2, 3, 4], &[0, 0, 0, 0]] {
            assert!(text(wrong).is_err(), "{wrong:?}");
        }
    }
}
