//! Dictionary codes of repeated strings. All threads that generate rows of a table share one append-only dictionary
//! per column: each array of values starts with the values of earlier arrays.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, DictionaryArray, PrimitiveArray, StringArray, StringViewArray,
        UInt8Array,
    },
    datatypes::{ArrowDictionaryKeyType, ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type},
};
use parking_lot::Mutex;
use stylobate_columnar::ValueInterner;

use super::repeated::DictionaryKeyWidth;

/// Maximum length of a string that a view stores inline.
const INLINE: u32 = 12;

/// Values of a dictionary.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    keys: DictionaryKeyWidth,
    values: Mutex<VocabularyValues>,
}

#[derive(Debug, Default)]
struct VocabularyValues {
    texts: ValueInterner,
    /// A prefix of the values, as an array.
    array: Option<ArrayRef>,
}

impl Vocabulary {
    pub(crate) fn new(keys: DictionaryKeyWidth) -> Self {
        Self { keys, values: Mutex::default() }
    }

    pub(crate) fn keys(&self) -> DictionaryKeyWidth {
        self.keys
    }

    /// Returns the code of a string, adding it if it is new.
    fn code(&self, text: &str) -> Result<u32, String> {
        let code = self.values.lock().texts.intern(text.as_bytes());
        let code = code.filter(|code| (*code as usize) < self.keys.max_values());
        code.ok_or_else(|| format!("more than {} distinct strings", self.keys.max_values()))
    }

    /// Returns all values so far. Returns the same array until a value is added.
    fn array(&self) -> Result<ArrayRef, String> {
        let VocabularyValues { texts, array } = &mut *self.values.lock();
        let texts = texts.values();
        match array {
            Some(array) if array.len() == texts.len() => Ok(array.clone()),
            _ => {
                let texts = StringArray::try_from_binary(BinaryArray::from_iter_values(texts));
                let texts = texts.map_err(|error| error.to_string())?;
                Ok(array.insert(Arc::new(texts)).clone())
            }
        }
    }
}

/// Encodes strings on one thread, with a local cache of the vocabulary.
#[derive(Debug)]
pub(crate) struct VocabularyCoder {
    vocabulary: Arc<Vocabulary>,
    /// Hash table with open addressing, at most half full.
    slots: Vec<VocabularyCoderSlot>,
    met: usize,
}

#[derive(Clone, Debug)]
struct VocabularyCoderSlot {
    /// The view of a short string; the length, start and end of a long one.
    key: u128,
    code: u32,
    /// The text of a long string.
    text: Box<str>,
}

/// Code that marks an empty slot.
const EMPTY: u32 = u32::MAX;
const SLOTS: usize = 64;

impl VocabularyCoder {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, slots: vec![VocabularyCoderSlot::empty(); SLOTS], met: 0 }
    }

    /// Encodes the strings as a dictionary.
    pub(crate) fn encode(&mut self, text: &StringViewArray) -> Result<ArrayRef, String> {
        match self.vocabulary.keys {
            DictionaryKeyWidth::One => self.dictionary::<UInt8Type>(text, |code| code as u8),
            DictionaryKeyWidth::Two => self.dictionary::<UInt16Type>(text, |code| code as u16),
            DictionaryKeyWidth::Four => self.dictionary::<UInt32Type>(text, |code| code),
        }
    }

    /// Re-encodes a dictionary with few values using the codes of the vocabulary.
    pub(crate) fn recode(&mut self, dictionary: &DictionaryArray<UInt8Type>) -> Result<ArrayRef, String> {
        let values = dictionary.values().as_string_opt::<i32>().ok_or("a dictionary of no strings")?;
        let codes = values.iter().map(|text| self.vocabulary.code(text.unwrap_or_default()));
        let codes: Vec<u32> = codes.collect::<Result<_, _>>()?;
        let keys = dictionary.keys();
        let is_same = codes.iter().enumerate().all(|(index, code)| index == *code as usize);
        if is_same && self.vocabulary.keys == DictionaryKeyWidth::One {
            let dictionary = DictionaryArray::try_new(keys.clone(), self.vocabulary.array()?);
            return Ok(Arc::new(dictionary.map_err(|error| error.to_string())?));
        }

        match self.vocabulary.keys {
            DictionaryKeyWidth::One => self.renumbered::<UInt8Type>(keys, &codes, |code| code as u8),
            DictionaryKeyWidth::Two => self.renumbered::<UInt16Type>(keys, &codes, |code| code as u16),
            DictionaryKeyWidth::Four => self.renumbered::<UInt32Type>(keys, &codes, |code| code),
        }
    }

    fn renumbered<K: ArrowDictionaryKeyType>(
        &self,
        keys: &UInt8Array,
        codes: &[u32],
        narrow: impl Fn(u32) -> <K as ArrowPrimitiveType>::Native,
    ) -> Result<ArrayRef, String> {
        let code = |key: &u8| narrow(codes.get(usize::from(*key)).copied().unwrap_or_default());
        let renumbered: Vec<_> = keys.values().iter().map(code).collect();
        let keys = PrimitiveArray::<K>::new(renumbered.into(), keys.nulls().cloned());
        let dictionary = DictionaryArray::try_new(keys, self.vocabulary.array()?);
        Ok(Arc::new(dictionary.map_err(|error| error.to_string())?))
    }

    fn dictionary<K: ArrowDictionaryKeyType>(
        &mut self,
        text: &StringViewArray,
        narrow: impl Fn(u32) -> <K as ArrowPrimitiveType>::Native,
    ) -> Result<ArrayRef, String> {
        let mut keys = Vec::with_capacity(text.len());
        match text.nulls() {
            None => {
                for (row, view) in text.views().iter().enumerate() {
                    keys.push(narrow(self.code(*view, text, row)?));
                }
            }
            Some(nulls) => {
                for (row, view) in text.views().iter().enumerate() {
                    let code = if nulls.is_valid(row) { self.code(*view, text, row)? } else { 0 };
                    keys.push(narrow(code));
                }
            }
        }

        let keys = PrimitiveArray::<K>::new(keys.into(), text.nulls().cloned());
        let dictionary = DictionaryArray::try_new(keys, self.vocabulary.array()?);
        Ok(Arc::new(dictionary.map_err(|error| error.to_string())?))
    }

    fn code(&mut self, view: u128, text: &StringViewArray, row: usize) -> Result<u32, String> {
        if view as u32 <= INLINE {
            return match self.find(view, "") {
                Ok(code) => Ok(code),
                Err(_) => self.learn(view, text.value(row), ""),
            };
        }

        let long = text.value(row);
        let end = long.as_bytes().last_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
        let key = u128::from(view as u64) | u128::from(end) << 64;
        match self.find(key, long) {
            Ok(code) => Ok(code),
            Err(_) => self.learn(key, long, long),
        }
    }

    /// Returns the code of a string, or the slot at which to insert it.
    fn find(&self, key: u128, long: &str) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = start(key) & mask;
        loop {
            match self.slots.get(at) {
                Some(slot) if slot.code != EMPTY => {
                    if slot.key == key && *slot.text == *long {
                        return Ok(slot.code);
                    }
                }
                _ => return Err(at),
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn learn(&mut self, key: u128, whole: &str, long: &str) -> Result<u32, String> {
        let code = self.vocabulary.code(whole)?;
        if (self.met + 1) * 2 > self.slots.len() {
            let larger = vec![VocabularyCoderSlot::empty(); self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if slot.code != EMPTY {
                    self.put(slot);
                }
            }
        }

        self.put(VocabularyCoderSlot { key, code, text: long.into() });
        self.met += 1;
        Ok(code)
    }

    fn put(&mut self, slot: VocabularyCoderSlot) {
        if let Err(at) = self.find(slot.key, &slot.text)
            && let Some(known) = self.slots.get_mut(at)
        {
            *known = slot;
        }
    }
}

impl VocabularyCoderSlot {
    fn empty() -> Self {
        Self { key: 0, code: EMPTY, text: "".into() }
    }
}

/// Returns the first slot to probe for a key.
fn start(key: u128) -> usize {
    let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize
}

#[cfg(test)]
mod tests {
    use arrow::{compute::cast, datatypes::DataType};

    use super::*;

    fn views(texts: &[Option<&str>]) -> StringViewArray {
        texts.iter().copied().collect()
    }

    #[test]
    fn a_dictionary_says_the_same_as_the_strings() {
        let mut coder = VocabularyCoder::new(Arc::new(Vocabulary::new(DictionaryKeyWidth::Two)));
        let long: Vec<String> =
            (0..300).map(|number| format!("a long string, number {}", number % 150)).collect();
        let mut texts: Vec<Option<&str>> = long.iter().map(|text| Some(text.as_str())).collect();
        texts.extend([
            None,
            Some(""),
            Some("twelve bytes"),
            Some("thirteen byte"),
            Some("AIR"),
            None,
            Some("AIR"),
        ]);

        let strings = views(&texts);
        let coded = coder.encode(&strings).unwrap();
        assert_eq!(coded.as_any_dictionary().values().len(), 154);
        let decoded = cast(&coded, &DataType::Utf8View).unwrap();
        assert_eq!(decoded.as_string_view(), &strings);
    }

    #[test]
    fn threads_share_values_and_later_ones_begin_with_earlier_ones() {
        let vocabulary = Arc::new(Vocabulary::new(DictionaryKeyWidth::One));
        let mut coders = [VocabularyCoder::new(vocabulary.clone()), VocabularyCoder::new(vocabulary)];
        let first = coders[0].encode(&views(&[Some("a"), Some("b")])).unwrap();
        let second = coders[1].encode(&views(&[Some("c"), Some("b")])).unwrap();
        let third = coders[0].encode(&views(&[Some("c")])).unwrap();
        let values = |array: &ArrayRef| array.as_any_dictionary().values().clone();
        assert_eq!(values(&second).slice(0, 2).as_ref(), values(&first).as_ref());
        assert!(Arc::ptr_eq(&values(&second), &values(&third)));
    }

    #[test]
    fn a_dictionary_that_comes_is_numbered_anew() {
        let mut coder = VocabularyCoder::new(Arc::new(Vocabulary::new(DictionaryKeyWidth::One)));
        for texts in [["a", "b", "a"], ["b", "c", "a"]] {
            let given: DictionaryArray<UInt8Type> = texts.into_iter().collect();
            let coded = coder.recode(&given).unwrap();
            let decoded = cast(&coded, &DataType::Utf8).unwrap();
            assert_eq!(decoded.as_string::<i32>(), &StringArray::from(texts.to_vec()));
        }
        assert_eq!(coder.vocabulary.array().unwrap().len(), 3);
    }

    #[test]
    fn more_values_than_keys_tell_apart_are_an_error() {
        let texts: Vec<String> = (0..257).map(|number| number.to_string()).collect();
        let texts = StringViewArray::from_iter_values(&texts);
        assert!(
            VocabularyCoder::new(Arc::new(Vocabulary::new(DictionaryKeyWidth::One))).encode(&texts).is_err()
        );
    }
}
