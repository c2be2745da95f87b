//! Sides of comparisons: a column, or a value computed from columns and literals.

use super::{Column, Literal, tokens::refuse};
use crate::Result;

/// Maximum number of functions and operators of an operand.
const MAX_OPERATIONS: usize = 256;
/// Maximum nesting depth of an operand's functions and parentheses, less than that of the SQL parser.
const MAX_DEPTH: usize = 32;

/// One side of a comparison: a column, or a value that is computed from columns.
///
/// ```
/// use stylobate_columnar::{ArithmeticOp, Operand, Predicate, col};
///
/// let doubled = Operand::from(col("a")).arithmetic(ArithmeticOp::Multiply, 2)?;
/// assert_eq!(doubled.lt_eq(10), Predicate::parse("a * 2 <= 10")?);
/// # Ok::<_, stylobate_columnar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operand {
    /// The values of a column.
    Column(Column),
    /// A number, in arithmetic with a column.
    Literal(Literal),
    /// A function of an operand.
    Call(Function, Box<Operand>),
    /// `left op right`
    Arithmetic(Box<Operand>, ArithmeticOp, Box<Operand>),
}

/// A function of one value. The result for null is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Function {
    /// Text in lower case, character by character: characters whose other case has several characters are kept.
    Lower,
    /// Text in upper case, by the rules of [`Function::Lower`].
    Upper,
    /// Absolute value. Integers are widened first, so that the lowest does not overflow.
    Abs,
    /// The year of a date or timestamp; of a timestamp with a time zone, in that zone.
    Year,
    /// The month, from 1 to 12, by the rules of [`Function::Year`].
    Month,
    /// The day of the month, from 1 to 31, by the rules of [`Function::Year`].
    Day,
    /// True for floating-point numbers that are NaN.
    IsNan,
}

/// Arithmetic of two numbers.
///
/// Integers and decimals are computed exactly, in 128 bits; overflow is an error. Arithmetic with a floating-point
/// number is in 64-bit floating point, and so is every division. Only the negative of a column, `-x` or `0 - x`,
/// keeps the floating-point type of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, always a floating-point number: `5 / 2` is 2.5, and `1 / 0` is infinite.
    Divide,
    /// `%`, with the sign of the left side. Of integers and decimals, `x % 0` is null.
    Modulo,
}

impl From<Column> for Operand {
    fn from(column: Column) -> Self {
        Self::Column(column)
    }
}

impl<L: Into<Literal>> From<L> for Operand {
    fn from(literal: L) -> Self {
        Self::Literal(literal.into())
    }
}

impl Function {
    /// All functions.
    pub(super) const ALL: [Self; 7] =
        [Self::Lower, Self::Upper, Self::Abs, Self::Year, Self::Month, Self::Day, Self::IsNan];

    /// Returns the function's name in SQL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::Abs => "abs",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::IsNan => "isnan",
        }
    }

    /// Returns the function of this name in SQL, ignoring case.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name().eq_ignore_ascii_case(name))
    }
}

impl ArithmeticOp {
    /// Returns `true` if the operator binds tighter than addition.
    fn is_product(self) -> bool {
        matches!(self, Self::Multiply | Self::Divide | Self::Modulo)
    }
}

impl Operand {
    /// Applies a function to this operand.
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate) if the result has more than 256 functions and operators, or nests
    /// deeper than 32 levels.
    pub fn call(self, function: Function) -> Result<Self> {
        Self::Call(function, Box::new(self)).checked()
    }

    /// `self op other`
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate) if the result has more than 256 functions and operators, or nests
    /// deeper than 32 levels.
    pub fn arithmetic(self, op: ArithmeticOp, other: impl Into<Self>) -> Result<Self> {
        Self::Arithmetic(Box::new(self), op, Box::new(other.into())).checked()
    }

    /// Limits the depth, so that an operand built step by step cannot exhaust the stack.
    pub(super) fn checked(self) -> Result<Self> {
        if self.operations() > MAX_OPERATIONS {
            return Err(refuse(format!("more than {MAX_OPERATIONS} functions and operators in one value")));
        }
        if self.depth() <= MAX_DEPTH {
            Ok(self)
        } else {
            Err(refuse(format!("one value nests deeper than {MAX_DEPTH} levels")))
        }
    }

    /// Returns the nesting depth of the operand's functions and parentheses in SQL.
    fn depth(&self) -> usize {
        match self {
            Self::Column(_) | Self::Literal(_) => 0,
            Self::Call(_, of) => 1 + of.depth(),
            Self::Arithmetic(left, op, right) => {
                let left_depth = left.depth() + usize::from(left.is_looser(*op));
                left_depth.max(right.depth() + usize::from(!right.is_tighter(*op)))
            }
        }
    }

    /// Returns `true` if the operand needs parentheses on the left of an operator.
    pub(super) fn is_looser(&self, op: ArithmeticOp) -> bool {
        matches!(self, Self::Arithmetic(_, own, _) if !own.is_product() && op.is_product())
    }

    /// Returns `true` if the operand needs no parentheses on the right of an operator.
    pub(super) fn is_tighter(&self, op: ArithmeticOp) -> bool {
        match self {
            Self::Arithmetic(_, own, _) => own.is_product() && !op.is_product(),
            _ => true,
        }
    }

    fn operations(&self) -> usize {
        match self {
            Self::Column(_) | Self::Literal(_) => 0,
            Self::Call(_, of) => 1 + of.operations(),
            Self::Arithmetic(left, _, right) => 1 + left.operations() + right.operations(),
        }
    }

    pub(super) fn visit_columns(&self, visit: &mut dyn FnMut(&Column)) {
        match self {
            Self::Column(column) => visit(column),
            Self::Literal(_) => {}
            Self::Call(_, of) => of.visit_columns(visit),
            Self::Arithmetic(left, _, right) => {
                left.visit_columns(visit);
                right.visit_columns(visit);
            }
        }
    }
}
