//! Finds the rows for which a filter is true: of scans, and of arrays in memory.
//!
//! A condition on a dictionary column is evaluated once per value of the dictionary; a row then costs a table lookup.
//! The table is reused while the same dictionary arrives again.

mod gather;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::{BooleanBuffer, Buffer, NullBuffer},
    datatypes::{DataType, Schema},
};

use self::gather::PassingCodes;
use super::{
    BoundColumn, BoundPredicate, ColumnCondition, PredicateNode, TypeClass,
    compute::ComputedColumn,
    input::{PredicateInput, unbound},
    tokens::refuse,
    words::{self, keep_any, keep_null, keep_valid},
};
use crate::{Predicate, Result, kernels::same::is_same};

/// Cost per row of a dictionary, for any condition.
const GATHER_COST: u32 = 1;
/// Cost per row of a comparison of two columns.
const PAIR_COST: u32 = 10;

/// Evaluator that finds the rows that pass, batch by batch.
#[derive(Debug)]
pub(crate) struct Evaluator {
    bound: BoundPredicate,
    /// Result for the last dictionary, by leaf.
    memos: Vec<Option<DictionaryMemo>>,
    /// Values of the last dictionary and the result for them, by computed column.
    computed: Vec<Option<(ArrayRef, ArrayRef)>>,
}

#[derive(Debug)]
struct DictionaryMemo {
    /// Kept alive, so that no other dictionary can be allocated at its address.
    values: ArrayRef,
    keys: DataType,
    table: PassingCodes,
}

impl BoundPredicate {
    /// Creates an evaluator. It should be reused across batches, since it caches results for dictionaries.
    pub(crate) fn evaluator(&self) -> Evaluator {
        Evaluator::new(self.clone())
    }
}

impl Evaluator {
    pub(super) fn new(bound: BoundPredicate) -> Self {
        Self { bound, memos: Vec::new(), computed: Vec::new() }
    }

    /// Returns the rows for which the predicate is true. `columns` are those of [`BoundPredicate::roots`], dense
    /// or as dictionaries, of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Predicate`] if an array is not of the type that the predicate was bound to, or if a computed
    /// number overflows.
    pub(crate) fn evaluate(&mut self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        let bound = self.bound.clone();
        let mut inputs = Vec::with_capacity(bound.columns().len());
        for column in bound.columns() {
            inputs.push(column.input(columns, rows)?);
        }

        for (index, computed) in bound.computed().iter().enumerate() {
            inputs.push(self.compute(index, computed, &inputs, rows)?);
        }
        let mut words = words::all(rows);
        self.keep(bound.node(), &inputs, &mut words)?;
        Ok(BooleanBuffer::new(Buffer::from_vec(words), 0, rows))
    }

    /// Computes the computed columns of a batch; from a dictionary, once per value.
    fn compute(
        &mut self,
        index: usize,
        computed: &ComputedColumn,
        inputs: &[PredicateInput],
        rows: usize,
    ) -> Result<PredicateInput> {
        let only = computed.step.only_input().and_then(|column| inputs.get(column));
        if let Some(only) = only
            && let Some(dictionary) = only.array.as_any_dictionary_opt()
            && let Ok(values) = self.compute_once(index, computed, dictionary.values())
        {
            return Ok(PredicateInput { array: dictionary.with_values(values), nulls: only.nulls.clone() });
        }

        // Also the fallback if a value of the dictionary has no result: possibly no row refers to it.
        let array = computed.values(rows, &|column| input(inputs, column).cloned())?;
        let nulls = array.logical_nulls();
        Ok(PredicateInput { array, nulls })
    }

    fn compute_once(
        &mut self,
        index: usize,
        computed: &ComputedColumn,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        if self.computed.len() <= index {
            self.computed.resize_with(index + 1, || None);
        }
        if let Some(Some((known, results))) = self.computed.get(index)
            && is_same(known, values)
        {
            return Ok(results.clone());
        }

        let whole = PredicateInput { array: values.clone(), nulls: values.logical_nulls() };
        let results = computed.values(values.len(), &|_| Ok(whole.clone()))?;
        if let Some(memo) = self.computed.get_mut(index) {
            *memo = Some((values.clone(), results.clone()));
        }

        Ok(results)
    }

    /// Clears the rows for which the node is not true.
    fn keep(&mut self, node: &PredicateNode, inputs: &[PredicateInput], words: &mut [u64]) -> Result<()> {
        match node {
            PredicateNode::Constant(true) => Ok(()),
            PredicateNode::Constant(false) => {
                words.fill(0);
                Ok(())
            }
            PredicateNode::Leaf(leaf) => self.keep_leaf(leaf, input(inputs, leaf.column)?, words),
            PredicateNode::Columns(pair) => {
                pair.keep(input(inputs, pair.left)?, input(inputs, pair.right)?, words)
            }
            PredicateNode::And(nodes) => {
                for node in self.cheapest_first(nodes, inputs) {
                    if words::is_empty(words) {
                        break;
                    }
                    self.keep(node, inputs, words)?;
                }
                Ok(())
            }
            PredicateNode::Or(nodes) => {
                let nodes = self.cheapest_first(nodes, inputs);
                keep_any(words, nodes, |node, words| self.keep(node, inputs, words))
            }
        }
    }

    fn cheapest_first<'a>(
        &self,
        nodes: &'a [PredicateNode],
        inputs: &[PredicateInput],
    ) -> Vec<&'a PredicateNode> {
        let mut nodes: Vec<(u32, &PredicateNode)> =
            nodes.iter().map(|node| (cost(node, inputs), node)).collect();
        nodes.sort_by_key(|(cost, _)| *cost);
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    fn keep_leaf(&mut self, leaf: &ColumnCondition, input: &PredicateInput, words: &mut [u64]) -> Result<()> {
        let kept = match input.array.as_any_dictionary_opt() {
            None => leaf.test.keep(&input.array, input.nulls.as_ref(), words),
            Some(dictionary) => {
                let keys = dictionary.keys();
                let table = self.table(leaf, dictionary.values(), keys.data_type());
                table.and_then(|table| {
                    keep_codes(table, leaf.test.on_null(), keys, input.nulls.as_ref(), words)
                })
            }
        };

        kept.ok_or_else(|| unbound(&input.array))
    }

    fn table(&mut self, leaf: &ColumnCondition, values: &ArrayRef, keys: &DataType) -> Option<&PassingCodes> {
        if self.memos.len() <= leaf.id {
            self.memos.resize_with(leaf.id + 1, || None);
        }

        let memo = self.memos.get_mut(leaf.id)?;
        if !memo.as_ref().is_some_and(|memo| memo.keys == *keys && is_same(&memo.values, values)) {
            let mut passing = words::all(values.len());
            leaf.test.keep(values, values.logical_nulls().as_ref(), &mut passing)?;
            *memo = Some(DictionaryMemo {
                values: values.clone(),
                keys: keys.clone(),
                table: PassingCodes::new(passing, keys),
            });
        }

        memo.as_ref().map(|memo| &memo.table)
    }
}

fn keep_codes(
    table: &PassingCodes,
    on_null: bool,
    keys: &dyn Array,
    nulls: Option<&NullBuffer>,
    words: &mut [u64],
) -> Option<()> {
    let mut passing_nulls = Vec::new();
    if on_null && nulls.is_some() {
        passing_nulls.extend_from_slice(words);
        keep_null(&mut passing_nulls, nulls);
    }

    keep_valid(words, nulls);
    table.keep(keys, words)?;
    for (word, null) in words.iter_mut().zip(passing_nulls) {
        *word |= null;
    }
    Some(())
}

fn cost(node: &PredicateNode, inputs: &[PredicateInput]) -> u32 {
    match node {
        PredicateNode::Constant(_) => 0,
        PredicateNode::Leaf(leaf) => match inputs.get(leaf.column) {
            Some(input) if input.array.as_any_dictionary_opt().is_some() => GATHER_COST,
            _ => leaf.test.cost(),
        },
        PredicateNode::Columns(_) => PAIR_COST,
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => {
            nodes.iter().map(|node| cost(node, inputs)).sum()
        }
    }
}

fn input(inputs: &[PredicateInput], index: usize) -> Result<&PredicateInput> {
    inputs.get(index).ok_or_else(|| refuse("a column of the filter is missing"))
}

impl BoundColumn {
    /// Returns the column of a batch, found from its root.
    fn input(&self, columns: &[ArrayRef], rows: usize) -> Result<PredicateInput> {
        let missing = || refuse(format!("column {} is missing", self.column));
        let root = columns.get(self.root).ok_or_else(missing)?;
        if root.len() != rows {
            return Err(refuse(format!("column {} has {} rows of {rows}", self.column, root.len())));
        }

        let mut array = root.clone();
        let mut nulls = None;
        for name in &self.path {
            let parent = array.as_struct_opt().ok_or_else(missing)?;
            nulls = NullBuffer::union(nulls.as_ref(), parent.nulls());
            let child = parent.column_by_name(name).ok_or_else(missing)?.clone();
            array = child;
        }

        let own = match array.as_any_dictionary_opt() {
            Some(dictionary) => dictionary.keys().nulls().cloned(),
            None => array.logical_nulls(),
        };

        let nulls = NullBuffer::union(nulls.as_ref(), own.as_ref());
        let class = TypeClass::of(&self.data_type);
        let own_class = TypeClass::of(array.data_type());
        let fits = class == own_class || own_class == TypeClass::Null || class == TypeClass::Null;
        if fits { Ok(PredicateInput { array, nulls }) } else { Err(unbound(&array)) }
    }
}

/// A [`Predicate`] bound to the columns of a schema. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use arrow::{array::{ArrayRef, Int64Array}, datatypes::{DataType, Field, Schema}};
/// use stylobate_columnar::{RowFilter, col};
///
/// let schema = Schema::new(vec![Field::new("name", DataType::Utf8, true), Field::new("age", DataType::Int64, true)]);
/// let filter = RowFilter::new(&col("age").gt_eq(18), &schema)?;
/// assert_eq!(filter.columns(), [1], "it looks at the second column alone");
///
/// let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), Some(30), None]));
/// assert_eq!(filter.passing(&[ages], 3)?.iter().collect::<Vec<_>>(), [false, true, false]);
/// # Ok::<_, stylobate_columnar::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowFilter {
    bound: BoundPredicate,
}

impl RowFilter {
    /// Resolves the predicate's columns in a schema, and types its literals.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`](crate::Error::NoSuchColumn), and [`Error::Predicate`](crate::Error::Predicate) if a
    /// column is not comparable with the other side.
    pub fn new(predicate: &Predicate, schema: &Schema) -> Result<Self> {
        Ok(Self { bound: predicate.bind(schema)? })
    }

    /// Returns the indices of the schema's fields that the filter reads.
    pub fn columns(&self) -> Vec<usize> {
        self.bound.roots().iter().map(|root| root.index).collect()
    }

    /// Returns the rows for which the predicate is true. `columns` are those of [`RowFilter::columns`], of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate) if an array does not have the type of its field.
    pub fn passing(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        self.bound.evaluator().evaluate(columns, rows)
    }
}
