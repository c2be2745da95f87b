//! Evaluates decimal and integer expressions in 64-bit integers.
//!
//! Columns may be dictionaries. A decimal is represented by its unscaled value. The magnitude of a batch's values
//! bounds that of every result, so one check per batch and expression replaces one per row: a result that might
//! not fit is left to DataFusion's own evaluation.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, RecordBatch},
        buffer::NullBuffer,
        datatypes::{
            ArrowPrimitiveType, DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema,
            UInt8Type, UInt16Type, UInt32Type,
        },
    },
    common::ScalarValue,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, CastExpr, Column, Literal},
    },
};

/// Magnitude of all values, in bits, up to which they are represented. Leaves room for the sign and for one addition.
const MAX_BITS: u32 = 62;
/// Decimal precision that holds all values of [`MAX_BITS`]: a cast to it, or to a larger one, cannot fail.
const SAFE_PRECISION: u8 = 19;

/// Expressions over the columns of a batch. Equal subexpressions share a node and are evaluated once.
#[derive(Clone, Debug, Default)]
pub(super) struct IntegerExprs {
    /// Inputs come before the nodes that use them.
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Column(usize),
    Constant(i64),
    Scaled { input: usize, factor: i64 },
    Binary { op: ArithmeticOp, left: usize, right: usize },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
}

impl IntegerExprs {
    /// Adds an expression on columns of `schema` that returns a decimal or a 64-bit integer, and returns its node;
    /// `None` if it has other types or operations.
    pub(super) fn add(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
        let data_type = expr.data_type(schema).ok()?;
        scale_of(&data_type)?;

        if let Some(column) = expr.downcast_ref::<Column>() {
            return Some(self.node(Node::Column(column.index())));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Some(self.node(Node::Constant(constant(literal.value())?)));
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.add_cast(cast.expr(), &data_type, schema);
        }
        self.add_binary(expr.downcast_ref::<BinaryExpr>()?, &data_type, schema)
    }

    /// Returns the positions of the columns that are read.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Column(column) => Some(*column),
            _ => None,
        })
    }

    fn add_cast(&mut self, of: &Arc<dyn PhysicalExpr>, to: &DataType, schema: &Schema) -> Option<usize> {
        let from = scale_of(&of.data_type(schema).ok()?)?;
        let cannot_fail = match to {
            DataType::Decimal128(precision, _) => *precision >= SAFE_PRECISION,
            DataType::Int64 => of.data_type(schema).ok()?.is_integer(),
            _ => false,
        };
        if !cannot_fail {
            return None;
        }

        let input = self.add(of, schema)?;
        self.scaled(input, from, scale_of(to)?)
    }

    fn add_binary(&mut self, expr: &BinaryExpr, to: &DataType, schema: &Schema) -> Option<usize> {
        let op = match expr.op() {
            Operator::Plus => ArithmeticOp::Add,
            Operator::Minus => ArithmeticOp::Subtract,
            Operator::Multiply => ArithmeticOp::Multiply,
            _ => return None,
        };
        let of_left = expr.left().data_type(schema).ok()?;
        let of_right = expr.right().data_type(schema).ok()?;
        let have_one_kind = match to {
            DataType::Decimal128(..) => is_decimal(&of_left) && is_decimal(&of_right),
            DataType::Int64 => of_left == *to && of_right == *to,
            _ => false,
        };
        if !have_one_kind {
            return None;
        }

        let of_left = scale_of(&of_left)?;
        let of_right = scale_of(&of_right)?;
        let to = scale_of(to)?;
        let mut left = self.add(expr.left(), schema)?;
        let mut right = self.add(expr.right(), schema)?;
        if op == ArithmeticOp::Multiply {
            if of_left + of_right != to {
                return None;
            }
        } else {
            left = self.scaled(left, of_left, to)?;
            right = self.scaled(right, of_right, to)?;
        }
        Some(self.node(Node::Binary { op, left, right }))
    }

    /// Returns the node of a value with more decimal places.
    fn scaled(&mut self, input: usize, from: u32, to: u32) -> Option<usize> {
        let factor = 10_i64.checked_pow(to.checked_sub(from)?)?;
        Some(if factor == 1 { input } else { self.node(Node::Scaled { input, factor }) })
    }

    fn node(&mut self, node: Node) -> usize {
        match self.nodes.iter().position(|known| *known == node) {
            Some(known) => known,
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

/// Returns the number of decimal places of a supported type; 0 for integers.
fn scale_of(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Decimal128(_, scale) => u32::try_from(*scale).ok(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Some(0),
        _ => None,
    }
}

fn constant(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Decimal128(value, _, _) => i64::try_from((*value)?).ok(),
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}

/// Evaluates expressions batch by batch, in buffers that it reuses.
#[derive(Debug)]
pub(super) struct IntegerEvaluator {
    exprs: IntegerExprs,
    results: Vec<NodeResult>,
}

/// The values of a node for the current batch.
#[derive(Debug, Default)]
struct NodeResult {
    /// One value per row, or a single one for constants. The values of null rows are arbitrary.
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
    /// Magnitude of all values in bits; more than [`MAX_BITS`] if they are not represented.
    bits: u32,
    /// The dictionary of a column, and its values.
    dictionary: Option<(ArrayRef, Box<NodeResult>)>,
}

/// The values of an expression for each row of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerValues<'a> {
    /// One value per row; those of null rows are arbitrary.
    pub(super) rows: &'a [i64],
    pub(super) nulls: Option<&'a NullBuffer>,
    /// Magnitude of all values in bits.
    pub(super) bits: u32,
}

impl IntegerEvaluator {
    pub(super) fn new(exprs: IntegerExprs) -> Self {
        let results = exprs.nodes.iter().map(|_| NodeResult::default()).collect();
        Self { exprs, results }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn size(&self) -> usize {
        self.results.iter().map(NodeResult::size).sum()
    }

    /// Evaluates all expressions on a batch.
    pub(super) fn evaluate(&mut self, batch: &RecordBatch) {
        for (at, node) in self.exprs.nodes.iter().enumerate() {
            let (inputs, rest) = self.results.split_at_mut(at);
            let Some(result) = rest.first_mut() else { continue };
            let input = |at: usize| inputs.get(at).filter(|input| input.bits <= MAX_BITS);

            let is_represented = match *node {
                Node::Column(column) => result.read(batch.columns().get(column)),
                Node::Constant(value) => result.set_constant(value),
                Node::Scaled { input: of, factor } => result.scale(input(of), factor),
                Node::Binary { op, left, right } => result.combine(op, input(left), input(right)),
            };
            if is_represented.is_none() {
                result.bits = u32::MAX;
            }
        }
    }

    /// Returns the values of a node for the last batch, which had `rows` rows; `None` if they might not fit.
    pub(super) fn values(&self, node: usize, rows: usize) -> Option<IntegerValues<'_>> {
        let result = self.results.get(node).filter(|result| result.bits <= MAX_BITS)?;
        let values = result.values.get(..rows)?;
        Some(IntegerValues { rows: values, nulls: result.nulls.as_ref(), bits: result.bits })
    }
}

impl NodeResult {
    fn size(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |(_, values)| values.size());
        dictionary + self.values.capacity() * size_of::<i64>()
    }

    /// Reads a column; `None` if its values do not fit.
    fn read(&mut self, column: Option<&ArrayRef>) -> Option<()> {
        let column = column?;
        if let Some(coded) = column.as_dictionary_opt::<UInt32Type>() {
            return self.read_coded(coded);
        }
        self.nulls = column.nulls().cloned();
        self.values.clear();
        self.bits = match column.data_type() {
            DataType::Decimal128(..) => self.read_decimals(column.as_primitive())?,
            DataType::Int8 => self.read_integers::<Int8Type>(column.as_primitive()),
            DataType::Int16 => self.read_integers::<Int16Type>(column.as_primitive()),
            DataType::Int32 => self.read_integers::<Int32Type>(column.as_primitive()),
            DataType::Int64 => self.read_integers::<Int64Type>(column.as_primitive()),
            DataType::UInt8 => self.read_integers::<UInt8Type>(column.as_primitive()),
            DataType::UInt16 => self.read_integers::<UInt16Type>(column.as_primitive()),
            DataType::UInt32 => self.read_integers::<UInt32Type>(column.as_primitive()),
            _ => return None,
        };
        Some(())
    }

    /// Reads a column through the values of its dictionary, which are converted once; `None` if they do not fit.
    fn read_coded(&mut self, column: &DictionaryArray<UInt32Type>) -> Option<()> {
        let known = self.dictionary.take().filter(|(known, _)| Arc::ptr_eq(known, column.values()));
        let (_, dictionary) = self.dictionary.insert(match known {
            Some(known) => known,
            None => {
                let mut values = Self::default();
                if values.read(Some(column.values())).is_none() {
                    values.bits = u32::MAX;
                }
                (column.values().clone(), Box::new(values))
            }
        });
        if dictionary.bits > MAX_BITS || dictionary.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0)
        {
            return None;
        }

        self.bits = dictionary.bits;
        self.nulls = column.nulls().cloned();
        self.values.clear();
        let values = dictionary.values.as_slice();
        // The codes of nulls are arbitrary.
        let value = |code: &u32| values.get(*code as usize).copied().unwrap_or(0);
        self.values.extend(column.keys().values().iter().map(value));
        Some(())
    }

    /// Returns the magnitude of the values in bits; `None` if one does not fit 64 bits.
    fn read_decimals(&mut self, column: &PrimitiveArray<Decimal128Type>) -> Option<u32> {
        let (mut magnitude, mut overflow) = (0_i64, 0_i64);
        self.values.extend(column.values().iter().map(|value| {
            let (low, high) = (*value as i64, (*value >> 64) as i64);
            let sign = low >> 63;
            magnitude |= low ^ sign;
            overflow |= high ^ sign;
            low
        }));
        (overflow == 0).then(|| bits_of(magnitude))
    }

    fn read_integers<T>(&mut self, column: &PrimitiveArray<T>) -> u32
    where
        T: ArrowPrimitiveType<Native: Into<i64>>,
    {
        let mut magnitude = 0_i64;
        self.values.extend(column.values().iter().map(|value| {
            let value: i64 = (*value).into();
            magnitude |= value ^ (value >> 63);
            value
        }));
        bits_of(magnitude)
    }

    fn set_constant(&mut self, value: i64) -> Option<()> {
        self.values.clear();
        self.values.push(value);
        self.bits = bits_of(value ^ (value >> 63));
        Some(())
    }

    fn scale(&mut self, input: Option<&Self>, factor: i64) -> Option<()> {
        let input = input?;
        self.bits = input.bits + bits_of(factor);
        if self.bits > MAX_BITS {
            return None;
        }

        self.nulls.clone_from(&input.nulls);
        self.values.clear();
        self.values.extend(input.values.iter().map(|value| value.wrapping_mul(factor)));
        Some(())
    }

    fn combine(&mut self, op: ArithmeticOp, left: Option<&Self>, right: Option<&Self>) -> Option<()> {
        let (left, right) = (left?, right?);
        self.bits = match op {
            ArithmeticOp::Add | ArithmeticOp::Subtract => left.bits.max(right.bits) + 1,
            ArithmeticOp::Multiply => left.bits + right.bits,
        };
        if self.bits > MAX_BITS {
            return None;
        }

        self.nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        // The bound also holds for the arbitrary values of null rows.
        match op {
            ArithmeticOp::Add => self.fill(left, right, i64::wrapping_add),
            ArithmeticOp::Subtract => self.fill(left, right, i64::wrapping_sub),
            ArithmeticOp::Multiply => self.fill(left, right, i64::wrapping_mul),
        }
        Some(())
    }

    fn fill(&mut self, left: &Self, right: &Self, op: impl Fn(i64, i64) -> i64) {
        self.values.clear();
        match (left.values.as_slice(), right.values.as_slice()) {
            (rows, [constant]) => self.values.extend(rows.iter().map(|value| op(*value, *constant))),
            ([constant], rows) => self.values.extend(rows.iter().map(|value| op(*constant, *value))),
            (left, right) => {
                self.values.extend(left.iter().zip(right).map(|(left, right)| op(*left, *right)));
            }
        }
    }
}

/// Returns the number of bits of a value that is not negative.
fn bits_of(magnitude: i64) -> u32 {
    i64::BITS - magnitude.leading_zeros()
}
