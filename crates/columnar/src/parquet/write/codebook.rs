//! Builds the dictionary of a written column: the code of each value, and the order of values.
//!
//! Each key of an array is mapped to the file's code of its value, so a value is looked up only when it first occurs.
//! If the first rows use much of a dictionary, or if it has few values or an order, the file gets all of it at once:
//! codes stay the same, and unused categories are kept. A row group that begins with the dictionary of the previous one
//! may reuse its codebook: no value is looked up again, and the dictionary page already exists.

pub(super) mod order;
pub(super) mod plain;
pub(super) mod used;

use std::cmp::Ordering;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array},
    compute::{filter, take},
    datatypes::ArrowNativeType,
};
use bytes::Bytes;
use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

use self::{order::PlainValueOrder, used::CodeSet};
use crate::{
    kernels::{same::is_same, texts::downcast_texts, weight::weight_of},
    parquet::pages::plain_dictionary::PlainDictionary,
};

/// Marks a value in the map that has not occurred yet.
const UNKNOWN: u32 = u32::MAX;
/// Number of leading rows that predict whether the rest has only known values.
const LEADING_ROWS: usize = 4096;
/// At most `1 / NEW_VALUES_DIVISOR` of the leading rows may have a new value.
const NEW_VALUES_DIVISOR: usize = 16;
/// Number of smallest and of largest values that are tracked.
const EXTREMES: usize = 64;
/// Arrays use much of a dictionary if they refer to at least `1 / USED_VALUES_DIVISOR` of its values.
const USED_VALUES_DIVISOR: usize = 2;
/// Maximum values of a dictionary of categories: all of them and their order are kept.
const MAX_CATEGORIES: usize = 4096;
const BEYOND: &str = "a code beyond its dictionary";

/// Values of a file's dictionary, and their codes.
pub(super) struct Codebook {
    descriptor: ColumnDescPtr,
    dictionary: PlainDictionary,
    order: PlainValueOrder,
    /// Eight bytes per value that sort as values do.
    keys: Vec<u64>,
    /// Values of the current arrays, and the file's code of each.
    current: Option<ArrayRef>,
    map: Vec<u32>,
    /// True if each value is mapped to itself.
    is_identity: bool,
    /// Keys of values that occur for the first time.
    fresh: Vec<u64>,
    page: Option<EncodedDictionaryPage>,
    extremes: CodebookExtremes,
}

/// Smallest and largest values.
#[derive(Default)]
pub(super) struct CodebookExtremes {
    /// Number of values they were computed from.
    of: usize,
    /// Ascending.
    smallest: Vec<u32>,
    /// Descending.
    largest: Vec<u32>,
}

/// Encoded page of all values.
#[derive(Clone)]
pub(super) struct EncodedDictionaryPage {
    /// Header and body.
    pub(super) blobs: [Bytes; 2],
    pub(super) values: usize,
    /// Bytes of the body before compression.
    pub(super) uncompressed: usize,
}

impl Codebook {
    pub(super) fn new(descriptor: &ColumnDescPtr) -> Result<Self, String> {
        Ok(Self {
            descriptor: descriptor.clone(),
            dictionary: PlainDictionary::new(descriptor)?,
            order: PlainValueOrder::of(descriptor),
            keys: Vec::new(),
            current: None,
            map: Vec::new(),
            is_identity: true,
            fresh: Vec::new(),
            page: None,
            extremes: CodebookExtremes::default(),
        })
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.dictionary.values.len()
    }

    /// Returns the size of all values, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.dictionary.values.stored_bytes()
    }

    /// Returns the memory in use, in bytes, without the map.
    pub(super) fn memory(&self) -> usize {
        let page = self.page.iter().flat_map(|page| &page.blobs).map(Bytes::len).sum::<usize>();
        self.dictionary.values.memory() + self.keys.len() * 8 + page
    }

    /// Returns the size in bytes of the map, which is as long as the input dictionary.
    pub(super) fn map_bytes(&self) -> usize {
        self.map.len() * 4
    }

    pub(super) fn value(&self, code: u32) -> &[u8] {
        self.dictionary.values.value(code)
    }

    /// Returns the values in the order of their codes, PLAIN-encoded.
    pub(super) fn plain(&self) -> Vec<u8> {
        self.dictionary.plain()
    }

    pub(super) fn order(&self) -> PlainValueOrder {
        self.order
    }

    pub(super) fn key(&self, code: u32) -> u64 {
        self.keys.get(code as usize).copied().unwrap_or(0)
    }

    pub(super) fn compare(&self, a: u32, b: u32) -> Ordering {
        let rest = || self.order.compare_rest(self.value(a), self.value(b));
        self.key(a).cmp(&self.key(b)).then_with(rest)
    }

    pub(super) fn is_less(&self, a: u32, b: u32) -> bool {
        self.compare(a, b) == Ordering::Less
    }

    /// Returns whether a value cannot be a bound.
    pub(super) fn is_unbounded(&self, code: u32) -> bool {
        self.order.is_unbounded(self.key(code))
    }

    /// Returns the codes of the smallest values, ascending, and of the largest, descending, if known.
    pub(super) fn extremes(&self) -> Option<(&[u32], &[u32])> {
        let CodebookExtremes { of, smallest, largest } = &self.extremes;
        (*of == self.len()).then_some((smallest, largest))
    }

    /// Computes the codes that [`Self::extremes`] returns.
    pub(super) fn find_extremes(&mut self) {
        let mut codes: Vec<u32> = (0..self.len() as u32).filter(|code| !self.is_unbounded(*code)).collect();
        let mut first = |compare: &dyn Fn(&u32, &u32) -> Ordering| -> Vec<u32> {
            if codes.len() > EXTREMES {
                codes.select_nth_unstable_by(EXTREMES, compare);
            }
            let mut first: Vec<u32> = codes.iter().take(EXTREMES).copied().collect();
            first.sort_unstable_by(compare);
            first
        };

        let smallest = first(&|a, b| self.compare(*a, *b));
        let largest = first(&|a, b| self.compare(*b, *a));
        self.extremes = CodebookExtremes { of: self.len(), smallest, largest };
    }

    /// Returns the page of all values, if it was built.
    pub(super) fn page(&self) -> Option<&EncodedDictionaryPage> {
        self.page.as_ref().filter(|page| page.values == self.len())
    }

    /// Keeps the page for the next chunk.
    pub(super) fn keep_page(&mut self, page: EncodedDictionaryPage) {
        self.page = Some(page);
    }

    /// Frees the memory that is not needed while no new value occurs.
    pub(super) fn release_buffers(&mut self) {
        self.dictionary.values.free_table();
        self.fresh = Vec::new();
    }

    /// Returns whether another chunk may reuse this dictionary.
    pub(super) fn may_serve(&self) -> bool {
        self.current.is_some() && self.len() > 0
    }

    /// Returns whether the first array has the current dictionary, and few of its leading rows have a value that has
    /// not occurred. For categories, which may be ordered, the codes must also equal the keys.
    pub(super) fn serves(&self, arrays: &[ArrayRef], is_ordered: bool) -> bool {
        let Some(first) = arrays.first() else { return true };
        let Some(any) = first.as_any_dictionary_opt() else { return false };
        if !self.may_serve() || !self.is_current(any.values()) {
            return false;
        }

        let is_in_order = || self.map.iter().zip(0..).all(|(code, at)| *code == at);
        if is_categories(any.values(), is_ordered) && !is_in_order() {
            return false;
        }

        let keys = keys_of(&first.slice(0, first.len().min(LEADING_ROWS)));
        let is_new = |key: &&u32| self.map.get(**key as usize).is_none_or(|code| *code == UNKNOWN);
        keys.iter().filter(is_new).count() * NEW_VALUES_DIVISOR <= keys.len()
    }

    /// Takes over the dictionary of the first array, if it has at most `max_bytes` bytes, and either its values are
    /// categories or the arrays use much of it.
    pub(super) fn take_dictionary(
        &mut self,
        arrays: &[ArrayRef],
        max_bytes: usize,
        is_ordered: bool,
    ) -> Result<(), String> {
        let Some(values) = arrays.first().and_then(dictionary_of) else { return Ok(()) };
        let is_kept = is_categories(&values, is_ordered);
        if values.is_empty()
            || values.logical_null_count() > 0
            || weight_of(&values) > max_bytes
            || !(is_kept || is_much_used(&values, arrays))
        {
            return Ok(());
        }

        self.begin(&values);
        self.map = self.look_up(&values, None)?;
        self.is_identity = self.len() == values.len();
        // A dictionary with duplicate values has no categories.
        if !self.is_identity && !is_much_used(&values, arrays) {
            *self = Self::new(&self.descriptor)?;
            return Ok(());
        }

        self.find_extremes();
        Ok(())
    }

    /// Begins a new map, unless the values are the current ones.
    pub(super) fn begin(&mut self, values: &ArrayRef) {
        if !self.is_current(values) {
            self.map.clear();
            self.map.resize(values.len(), UNKNOWN);
            self.is_identity = false;
            self.dictionary.values.reserve(values.len(), weight_of(values));
        }
        self.current = Some(values.clone());
    }

    fn is_current(&self, values: &ArrayRef) -> bool {
        self.current.as_ref().is_some_and(|current| is_same(current, values))
    }

    /// Appends the codes of rows without nulls, given their keys. A value that occurs for the first time gets the next
    /// code, unless the file already has it from another dictionary, or from another slot of this one.
    pub(super) fn append<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        codes: &mut Vec<u32>,
    ) -> Result<(), String> {
        if self.is_identity {
            let mut max_key = 0;
            codes.extend(keys.iter().map(|key| {
                max_key = max_key.max(key.as_usize());
                key.as_usize() as u32
            }));
            return if max_key < self.map.len() || keys.is_empty() { Ok(()) } else { Err(BEYOND.to_owned()) };
        }

        let known = self.len() as u32;
        let before = codes.len();
        let map = &mut self.map;
        let fresh = &mut self.fresh;
        fresh.clear();
        let mut is_beyond = false;

        codes.extend(keys.iter().map(|key| match map.get_mut(key.as_usize()) {
            Some(code) => {
                if *code == UNKNOWN {
                    *code = known + fresh.len() as u32;
                    fresh.push(key.as_usize() as u64);
                }
                *code
            }
            None => {
                is_beyond = true;
                UNKNOWN
            }
        }));

        if is_beyond {
            return Err(BEYOND.to_owned());
        }

        if self.fresh.is_empty() {
            Ok(())
        } else {
            self.intern_fresh(known, codes.get_mut(before..).unwrap_or_default())
        }
    }

    /// Interns values that occur for the first time, and corrects the codes of values that the file already has.
    fn intern_fresh(&mut self, known: u32, given: &mut [u32]) -> Result<(), String> {
        let Some(values) = &self.current else { return Ok(()) };
        let values = values.clone();
        let fresh = std::mem::take(&mut self.fresh);
        let codes = self.look_up(&values, Some(&fresh))?;
        self.fresh = fresh;
        if codes.iter().zip(known..).any(|(code, given)| *code != given) {
            for (key, code) in self.fresh.iter().zip(&codes) {
                if let Some(known) = self.map.get_mut(*key as usize) {
                    *known = *code;
                }
            }

            for given in given {
                let code = given.checked_sub(known).and_then(|at| codes.get(at as usize));
                *given = code.copied().unwrap_or(*given);
            }
        }

        Ok(())
    }

    /// Appends the codes of an array's values without nulls, until the interned values have more than `max_bytes`
    /// bytes; returns the number of values consumed.
    pub(super) fn append_values(
        &mut self,
        array: &ArrayRef,
        max_bytes: usize,
        codes: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let done = match (self.is_bytes(), nulls) {
            (true, None) => self.append_texts(array, 0..array.len(), array.len(), max_bytes, codes)?,
            (true, Some(nulls)) => {
                let count = nulls.len() - nulls.null_count();
                self.append_texts(array, nulls.valid_indices(), count, max_bytes, codes)?
            }
            (false, None) => self.append_plain(array, codes)?,
            (false, Some(nulls)) => {
                let valid = filter(array, &BooleanArray::new(nulls.inner().clone(), None));
                self.append_plain(&valid.map_err(|error| error.to_string())?, codes)?
            }
        };

        self.learn_keys();
        Ok(done)
    }

    /// Returns the codes of all or some values, interning the new ones.
    fn look_up(&mut self, values: &ArrayRef, some: Option<&[u64]>) -> Result<Vec<u32>, String> {
        let count = some.map_or(values.len(), <[u64]>::len);
        let mut codes: Vec<u32> = Vec::with_capacity(count);
        match some {
            None => self.append_values(values, usize::MAX, &mut codes)?,
            Some(some) if self.is_bytes() => {
                let rows = some.iter().map(|at| *at as usize);
                self.append_texts(values, rows, count, usize::MAX, &mut codes)?
            }
            Some(some) => {
                let taken = take(values, &UInt64Array::from(some.to_vec()), None);
                self.append_plain(&taken.map_err(|error| error.to_string())?, &mut codes)?
            }
        };

        self.learn_keys();
        Ok(codes)
    }

    /// Returns whether values are strings or bytes.
    pub(super) fn is_bytes(&self) -> bool {
        self.descriptor.physical_type() == PhysicalType::BYTE_ARRAY
    }

    /// Appends the codes of strings or bytes in these rows: `count` of them, or until there are `max_bytes` bytes.
    fn append_texts(
        &mut self,
        texts: &ArrayRef,
        mut rows: impl Iterator<Item = usize>,
        count: usize,
        max_bytes: usize,
        codes: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let append = |some: &[u32]| codes.extend_from_slice(some);
        downcast_texts!(
            texts,
            |texts| {
                let next = || {
                    let row = rows.next().filter(|row| *row < texts.len()).ok_or(BEYOND)?;
                    Ok(AsRef::<[u8]>::as_ref(texts.value(row)))
                };
                self.dictionary.values.intern_each::<true>(count, max_bytes, next, append)
            },
            other => Err(format!("values of {other} in a column of strings or bytes"))
        )
    }

    /// Appends the codes of other values without nulls.
    fn append_plain(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Result<usize, String> {
        let append = |some: &[u32]| codes.extend_from_slice(some);
        self.dictionary.append(&plain::values(values)?, values.len(), append)?;
        Ok(values.len())
    }

    fn learn_keys(&mut self) {
        if self.order != PlainValueOrder::None {
            let new = self.keys.len()..self.dictionary.values.len();
            self.keys.extend(new.map(|code| self.order.key(self.dictionary.values.value(code as u32))));
        }
    }
}

fn dictionary_of(array: &ArrayRef) -> Option<ArrayRef> {
    array.as_any_dictionary_opt().map(|any| any.values().clone())
}

/// Returns whether unused values of a dictionary and their order carry meaning.
fn is_categories(values: &ArrayRef, is_ordered: bool) -> bool {
    is_ordered || values.len() <= MAX_CATEGORIES
}

/// Returns whether the leading arrays that share this dictionary use much of it.
fn is_much_used(values: &ArrayRef, arrays: &[ArrayRef]) -> bool {
    let sharing =
        arrays.iter().take_while(|array| dictionary_of(array).is_some_and(|other| is_same(&other, values)));
    let rows: usize = sharing.clone().map(|array| array.len()).sum();
    if rows < values.len() / USED_VALUES_DIVISOR {
        return false;
    }

    let mut used = CodeSet::default();
    sharing.for_each(|array| used.add(&keys_of(array), values.len()));
    used.count() >= values.len() / USED_VALUES_DIVISOR
}

/// Returns the keys of rows that are not null.
fn keys_of(array: &ArrayRef) -> Vec<u32> {
    let nulls = array.logical_nulls();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let keys = array.as_any_dictionary().normalized_keys().into_iter().enumerate();
    keys.filter(|(row, _)| is_valid(*row)).map(|(_, key)| key as u32).collect()
}
