//! Numbers the groups of rows by the dictionary codes of their keys: strings are hashed once per dictionary, not once per
//! row.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, StringArray},
        compute::cast,
        datatypes::{Schema, UInt32Type},
    },
    common::Result,
    error::DataFusionError,
};

/// Marks a code or a pair without a number.
const UNKNOWN: u32 = u32::MAX;
/// Maximum entries of a table of pairs that is indexed directly.
const MAX_TABLE: usize = 1 << 16;
/// Bytes per distinct string besides its text: two entries that share it, and its allocation.
const BYTES_PER_STRING: usize = 64;
/// Bytes per pair in a hash map, with its room to grow.
const BYTES_PER_PAIR: usize = 40;

/// The groups of the rows of one partition, by some dictionary columns. Without keys, all rows are one group.
#[derive(Debug)]
pub(super) struct CodedGroups {
    keys: Vec<KeyStrings>,
    /// For each key after the first, the groups of the keys up to it.
    pairs: Vec<PairGroups>,
    /// The group of each row of the last batch.
    rows: Vec<u32>,
}

impl CodedGroups {
    /// Creates groups by the columns at these positions: dictionaries of strings with 32-bit keys.
    pub(super) fn new(columns: &[usize]) -> Self {
        Self {
            keys: columns.iter().map(|column| KeyStrings::new(*column)).collect(),
            pairs: columns.iter().skip(1).map(|_| PairGroups::default()).collect(),
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

    /// Returns the bytes held.
    pub(super) fn size(&self) -> usize {
        let keys = self.keys.iter().map(KeyStrings::size);
        let pairs = self.pairs.iter().map(PairGroups::size);
        keys.chain(pairs).sum::<usize>() + self.rows.capacity() * size_of::<u32>()
    }

    /// Returns the group of each row of the last batch.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Determines the group of each row of a batch. New keys get the next numbers.
    pub(super) fn assign(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows.clear();
        let Some((first, others)) = self.keys.split_first_mut() else {
            self.rows.resize(batch.num_rows(), 0);
            return Ok(());
        };

        self.rows.reserve(batch.num_rows());
        first.for_each_id(batch, |id| self.rows.push(id))?;
        for (key, pairs) in others.iter_mut().zip(&mut self.pairs) {
            let mut rows = self.rows.iter_mut();
            key.for_each_id(batch, |id| {
                if let Some(group) = rows.next() {
                    *group = pairs.group(*group, id);
                }
            })?;
        }
        Ok(())
    }

    /// Returns the keys of all groups, in the types of the first fields of `schema`, and forgets them.
    pub(super) fn take(&mut self, schema: &Schema) -> Result<Vec<ArrayRef>> {
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        let mut columns = Vec::with_capacity(self.keys.len());
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

/// The distinct strings of a key, numbered in the order of appearance.
#[derive(Debug)]
struct KeyStrings {
    column: usize,
    strings: Vec<Option<Arc<str>>>,
    ids: HashMap<Arc<str>, u32>,
    null_id: Option<u32>,
    text_bytes: usize,
    /// The dictionary of the last batch, and the number of each of its codes, [`UNKNOWN`] until a row has it.
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

    /// Calls `visit` with the number of each row's string.
    fn for_each_id(&mut self, batch: &RecordBatch, mut visit: impl FnMut(u32)) -> Result<()> {
        let column = batch.columns().get(self.column);
        let Some(column) = column.and_then(|column| column.as_dictionary_opt::<UInt32Type>()) else {
            return Err(DataFusionError::Internal("a key of an aggregation is not a dictionary".to_owned()));
        };
        let Some(values) = column.values().as_string_opt::<i32>() else {
            return Err(DataFusionError::Internal("a key of an aggregation has no strings".to_owned()));
        };

        if self.dictionary.as_ref().is_none_or(|known| !Arc::ptr_eq(known, column.values())) {
            self.dictionary = Some(column.values().clone());
            self.id_of_code.clear();
            self.id_of_code.resize(values.len(), UNKNOWN);
        }

        let codes = column.keys().values().iter();
        let Some(nulls) = column.keys().nulls() else {
            codes.for_each(|code| visit(self.id(values, *code)));
            return Ok(());
        };
        for (code, is_valid) in codes.zip(nulls) {
            visit(if is_valid { self.id(values, *code) } else { self.null_id() });
        }
        Ok(())
    }

    #[inline]
    fn id(&mut self, values: &StringArray, code: u32) -> u32 {
        match self.id_of_code.get(code as usize) {
            Some(id) if *id != UNKNOWN => *id,
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
            && *group != UNKNOWN
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

    /// Adds a pair to the table, which grows or gives way to the hash map.
    fn tabulate(&mut self, left: usize, right: usize, group: u32) {
        let lefts = self.table.len().checked_div(self.stride).unwrap_or(0);
        if right >= self.stride || left >= lefts {
            let stride = self.stride.max((right + 1).next_power_of_two());
            let lefts = lefts.max((left + 1).next_power_of_two());
            if stride.saturating_mul(lefts) > MAX_TABLE {
                self.table = Vec::new();
                self.stride = 0;
                self.hashed = self.members.iter().copied().zip(0..).collect();
                return;
            }

            self.stride = stride;
            self.table = vec![UNKNOWN; stride * lefts];
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
