//! Numbers groups by dictionary codes: a string is hashed once per dictionary, not once per row.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array},
        compute::cast,
        datatypes::{Schema, UInt32Type},
    },
    common::Result,
    error::DataFusionError,
};

/// Marks a code or a pair without a number.
const UNASSIGNED: u32 = u32::MAX;
/// Maximum entries of a table of pairs that is indexed directly.
const MAX_TABLE_ENTRIES: usize = 1 << 16;
/// Bytes per distinct string besides its text: two entries that share it, and its allocation.
const BYTES_PER_STRING: usize = 64;
/// Bytes per pair in a hash map, with its room to grow.
const BYTES_PER_PAIR: usize = 40;

/// Assigns dense group numbers to rows by their dictionary-encoded keys. Without keys, all rows are one group.
#[derive(Debug)]
pub(super) struct CodedGroups {
    keys: Vec<KeyStrings>,
    /// For each key after the first, the groups of the keys up to it.
    pairs: Vec<PairGroups>,
    known: CombinationTable,
    /// The group of each row of the last batch.
    rows: Vec<u32>,
}

impl CodedGroups {
    /// Creates groups by the columns at these positions: dictionaries of strings with 32-bit keys.
    pub(super) fn new(columns: &[usize]) -> Self {
        Self {
            keys: columns.iter().map(|column| KeyStrings::new(*column)).collect(),
            pairs: columns.iter().skip(1).map(|_| PairGroups::default()).collect(),
            known: CombinationTable::default(),
            rows: Vec::new(),
        }
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        match (self.pairs.last(), self.keys.first()) {
            (Some(pairs), _) => pairs.members.len(),
            (None, Some(key)) => key.strings.len(),
            (None, None) => 1,
        }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn size(&self) -> usize {
        let keys = self.keys.iter().map(KeyStrings::size);
        let pairs = self.pairs.iter().map(PairGroups::size);
        let rows = self.rows.capacity() * size_of::<u32>();
        keys.chain(pairs).sum::<usize>() + self.known.size() + rows
    }

    /// Returns the group of each row of the last batch.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Determines the group of each row of a batch. New keys get the next numbers.
    ///
    /// # Errors
    ///
    /// Internal error if a key is not a dictionary of strings.
    pub(super) fn assign(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.keys.is_empty() {
            self.rows.clear();
            self.rows.resize(batch.num_rows(), 0);
            return Ok(());
        }

        let keys = self.keys.iter().map(|key| key.codes(batch)).collect::<Result<Vec<_>>>()?;
        if self.known.combine(&keys) {
            if self.known.groups(&mut self.rows) {
                return Ok(());
            }
            self.assign_each(&keys);
            self.known.learn(&self.rows);
        } else {
            self.assign_each(&keys);
        }
        Ok(())
    }

    /// Assigns groups through each key's string ids: the slow path.
    fn assign_each(&mut self, columns: &[KeyCodes<'_>]) {
        self.rows.clear();
        let mut keys = self.keys.iter_mut().zip(columns);
        if let Some((key, column)) = keys.next() {
            key.for_each_id(column, |id| self.rows.push(id));
        }
        for ((key, column), pairs) in keys.zip(&mut self.pairs) {
            let mut rows = self.rows.iter_mut();
            key.for_each_id(column, |id| {
                if let Some(group) = rows.next() {
                    *group = pairs.group(*group, id);
                }
            });
        }
    }

    /// Returns the keys of all groups, in the types of the first fields of `schema`, and resets.
    pub(super) fn take(&mut self, schema: &Schema) -> Result<Vec<ArrayRef>> {
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        let mut columns = Vec::with_capacity(self.keys.len());
        // From the last key back: a group is a pair of (group of the earlier keys, id of this key).
        for (at, key) in self.keys.iter().enumerate().rev() {
            let own: Vec<u32> = match at.checked_sub(1).and_then(|before| self.pairs.get(before)) {
                None => std::mem::take(&mut ids),
                Some(pairs) => {
                    let members = ids.iter().filter_map(|group| pairs.members.get(*group as usize));
                    let (left, right) = members.copied().unzip();
                    ids = left;
                    right
                }
            };
            columns.push(cast(&key.array(&own), schema.field(at).data_type())?);
        }
        columns.reverse();

        let positions: Vec<usize> = self.keys.iter().map(|key| key.column).collect();
        *self = Self::new(&positions);
        Ok(columns)
    }
}

/// A key column of a batch.
struct KeyCodes<'a> {
    codes: &'a UInt32Array,
    dictionary: &'a ArrayRef,
    strings: &'a StringArray,
}

/// Groups by combined codes, valid while all dictionaries stay the same: one lookup per row.
#[derive(Debug, Default)]
struct CombinationTable {
    dictionaries: Vec<ArrayRef>,
    /// The group of each combination, [`UNASSIGNED`] until a row has it. Empty if there are too many.
    groups: Vec<u32>,
    /// The combination of each row of the last batch.
    combinations: Vec<u32>,
}

impl CombinationTable {
    fn size(&self) -> usize {
        (self.groups.capacity() + self.combinations.capacity()) * size_of::<u32>()
    }

    /// Combines the codes of each row; `false` if there are nulls or too many combinations.
    fn combine(&mut self, keys: &[KeyCodes<'_>]) -> bool {
        let is_same = |(known, key): (&ArrayRef, &KeyCodes<'_>)| Arc::ptr_eq(known, key.dictionary);
        let is_known =
            self.dictionaries.len() == keys.len() && self.dictionaries.iter().zip(keys).all(is_same);
        if !is_known {
            self.dictionaries = keys.iter().map(|key| key.dictionary.clone()).collect();
            let count = keys.iter().map(|key| key.strings.len()).try_fold(1_usize, usize::checked_mul);
            self.groups.clear();
            self.groups.resize(count.filter(|count| *count <= MAX_TABLE_ENTRIES).unwrap_or(0), UNASSIGNED);
        }
        if self.groups.is_empty() || keys.iter().any(|key| key.codes.null_count() > 0) {
            return false;
        }

        self.combinations.clear();
        let mut keys = keys.iter();
        if let Some(key) = keys.next() {
            self.combinations.extend_from_slice(key.codes.values());
        }
        for key in keys {
            let distinct = key.strings.len() as u32;
            for (combination, code) in self.combinations.iter_mut().zip(key.codes.values()) {
                *combination = combination.wrapping_mul(distinct).wrapping_add(*code);
            }
        }
        true
    }

    /// Finds the groups of the combinations; `false` if one is unknown.
    fn groups(&self, rows: &mut Vec<u32>) -> bool {
        let group = |combination: &u32| self.groups.get(*combination as usize).copied().unwrap_or(UNASSIGNED);
        rows.clear();
        rows.extend(self.combinations.iter().map(group));
        rows.iter().fold(0, |largest, group| largest.max(*group)) != UNASSIGNED
    }

    /// Keeps the groups of the combinations.
    fn learn(&mut self, rows: &[u32]) {
        for (combination, group) in self.combinations.iter().zip(rows) {
            if let Some(known) = self.groups.get_mut(*combination as usize) {
                *known = *group;
            }
        }
    }
}

/// The distinct strings of a key, numbered in the order of appearance.
#[derive(Debug)]
struct KeyStrings {
    column: usize,
    strings: Vec<Option<Arc<str>>>,
    ids: HashMap<Arc<str>, u32>,
    null_id: Option<u32>,
    text_bytes: usize,
    /// The dictionary of the last batch, and the number of each of its codes, [`UNASSIGNED`] until a row has it.
    dictionary: Option<ArrayRef>,
    id_of_code: Vec<u32>,
}

impl KeyStrings {
    fn new(column: usize) -> Self {
        Self {
            column,
            strings: Vec::new(),
            ids: HashMap::new(),
            null_id: None,
            text_bytes: 0,
            dictionary: None,
            id_of_code: Vec::new(),
        }
    }

    fn size(&self) -> usize {
        let codes = self.id_of_code.capacity() * size_of::<u32>();
        codes + self.text_bytes + self.strings.len() * BYTES_PER_STRING
    }

    /// Returns the codes of the key in a batch.
    fn codes<'a>(&self, batch: &'a RecordBatch) -> Result<KeyCodes<'a>> {
        let column = batch.columns().get(self.column);
        let Some(column) = column.and_then(|column| column.as_dictionary_opt::<UInt32Type>()) else {
            return Err(DataFusionError::Internal("a key of an aggregation is not a dictionary".to_owned()));
        };
        let Some(strings) = column.values().as_string_opt::<i32>() else {
            return Err(DataFusionError::Internal("a key of an aggregation has no strings".to_owned()));
        };
        Ok(KeyCodes { codes: column.keys(), dictionary: column.values(), strings })
    }

    /// Calls `visit` with the number of each row's string.
    fn for_each_id(&mut self, column: &KeyCodes<'_>, mut visit: impl FnMut(u32)) {
        let strings = column.strings;
        if self.dictionary.as_ref().is_none_or(|known| !Arc::ptr_eq(known, column.dictionary)) {
            self.dictionary = Some(column.dictionary.clone());
            self.id_of_code.clear();
            self.id_of_code.resize(strings.len(), UNASSIGNED);
        }

        let codes = column.codes.values().iter();
        let Some(nulls) = column.codes.nulls() else {
            codes.for_each(|code| visit(self.id(strings, *code)));
            return;
        };
        for (code, is_valid) in codes.zip(nulls) {
            visit(if is_valid { self.id(strings, *code) } else { self.null_id() });
        }
    }

    #[inline]
    fn id(&mut self, values: &StringArray, code: u32) -> u32 {
        match self.id_of_code.get(code as usize) {
            Some(id) if *id != UNASSIGNED => *id,
            _ => self.learn(values, code),
        }
    }

    /// Numbers the string of a code that occurs for the first time since the dictionary changed.
    #[cold]
    fn learn(&mut self, values: &StringArray, code: u32) -> u32 {
        let at = code as usize;
        let id = if values.is_valid(at) { self.id_of(values.value(at)) } else { self.null_id() };
        if let Some(known) = self.id_of_code.get_mut(at) {
            *known = id;
        }
        id
    }

    fn id_of(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.strings.len() as u32;
        let text: Arc<str> = text.into();
        self.text_bytes += text.len();
        self.strings.push(Some(text.clone()));
        self.ids.insert(text, id);
        id
    }

    fn null_id(&mut self) -> u32 {
        *self.null_id.get_or_insert_with(|| {
            self.strings.push(None);
            self.strings.len() as u32 - 1
        })
    }

    /// Returns the strings with these numbers.
    fn array(&self, ids: &[u32]) -> ArrayRef {
        let text = |id: &u32| self.strings.get(*id as usize).and_then(|text| text.as_deref());
        Arc::new(ids.iter().map(text).collect::<StringArray>())
    }
}

/// Numbers pairs of a group of some keys and a string of the next key.
#[derive(Debug, Default)]
struct PairGroups {
    /// The pair of each group.
    members: Vec<(u32, u32)>,
    /// Groups by left and right, with rows of `stride` entries. Empty if there are too many pairs for a table.
    table: Vec<u32>,
    stride: usize,
    /// Groups by pair if there is no table.
    hashed: HashMap<(u32, u32), u32>,
}

impl PairGroups {
    fn size(&self) -> usize {
        let listed =
            self.members.capacity() * size_of::<(u32, u32)>() + self.table.capacity() * size_of::<u32>();
        listed + self.hashed.len() * BYTES_PER_PAIR
    }

    #[inline]
    fn group(&mut self, left: u32, right: u32) -> u32 {
        if (right as usize) < self.stride
            && let Some(group) = self.table.get(left as usize * self.stride + right as usize)
            && *group != UNASSIGNED
        {
            return *group;
        }
        self.hashed_or_new(left, right)
    }

    #[cold]
    fn hashed_or_new(&mut self, left: u32, right: u32) -> u32 {
        if let Some(group) = self.hashed.get(&(left, right)) {
            return *group;
        }

        let group = self.members.len() as u32;
        self.members.push((left, right));
        if self.hashed.is_empty() {
            self.tabulate(left as usize, right as usize, group);
        } else {
            self.hashed.insert((left, right), group);
        }
        group
    }

    /// Adds a pair to the table; grows it, or switches to the hash map above [`MAX_TABLE_ENTRIES`].
    fn tabulate(&mut self, left: usize, right: usize, group: u32) {
        let lefts = self.table.len().checked_div(self.stride).unwrap_or(0);
        if right >= self.stride || left >= lefts {
            let stride = self.stride.max((right + 1).next_power_of_two());
            let lefts = lefts.max((left + 1).next_power_of_two());
            if stride.saturating_mul(lefts) > MAX_TABLE_ENTRIES {
                self.table = Vec::new();
                self.stride = 0;
                self.hashed = self.members.iter().copied().zip(0..).collect();
                return;
            }

            self.stride = stride;
            self.table = vec![UNASSIGNED; stride * lefts];
            for ((left, right), group) in self.members.iter().zip(0..) {
                if let Some(entry) = self.table.get_mut(*left as usize * stride + *right as usize) {
                    *entry = group;
                }
            }
        } else if let Some(entry) = self.table.get_mut(left * self.stride + right) {
            *entry = group;
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::{
        array::{DictionaryArray, UInt32Array},
        datatypes::{DataType, Field},
    };

    use super::*;

    /// Returns numbers below a bound that look random.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 31_u64;
        move |bound| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        }
    }

    fn strings(count: usize, first: usize) -> ArrayRef {
        let text = |at: usize| (at != 3).then(|| format!("string {}", first + at));
        Arc::new((0..count).map(text).collect::<StringArray>())
    }

    #[test]
    fn groups_are_those_of_the_strings_while_dictionaries_change() {
        let mut number = numbers();
        // Together, the largest have too many combinations for a table.
        let dictionaries = [strings(2, 0), strings(5, 1), strings(300, 2), strings(300, 100)];
        let key_type = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
        let schema =
            Schema::new(vec![Field::new("a", key_type.clone(), true), Field::new("b", key_type, true)]);
        let schema = Arc::new(schema);
        let mut groups = CodedGroups::new(&[0, 1]);
        let mut expected: HashMap<[Option<String>; 2], u32> = HashMap::new();

        let mut used = [0, 0];
        for round in 0..300 {
            if number(4) == 0 {
                used = [number(dictionaries.len()), number(dictionaries.len())];
            }
            let has_nulls = number(3) == 0;
            let rows = number(200);
            let columns = used.map(|dictionary| {
                let values = &dictionaries[dictionary];
                let code = |_| (!has_nulls || number(10) > 0).then(|| number(values.len()) as u32);
                let codes: UInt32Array = (0..rows).map(code).collect();
                Arc::new(DictionaryArray::new(codes, values.clone())) as ArrayRef
            });
            let batch = RecordBatch::try_new(schema.clone(), columns.to_vec()).unwrap();
            groups.assign(&batch).unwrap();

            let plain = columns.map(|column| cast(&column, &DataType::Utf8).unwrap());
            for row in 0..rows {
                let text = |column: &ArrayRef| {
                    column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
                };
                let next = expected.len() as u32;
                let group = *expected.entry([text(&plain[0]), text(&plain[1])]).or_insert(next);
                assert_eq!(groups.rows()[row], group, "round {round}, row {row}");
            }
            assert_eq!(groups.len(), expected.len());
        }
    }
}
