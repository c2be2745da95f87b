//! Unpacks codes in vectors of eight.

use std::arch::x86_64::*;

/// Layout of eight values of one width in the bytes that begin with the first.
struct UnpackLayout {
    shuffle: __m256i,
    shift: __m256i,
    mask: __m256i,
    /// Offset of the bytes of the upper four values.
    upper: usize,
    /// Bytes of eight values.
    step: usize,
}

/// By width, the byte shuffle and the shift of each value.
static LAYOUTS: [([u8; 32], [u32; 8]); 26] = layouts();

#[expect(clippy::indexing_slicing, reason = "computed by the compiler")]
const fn layouts() -> [([u8; 32], [u32; 8]); 26] {
    let mut layouts = [([0; 32], [0; 8]); 26];
    let mut width = 0;
    while width < 26 {
        let mut value = 0;
        while value < 8 {
            let bit = value * width - if value < 4 { 0 } else { width * 4 / 8 * 8 };
            layouts[width].1[value] = (bit % 8) as u32;
            let mut byte = 0;
            while byte < 4 {
                layouts[width].0[value * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            value += 1;
        }

        width += 1;
    }

    layouts
}

impl UnpackLayout {
    /// Returns the layout of a width up to 25.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(width: u8) -> Self {
        let width = usize::from(width);
        let Some((shuffle, shift)) = LAYOUTS.get(width) else { return Self::new(25) };
        // SAFETY: unaligned loads of 32 bytes from arrays of 32 bytes.
        let (shuffle, shift) = unsafe {
            (_mm256_loadu_si256(shuffle.as_ptr().cast()), _mm256_loadu_si256(shift.as_ptr().cast()))
        };
        let mask = _mm256_set1_epi32(((1_u64 << width) - 1) as i32);
        Self { shuffle, shift, mask, upper: width * 4 / 8, step: width }
    }

    /// Returns the number of groups of eight values that can be loaded without reading beyond `bytes`.
    fn groups(&self, bytes: usize) -> usize {
        match bytes.checked_sub(self.upper + 16) {
            Some(spare) => spare / self.step + 1,
            None => 0,
        }
    }

    /// Unpacks eight values to lanes of 32 bits.
    ///
    /// # Safety
    ///
    /// `self.upper + 16` bytes can be read from `from`.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn eight(&self, from: *const u8) -> __m256i {
        // SAFETY: guaranteed by the caller.
        let (low, high) =
            unsafe { (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(self.upper).cast())) };
        let bytes = _mm256_set_m128i(high, low);
        let lanes = _mm256_shuffle_epi8(bytes, self.shuffle);
        _mm256_and_si256(_mm256_srlv_epi32(lanes, self.shift), self.mask)
    }
}

/// See [`DictionaryCode::unpack_vectors`](super::DictionaryCode::unpack_vectors).
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack_u32(data: &[u8], width: u8, count: usize, out: *mut u32) -> (usize, u32) {
    let layout = UnpackLayout::new(width);
    let groups = (count / 8).min(layout.groups(data.len()));

    let mut max = _mm256_setzero_si256();
    for group in 0..groups {
        // SAFETY: `groups` bounds the loads by the length of `data` and the stores by `count`.
        unsafe {
            let values = layout.eight(data.as_ptr().add(group * layout.step));
            max = _mm256_max_epu32(max, values);
            _mm256_storeu_si256(out.add(group * 8).cast(), values);
        }
    }

    let mut lanes = [0_u32; 8];
    // SAFETY: a store of 32 bytes to an array of 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), max) };
    (groups * 8, lanes.into_iter().fold(0, u32::max))
}

/// See [`DictionaryCode::unpack_vectors`](super::DictionaryCode::unpack_vectors).
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack_u16(data: &[u8], width: u8, count: usize, out: *mut u16) -> (usize, u16) {
    let layout = UnpackLayout::new(width);
    let groups = layout.groups(data.len());
    let pairs = (count / 16).min(groups / 2);

    let mut max = _mm256_setzero_si256();
    for pair in 0..pairs {
        // SAFETY: `pairs` bounds the loads by the length of `data` and the stores by `count`.
        unsafe {
            let from = data.as_ptr().add(pair * 2 * layout.step);
            let first = layout.eight(from);
            let second = layout.eight(from.add(layout.step));
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(first, second));
            max = _mm256_max_epu16(max, packed);
            _mm256_storeu_si256(out.add(pair * 16).cast(), packed);
        }
    }

    let mut done = pairs * 16;
    if count - done >= 8 && groups > pairs * 2 {
        // SAFETY: there is one more group to load, and room for its eight values.
        unsafe {
            let eight = layout.eight(data.as_ptr().add(pairs * 2 * layout.step));
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(eight, eight));
            max = _mm256_max_epu16(max, packed);
            _mm_storeu_si128(out.add(done).cast(), _mm256_castsi256_si128(packed));
        }
        done += 8;
    }

    let mut lanes = [0_u16; 16];
    // SAFETY: a store of 32 bytes to an array of 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), max) };
    (done, lanes.into_iter().fold(0, u16::max))
}

/// See [`DictionaryCode::unpack_vectors`](super::DictionaryCode::unpack_vectors).
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack_u8(data: &[u8], width: u8, count: usize, out: *mut u8) -> (usize, u8) {
    let layout = UnpackLayout::new(width);
    let groups = layout.groups(data.len());
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let quads = (count / 32).min(groups / 4);

    let mut max = _mm256_setzero_si256();
    for quad in 0..quads {
        // SAFETY: `quads` bounds the loads by the length of `data` and the stores by `count`.
        unsafe {
            let from = data.as_ptr().add(quad * 4 * layout.step);
            let a = layout.eight(from);
            let b = layout.eight(from.add(layout.step));
            let c = layout.eight(from.add(2 * layout.step));
            let d = layout.eight(from.add(3 * layout.step));
            let low = _mm256_packus_epi32(a, b);
            let high = _mm256_packus_epi32(c, d);
            let packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
            max = _mm256_max_epu8(max, packed);
            _mm256_storeu_si256(out.add(quad * 32).cast(), packed);
        }
    }

    let mut done = quads * 32;
    while count - done >= 8 && groups > done / 8 {
        // SAFETY: there is one more group to load, and room for its eight values.
        unsafe {
            let eight = layout.eight(data.as_ptr().add(done / 8 * layout.step));
            let words = _mm256_packus_epi32(eight, eight);
            let packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), order);
            max = _mm256_max_epu8(max, packed);
            _mm_storel_epi64(out.add(done).cast(), _mm256_castsi256_si128(packed));
        }

        done += 8;
    }

    let mut lanes = [0_u8; 32];
    // SAFETY: a store of 32 bytes to an array of 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), max) };
    (done, lanes.into_iter().fold(0, u8::max))
}
