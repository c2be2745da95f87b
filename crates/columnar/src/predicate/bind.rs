//! A filter bound to a schema: columns resolved, literals typed, NOTs pushed down to the leaves.
//!
//! With all NOTs in the leaves, only "true for a row" matters: an AND is true if all of its operands are true, and
//! an OR if one of them is, regardless of the others. Unknown therefore needs no separate bit.

use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, Schema};

use super::{
    Column, ColumnCondition, ColumnTest, CompareOp, Operand, Predicate, TypeClass,
    columns::ColumnComparison,
    compute::{ArithmeticSide, ComputeExpr, ComputedColumn, NumberKind},
    tokens::{quoted, refuse},
    typing::{ComparisonOutcome, ComparisonTarget},
};
use crate::{Error, Result, field_path::field_path};

/// Maximum nesting depth of a predicate.
const MAX_DEPTH: usize = 256;
/// Name of the extension type of UUIDs.
const UUID: &str = "arrow.uuid";

/// A predicate bound to a schema. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BoundPredicate {
    columns: Arc<[BoundColumn]>,
    computed: Arc<[ComputedColumn]>,
    roots: Arc<[RootColumn]>,
    node: Arc<PredicateNode>,
}

/// A top-level column that a filter needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootColumn {
    /// Index of the schema's field.
    pub(crate) index: usize,
    pub(crate) name: String,
}

/// A column that a filter refers to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundColumn {
    /// The column as the predicate names it.
    pub(crate) column: Column,
    /// Index of the root that contains it.
    pub(crate) root: usize,
    /// Names of the fields on the path from the root to it.
    pub(crate) path: Vec<String>,
    /// Type of its values; for a dictionary, the type of the dictionary's values.
    pub(crate) data_type: DataType,
    /// True if the schema declares its values to be UUIDs.
    pub(crate) is_uuid: bool,
}

/// Condition that passing rows satisfy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PredicateNode {
    /// All rows pass, or none.
    Constant(bool),
    Leaf(ColumnCondition),
    Columns(ColumnComparison),
    And(Vec<PredicateNode>),
    Or(Vec<PredicateNode>),
}

impl Predicate {
    /// Resolves the columns in a schema and types the literals.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`], and [`Error::Predicate`] if a column's type is not comparable with the other side.
    pub(crate) fn bind(&self, schema: &Schema) -> Result<BoundPredicate> {
        let mut binder = PredicateBinder { schema, found: Vec::new() };
        let mut node = binder.node(self, false, 0)?;

        let mut numbering =
            OperandNumbering { found: &binder.found, columns: Vec::new(), computed: Vec::new() };
        node.visit_columns(&mut |column| numbering.need(*column));
        node.visit_columns(&mut |column| numbering.renumber(column));
        let (mut columns, computed) = numbering.kept();
        node.number_leaves(&mut 0);

        let mut roots: Vec<RootColumn> = Vec::new();
        for column in &mut columns {
            let index = column.root;
            column.root = roots.iter().position(|root| root.index == index).unwrap_or(roots.len());
            if column.root == roots.len() {
                roots.push(RootColumn { index, name: schema.field(index).name().clone() });
            }
        }

        Ok(BoundPredicate {
            columns: columns.into(),
            computed: computed.into(),
            roots: roots.into(),
            node: Arc::new(node),
        })
    }
}

impl BoundPredicate {
    /// Returns the top-level columns whose arrays [`Evaluator::evaluate`] takes, in this order.
    pub(crate) fn roots(&self) -> &[RootColumn] {
        &self.roots
    }

    /// Returns the columns that the predicate refers to, including nested ones.
    pub(crate) fn columns(&self) -> &[BoundColumn] {
        &self.columns
    }

    /// Returns the computed columns, each after its inputs. Leaves and pairs number them after the columns.
    pub(super) fn computed(&self) -> &[ComputedColumn] {
        &self.computed
    }

    pub(crate) fn node(&self) -> &PredicateNode {
        &self.node
    }

    /// Returns `Some` if all rows or none pass, regardless of their values.
    #[cfg(test)]
    pub(crate) fn constant(&self) -> Option<bool> {
        match self.node.as_ref() {
            PredicateNode::Constant(value) => Some(*value),
            _ => None,
        }
    }
}

struct PredicateBinder<'a> {
    schema: &'a Schema,
    /// All operands so far, each after its inputs.
    found: Vec<BoundOperand>,
}

/// A bound operand.
enum BoundOperand {
    /// `root` is the index of the schema's field.
    Column(BoundColumn),
    Computed(ComputedColumn),
}

impl BoundOperand {
    fn data_type(&self) -> &DataType {
        match self {
            Self::Column(column) => &column.data_type,
            Self::Computed(computed) => &computed.data_type,
        }
    }

    fn is_uuid(&self) -> bool {
        matches!(self, Self::Column(BoundColumn { is_uuid: true, .. }))
    }

    fn is(&self, operand: &Operand) -> bool {
        match (self, operand) {
            (Self::Column(found), Operand::Column(column)) => found.column == *column,
            (Self::Computed(found), operand) => found.operand == *operand,
            _ => false,
        }
    }
}

impl PredicateBinder<'_> {
    fn node(&mut self, predicate: &Predicate, negate: bool, depth: usize) -> Result<PredicateNode> {
        if depth > MAX_DEPTH {
            return Err(refuse(format!("it nests deeper than {MAX_DEPTH} levels")));
        }
        match predicate {
            Predicate::Constant(value) => Ok(PredicateNode::Constant(*value != negate)),
            Predicate::Compare(column, op, literal) => {
                self.outcome(column, |target| Ok(target.compare(*op, literal)?.negated_if(negate)))
            }
            Predicate::In(column, literals) if literals.is_empty() => {
                self.operand(column)?;
                Ok(PredicateNode::Constant(negate))
            }
            Predicate::In(column, literals) => self.outcome(column, |target| target.is_in(literals, negate)),
            Predicate::Like { column, pattern, ignore_case } => {
                self.outcome(column, |target| Ok(target.like(pattern, *ignore_case)?.negated_if(negate)))
            }
            Predicate::StartsWith(column, prefix) => {
                self.outcome(column, |target| Ok(target.starts_with(prefix)?.negated_if(negate)))
            }
            Predicate::Contains(column, text) => {
                self.outcome(column, |target| Ok(target.contains(text)?.negated_if(negate)))
            }
            Predicate::IsNull(column) => {
                let column = self.operand(column)?;
                Ok(leaf(column, if negate { ColumnTest::NotNull } else { ColumnTest::Null }))
            }
            Predicate::CompareColumns(left, op, right) => self.pair(left, *op, right, negate),
            Predicate::Not(predicate) => self.node(predicate, !negate, depth + 1),
            Predicate::And(all) | Predicate::Or(all) => {
                let nodes = all.iter().map(|predicate| self.node(predicate, negate, depth + 1));
                let nodes = nodes.collect::<Result<Vec<_>>>()?;
                // By De Morgan, a negated OR is an AND of its negated operands.
                let is_and = matches!(predicate, Predicate::And(_)) != negate;
                Ok(if is_and { join_and(nodes) } else { join_or(nodes) })
            }
        }
    }

    fn outcome(
        &mut self,
        operand: &Operand,
        of: impl FnOnce(&ComparisonTarget<'_>) -> Result<ComparisonOutcome>,
    ) -> Result<PredicateNode> {
        let index = self.operand(operand)?;
        let is_uuid = self.found.get(index).is_some_and(BoundOperand::is_uuid);
        Ok(match of(&ComparisonTarget::new(operand, self.data_type(index)?, is_uuid))? {
            ComparisonOutcome::Never | ComparisonOutcome::Unknown => PredicateNode::Constant(false),
            ComparisonOutcome::Always => leaf(index, ColumnTest::NotNull),
            ComparisonOutcome::Holds { check, negated } => leaf(index, ColumnTest::Holds { check, negated }),
        })
    }

    fn pair(
        &mut self,
        left: &Operand,
        op: CompareOp,
        right: &Operand,
        negated: bool,
    ) -> Result<PredicateNode> {
        let left_index = self.operand(left)?;
        let right_index = self.operand(right)?;
        let left_type = self.data_type(left_index)?;
        let right_type = self.data_type(right_index)?;
        if TypeClass::of(left_type) == TypeClass::Null || TypeClass::of(right_type) == TypeClass::Null {
            return Ok(PredicateNode::Constant(false));
        }

        let comparable = ColumnComparison::is_comparable(left_type, right_type);
        comparable
            .then_some(PredicateNode::Columns(ColumnComparison {
                left: left_index,
                op,
                right: right_index,
                negated,
            }))
            .ok_or_else(|| {
                refuse(format!(
                    "{left} is {left_type}, {right} is {right_type}: not comparable with each other"
                ))
            })
    }

    fn data_type(&self, index: usize) -> Result<&DataType> {
        self.found.get(index).map(BoundOperand::data_type).ok_or_else(|| refuse("a column is missing"))
    }

    /// Returns the index of an operand, binding it if it is new.
    fn operand(&mut self, operand: &Operand) -> Result<usize> {
        let step = match operand {
            Operand::Column(column) => return self.column(column),
            Operand::Literal(literal) => {
                return Err(refuse(format!("{}: a comparison needs a column", quoted(literal))));
            }
            Operand::Call(function, of) => {
                let of = self.operand(of)?;
                ComputeExpr::Call(*function, of, self.data_type(of)?.clone())
            }
            Operand::Arithmetic(left, op, right) => {
                if let (Operand::Literal(_), Operand::Literal(_)) = (left.as_ref(), right.as_ref()) {
                    return Err(refuse(format!("{}: a comparison needs a column", quoted(operand))));
                }
                ComputeExpr::Arithmetic(self.side(left, operand)?, *op, self.side(right, operand)?)
            }
        };

        if let Some(index) = self.found.iter().position(|found| found.is(operand)) {
            return Ok(index);
        }

        let data_type = match step.negated_float() {
            // Literals are rounded as for the column itself: `-x = -0.1` matches where `x = 0.1` does.
            Some(column) => self.data_type(column)?.clone(),
            None => step.data_type(operand)?,
        };
        self.found.push(BoundOperand::Computed(ComputedColumn { operand: operand.clone(), step, data_type }));
        Ok(self.found.len() - 1)
    }

    /// Binds one side of arithmetic.
    fn side(&mut self, side: &Operand, within: &Operand) -> Result<ArithmeticSide> {
        let refused =
            |what: &dyn std::fmt::Display| refuse(format!("{}: {what} is not a number", quoted(within)));
        match side {
            Operand::Literal(literal) => match NumberKind::of_literal(literal) {
                Some(number) => Ok(ArithmeticSide::Literal(literal.clone(), number)),
                None => Err(refused(literal)),
            },
            operand => {
                let index = self.operand(operand)?;
                let data_type = self.data_type(index)?;
                match NumberKind::of_type(data_type) {
                    Some(number) => Ok(ArithmeticSide::Column(index, number)),
                    None => Err(refused(&format_args!("{operand}, which is {data_type},"))),
                }
            }
        }
    }

    /// Returns the index of a column, binding it if it is new.
    fn column(&mut self, column: &Column) -> Result<usize> {
        let is_known =
            |found: &BoundOperand| matches!(found, BoundOperand::Column(known) if known.column == *column);
        if let Some(index) = self.found.iter().position(is_known) {
            return Ok(index);
        }

        let fields = field_path(self.schema.fields(), column.name()).unwrap_or_default();
        let (Some(&(root, _)), Some(&(_, field))) = (fields.first(), fields.last()) else {
            return Err(Error::NoSuchColumn {
                column: column.name().to_owned(),
                available: available(self.schema.fields(), column.name()),
            });
        };
        let path = fields.iter().skip(1).map(|(_, field)| field.name().clone()).collect();

        let data_type = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            data_type => data_type.clone(),
        };

        let is_uuid = field.extension_type_name() == Some(UUID);
        let column = column.clone();
        self.found.push(BoundOperand::Column(BoundColumn { column, root, path, data_type, is_uuid }));
        Ok(self.found.len() - 1)
    }
}

/// Lists the available columns, or the fields of the column that a dotted name begins with.
fn available(fields: &Fields, name: &str) -> String {
    let parent = name.split_once('.').and_then(|(parent, _)| fields.find(parent));
    let names: Vec<String> = match parent.map(|(_, field)| (field.name(), field.data_type())) {
        Some((parent, DataType::Struct(children))) => {
            children.iter().map(|child| format!("{parent}.{}", child.name())).collect()
        }
        _ => fields.iter().map(|field| field.name().clone()).collect(),
    };
    names.join(", ")
}

fn leaf(column: usize, test: ColumnTest) -> PredicateNode {
    PredicateNode::Leaf(ColumnCondition { id: 0, column, test })
}

fn join_and(nodes: Vec<PredicateNode>) -> PredicateNode {
    let mut rest: Vec<PredicateNode> = Vec::new();
    for node in
        nodes.into_iter().flat_map(|node| if let PredicateNode::And(all) = node { all } else { vec![node] })
    {
        match node {
            PredicateNode::Constant(true) => {}
            PredicateNode::Constant(false) => return node,
            node => rest.push(node),
        }
    }

    let merged = merge(rest, ColumnTest::all);
    match merged {
        None => PredicateNode::Constant(false),
        Some(nodes) if nodes.is_empty() => PredicateNode::Constant(true),
        Some(mut nodes) if nodes.len() == 1 => nodes.swap_remove(0),
        Some(nodes) => PredicateNode::And(nodes),
    }
}

fn join_or(nodes: Vec<PredicateNode>) -> PredicateNode {
    let mut rest: Vec<PredicateNode> = Vec::new();
    for node in
        nodes.into_iter().flat_map(|node| if let PredicateNode::Or(any) = node { any } else { vec![node] })
    {
        match node {
            PredicateNode::Constant(false) => {}
            PredicateNode::Constant(true) => return node,
            node => rest.push(node),
        }
    }

    let mut nodes = merge(rest, |tests| Some(ColumnTest::any(tests))).unwrap_or_default();
    match nodes.len() {
        0 => PredicateNode::Constant(false),
        1 => nodes.swap_remove(0),
        _ => PredicateNode::Or(nodes),
    }
}

/// Merges the leaves of each column into one, at the position of the first. `None` if one of them cannot be true.
fn merge(
    nodes: Vec<PredicateNode>,
    join: impl Fn(Vec<ColumnTest>) -> Option<ColumnTest>,
) -> Option<Vec<PredicateNode>> {
    let mut of_column: Vec<(usize, Vec<ColumnTest>)> = Vec::new();
    let mut others = Vec::new();
    for node in nodes {
        match node {
            PredicateNode::Leaf(ColumnCondition { column, test, .. }) => {
                match of_column.iter_mut().find(|(own, _)| *own == column) {
                    Some((_, tests)) => tests.push(test),
                    None => of_column.push((column, vec![test])),
                }
            }
            node => others.push(node),
        }
    }

    let mut merged = Vec::with_capacity(of_column.len() + others.len());
    for (column, tests) in of_column {
        merged.push(leaf(column, join(tests)?));
    }

    merged.append(&mut others);
    Some(merged)
}

/// Renumbering of the columns and computed columns that are still needed.
struct OperandNumbering<'a> {
    found: &'a [BoundOperand],
    /// Indices of the operands that are needed and are columns.
    columns: Vec<usize>,
    /// Indices of the operands that are needed and are computed, each after its inputs.
    computed: Vec<usize>,
}

impl OperandNumbering<'_> {
    fn need(&mut self, index: usize) {
        match self.found.get(index) {
            Some(BoundOperand::Column(_)) if !self.columns.contains(&index) => self.columns.push(index),
            Some(BoundOperand::Computed(computed)) if !self.computed.contains(&index) => {
                computed.step.inputs().into_iter().for_each(|input| self.need(input));
                self.computed.push(index);
            }
            _ => {}
        }
    }

    fn renumber(&self, index: &mut usize) {
        let wanted = *index;
        let position = |kept: &[usize]| kept.iter().position(|kept| *kept == wanted);
        let computed = || Some(self.columns.len() + position(&self.computed)?);
        if let Some(number) = position(&self.columns).or_else(computed) {
            *index = number;
        }
    }

    fn kept(&self) -> (Vec<BoundColumn>, Vec<ComputedColumn>) {
        let found = |index: &usize| self.found.get(*index);
        let columns = self.columns.iter().filter_map(|index| match found(index)? {
            BoundOperand::Column(column) => Some(column.clone()),
            BoundOperand::Computed(_) => None,
        });

        let computed = self.computed.iter().filter_map(|index| match found(index)? {
            BoundOperand::Column(_) => None,
            BoundOperand::Computed(computed) => {
                let mut computed = computed.clone();
                computed.step.inputs_mut().into_iter().for_each(|input| self.renumber(input));
                Some(computed)
            }
        });

        (columns.collect(), computed.collect())
    }
}

impl PredicateNode {
    fn visit_columns(&mut self, visit: &mut dyn FnMut(&mut usize)) {
        match self {
            Self::Constant(_) => {}
            Self::Leaf(leaf) => visit(&mut leaf.column),
            Self::Columns(pair) => {
                visit(&mut pair.left);
                visit(&mut pair.right);
            }
            Self::And(nodes) | Self::Or(nodes) => nodes.iter_mut().for_each(|node| node.visit_columns(visit)),
        }
    }

    fn number_leaves(&mut self, next: &mut usize) {
        match self {
            Self::Constant(_) | Self::Columns(_) => {}
            Self::Leaf(leaf) => {
                leaf.id = *next;
                *next += 1;
            }
            Self::And(nodes) | Self::Or(nodes) => nodes.iter_mut().for_each(|node| node.number_leaves(next)),
        }
    }
}
