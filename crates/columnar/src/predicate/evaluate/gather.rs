//! The codes of a dictionary that pass, and the rows that have them.

use arrow::{
    array::{Array, AsArray},
    datatypes::{
        ArrowDictionaryKeyType, ArrowNativeType, ArrowPrimitiveType, DataType, Int8Type, Int16Type,
        Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};

use crate::predicate::words::keep_values;

/// Codes whose values pass. Codes beyond the dictionary never pass.
#[derive(Debug)]
pub(super) enum PassingCodes {
    None,
    /// The codes from `first` to `last`, both included.
    Run {
        first: u64,
        last: u64,
    },
    /// A byte per possible 8-bit code, so that no code is beyond the table.
    U8(Box<[u8; 1 << 8]>),
    /// A byte per possible 16-bit code.
    U16(Box<[u8; 1 << 16]>),
    /// A bit per code of the dictionary.
    Bits(Vec<u64>),
}

impl PassingCodes {
    /// Builds the table from the passing values of the dictionary, as bits, for keys of a type.
    pub(super) fn new(passing: Vec<u64>, keys: &DataType) -> Self {
        let count: u64 = passing.iter().map(|word| u64::from(word.count_ones())).sum();
        let first = passing.iter().position(|word| *word != 0).unwrap_or(0);
        let last = passing.iter().rposition(|word| *word != 0).unwrap_or(0);
        let (Some(low), Some(high)) = (passing.get(first), passing.get(last)) else { return Self::None };

        let first = 64 * first as u64 + u64::from(low.trailing_zeros());
        let last = 64 * last as u64 + u64::from(63_u32.saturating_sub(high.leading_zeros()));
        if count == 0 {
            return Self::None;
        }
        if last - first + 1 == count {
            return Self::Run { first, last };
        }

        let table = match keys {
            DataType::UInt8 => bytes(&passing).map(Self::U8),
            DataType::UInt16 => bytes(&passing).map(Self::U16),
            _ => None,
        };

        table.unwrap_or(Self::Bits(passing))
    }

    /// Clears the rows whose code does not pass; `None` if `keys` is not of a key type.
    #[expect(clippy::indexing_slicing, reason = "a table has an entry for each code of its type")]
    pub(super) fn keep(&self, keys: &dyn Array, words: &mut [u64]) -> Option<()> {
        match (self, keys.data_type()) {
            (Self::None, _) => words.fill(0),
            (Self::U8(table), DataType::UInt8) => {
                let codes = keys.as_primitive_opt::<UInt8Type>()?.values();
                keep_values(words, codes, |code| table[usize::from(code)] != 0);
            }
            (Self::U16(table), DataType::UInt16) => {
                let codes = keys.as_primitive_opt::<UInt16Type>()?.values();
                keep_values(words, codes, |code| table[usize::from(code)] != 0);
            }
            (_, DataType::UInt8) => self.keep_keys::<UInt8Type>(keys, words)?,
            (_, DataType::UInt16) => self.keep_keys::<UInt16Type>(keys, words)?,
            (_, DataType::UInt32) => self.keep_keys::<UInt32Type>(keys, words)?,
            (_, DataType::UInt64) => self.keep_keys::<UInt64Type>(keys, words)?,
            (_, DataType::Int8) => self.keep_keys::<Int8Type>(keys, words)?,
            (_, DataType::Int16) => self.keep_keys::<Int16Type>(keys, words)?,
            (_, DataType::Int32) => self.keep_keys::<Int32Type>(keys, words)?,
            (_, DataType::Int64) => self.keep_keys::<Int64Type>(keys, words)?,
            _ => return None,
        }
        Some(())
    }

    fn keep_keys<K: ArrowDictionaryKeyType>(&self, keys: &dyn Array, words: &mut [u64]) -> Option<()>
    where
        K::Native: Ord,
    {
        let codes = keys.as_primitive_opt::<K>()?.values();
        let key = |code: u64| <K as ArrowPrimitiveType>::Native::from_usize(usize::try_from(code).ok()?);
        match self {
            Self::None => words.fill(0),
            Self::Run { first, last } => match (key(*first), key(*last)) {
                (Some(first), Some(last)) => {
                    keep_values(words, codes, |code| (code >= first) & (code <= last));
                }
                // A dictionary may have more values than its keys can address.
                (Some(first), None) => keep_values(words, codes, |code| code >= first),
                (None, _) => words.fill(0),
            },
            Self::U8(table) => {
                keep_listed::<K>(words, codes, |code| table.get(code).is_some_and(|pass| *pass != 0));
            }
            Self::U16(table) => {
                keep_listed::<K>(words, codes, |code| table.get(code).is_some_and(|pass| *pass != 0));
            }
            Self::Bits(bits) => {
                keep_listed::<K>(words, codes, |code| {
                    bits.get(code / 64).is_some_and(|bits| bits >> (code % 64) & 1 != 0)
                });
            }
        }

        Some(())
    }
}

#[inline(always)]
fn keep_listed<K: ArrowDictionaryKeyType>(
    words: &mut [u64],
    codes: &[K::Native],
    passes: impl Fn(usize) -> bool,
) {
    keep_values(words, codes, |code| passes(code.as_usize()));
}

/// Expands bits to a byte per code of `CODES` codes; `None` if there are more.
fn bytes<const CODES: usize>(passing: &[u64]) -> Option<Box<[u8; CODES]>> {
    let mut table = vec![0; CODES];
    for (index, word) in passing.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            *table.get_mut(64 * index + rest.trailing_zeros() as usize)? = 1;
            rest &= rest - 1;
        }
    }

    table.into_boxed_slice().try_into().ok()
}
