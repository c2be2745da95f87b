//! `Column` and `Expr`: columns made by `stylobate.col`, and the conditions that operators build from them.

pub(super) mod literal;

use pyo3::{basic::CompareOp, exceptions::PyTypeError, prelude::*};
use stylobate_columnar::{self as columnar, ArithmeticOp, Function, Literal, Operand, Predicate};

use crate::{
    errors::{ErrorClass, ResultExt},
    expression::literal::literal,
};

const NO_TRUTH: &str = "a filter is neither true nor false before it has seen rows: write & for and, | for or, \
                        ~ for not, .is_in(…) for in, .between(a, b) for a <= x <= b, and parentheses around \
                        comparisons";
const NO_NULL: &str = "a comparison with None holds for no row: write .is_null() or .is_not_null()";
const NO_CONDITION: &str = "& and | join conditions: put parentheses around each comparison, as in \
                            (col(\"a\") < 1) & (col(\"b\") == 2)";

/// A named column, or an expression computed from columns. Comparing it makes an `Expr`.
///
/// Integers and decimals are computed exactly, in 128 bits; overflow raises FilterError. An operation with a float, and
/// every division, is computed in 64-bit floating point: `5 / 2` is 2.5, `1 / 0` is infinite. `-x` and `abs(x)` keep the
/// type of a floating-point column. `%` has the sign of its left side, and `x % 0` of integers is null.
///
/// >>> import stylobate as st
/// >>> st.col("fare") < 10
/// fare < 10
/// >>> st.col("fare").between(5, 10) & ~st.col("city").is_null()
/// fare >= 5 AND fare <= 10 AND city IS NOT NULL
/// >>> st.col("fare") * 2 <= 10
/// fare * 2 <= 10
/// >>> st.col("city").lower() == "oslo"
/// lower(city) = 'oslo'
#[pyclass(frozen, module = "stylobate", name = "Column")]
pub(crate) struct PyColumn {
    operand: Operand,
}

impl From<Operand> for PyColumn {
    fn from(operand: Operand) -> Self {
        Self { operand }
    }
}

/// A condition on rows, made by comparing columns. Combine conditions with `&`, `|` and `~`. The `repr` is SQL.
///
/// >>> import stylobate as st
/// >>> (st.col("city") == "Oslo") | (st.col("fare") >= 20)
/// city = 'Oslo' OR fare >= 20
/// >>> st.Expr.parse("city = 'Oslo' OR fare >= 20")
/// city = 'Oslo' OR fare >= 20
#[pyclass(frozen, module = "stylobate", name = "Expr")]
pub(crate) struct PyExpr {
    predicate: Predicate,
}

impl From<Predicate> for PyExpr {
    fn from(predicate: Predicate) -> Self {
        Self { predicate }
    }
}

/// Returns the predicate of an `Expr` or a boolean column.
pub(crate) fn condition(value: &Bound<'_, PyAny>) -> Option<Predicate> {
    if let Ok(expr) = value.cast::<PyExpr>() {
        return Some(expr.get().predicate.clone());
    }
    value.cast::<PyColumn>().ok().map(|column| column.get().holds())
}

/// Returns the predicate of a filter: an `Expr`, a boolean column, or SQL.
pub(crate) fn filter(value: &Bound<'_, PyAny>) -> PyResult<Predicate> {
    if let Some(predicate) = condition(value) {
        return Ok(predicate);
    }

    match value.extract::<String>() {
        Ok(sql) => parse(value.py(), &sql),
        Err(_) => {
            let class = value.get_type().fully_qualified_name()?;
            Err(PyTypeError::new_err(format!(
                "a filter is an Expr or the text of a SQL WHERE, not a {class}"
            )))
        }
    }
}

fn parse(py: Python<'_>, sql: &str) -> PyResult<Predicate> {
    Predicate::parse(sql).or_raise(py)
}

fn other(value: &Bound<'_, PyAny>) -> PyResult<Predicate> {
    condition(value).ok_or_else(|| PyTypeError::new_err(NO_CONDITION))
}

fn operator(op: CompareOp) -> columnar::CompareOp {
    match op {
        CompareOp::Lt => columnar::CompareOp::Less,
        CompareOp::Le => columnar::CompareOp::LessOrEqual,
        CompareOp::Eq => columnar::CompareOp::Equal,
        CompareOp::Ne => columnar::CompareOp::NotEqual,
        CompareOp::Gt => columnar::CompareOp::Greater,
        CompareOp::Ge => columnar::CompareOp::GreaterOrEqual,
    }
}

/// Returns the literal of a comparison, which must not be null: nothing equals null.
fn compared(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    match literal(value)? {
        Literal::Null => Err(ErrorClass::Filter.error(value.py(), NO_NULL)),
        literal => Ok(literal),
    }
}

/// Returns the other operand of arithmetic: a column or a number.
fn number(value: &Bound<'_, PyAny>) -> PyResult<Operand> {
    if let Ok(column) = value.cast::<PyColumn>() {
        return Ok(column.get().operand.clone());
    }

    match literal(value)? {
        number @ (Literal::Integer(_) | Literal::Decimal { .. } | Literal::Float(_)) => Ok(number.into()),
        _ => {
            let class = value.get_type().fully_qualified_name()?;
            Err(PyTypeError::new_err(format!(
                "a column is computed with numbers and columns, not with a {class}"
            )))
        }
    }
}

impl PyColumn {
    fn compare(&self, op: columnar::CompareOp, literal: Literal) -> Predicate {
        self.operand.clone().compare(op, literal)
    }

    fn holds(&self) -> Predicate {
        self.compare(columnar::CompareOp::Equal, Literal::Boolean(true))
    }

    fn call(&self, py: Python<'_>, function: Function) -> PyResult<Self> {
        computed(py, self.operand.clone().call(function))
    }

    fn arithmetic(&self, op: ArithmeticOp, right: &Bound<'_, PyAny>) -> PyResult<Self> {
        computed(right.py(), self.operand.clone().arithmetic(op, number(right)?))
    }

    fn reversed(&self, left: &Bound<'_, PyAny>, op: ArithmeticOp) -> PyResult<Self> {
        computed(left.py(), number(left)?.arithmetic(op, self.operand.clone()))
    }
}

fn computed(py: Python<'_>, operand: columnar::Result<Operand>) -> PyResult<PyColumn> {
    operand.map(PyColumn::from).or_raise(py)
}

#[pymethods]
impl PyColumn {
    /// Makes numpy scalars defer comparisons with a column to the column.
    #[classattr]
    fn __array_ufunc__() -> Option<u8> {
        None
    }

    #[new]
    fn new(name: String) -> Self {
        Self { operand: columnar::col(name).into() }
    }

    /// Parses a column or a computed expression from SQL.
    ///
    /// >>> import stylobate as st
    /// >>> st.Column.parse("abs(fare - 10)") < 3
    /// abs(fare - 10) < 3
    #[staticmethod]
    fn parse(py: Python<'_>, sql: &str) -> PyResult<Self> {
        computed(py, Operand::parse(sql))
    }

    /// The name, with dots between the names of nested fields.
    #[getter]
    fn name(&self) -> PyResult<&str> {
        match &self.operand {
            Operand::Column(column) => Ok(column.name()),
            computed => {
                Err(PyTypeError::new_err(format!("{computed} is computed: only columns have a name")))
            }
        }
    }

    fn __richcmp__(&self, value: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<PyExpr> {
        let op = operator(op);
        if let Ok(other) = value.cast::<PyColumn>() {
            return Ok(self.operand.clone().compare_column(op, other.get().operand.clone()).into());
        }
        Ok(self.compare(op, compared(value)?).into())
    }

    fn __add__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.arithmetic(ArithmeticOp::Add, value)
    }

    fn __radd__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reversed(value, ArithmeticOp::Add)
    }

    fn __sub__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.arithmetic(ArithmeticOp::Subtract, value)
    }

    fn __rsub__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reversed(value, ArithmeticOp::Subtract)
    }

    fn __mul__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.arithmetic(ArithmeticOp::Multiply, value)
    }

    fn __rmul__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reversed(value, ArithmeticOp::Multiply)
    }

    fn __truediv__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.arithmetic(ArithmeticOp::Divide, value)
    }

    fn __rtruediv__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reversed(value, ArithmeticOp::Divide)
    }

    fn __mod__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.arithmetic(ArithmeticOp::Modulo, value)
    }

    fn __rmod__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.reversed(value, ArithmeticOp::Modulo)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
        let zero = Operand::from(Literal::Integer(0));
        computed(py, zero.arithmetic(ArithmeticOp::Subtract, self.operand.clone()))
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Abs)
    }

    /// The absolute value.
    fn abs(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Abs)
    }

    /// The string in lower case, character by character; a character whose lower case is several characters is kept.
    fn lower(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Lower)
    }

    /// The string in upper case, character by character, like `lower`.
    fn upper(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Upper)
    }

    /// The year of a date or timestamp; for a timestamp with a time zone, in that zone.
    fn year(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Year)
    }

    /// The month of a date or timestamp, from 1 to 12, in the same zone as `year`.
    fn month(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Month)
    }

    /// The day of the month of a date or timestamp, from 1 to 31, in the same zone as `year`.
    fn day(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, Function::Day)
    }

    /// Matches rows whose floating-point value is NaN, which equals nothing, not even itself.
    fn is_nan(&self, py: Python<'_>) -> PyResult<PyExpr> {
        Ok(self.call(py, Function::IsNan)?.holds().into())
    }

    /// Matches rows whose value is equal, where None equals null; unlike `==`, the result is never null.
    ///
    /// >>> import stylobate as st
    /// >>> ~st.col("city").eq_missing("Oslo")
    /// NOT (city IS NOT NULL AND city = 'Oslo')
    fn eq_missing(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        if let Ok(other) = value.cast::<PyColumn>() {
            return Ok(self.operand.clone().eq_missing_column(other.get().operand.clone()).into());
        }
        Ok(self.operand.clone().eq_missing(literal(value)?).into())
    }

    /// Matches rows whose value is not equal, where None equals null; the opposite of `eq_missing`.
    fn ne_missing(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(self.eq_missing(value)?.predicate.negate().into())
    }

    /// Matches rows whose value is between `low` and `high`, both included.
    ///
    /// >>> import stylobate as st
    /// >>> st.col("fare").between(5, 10)
    /// fare >= 5 AND fare <= 10
    fn between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(self.operand.clone().between(compared(low)?, compared(high)?).into())
    }

    /// Matches rows whose value is one of these.
    ///
    /// >>> import stylobate as st
    /// >>> st.col("city").is_in(["Oslo", "Bergen"])
    /// city IN ('Oslo', 'Bergen')
    fn is_in(&self, values: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        if values.is_instance_of::<pyo3::types::PyString>() || values.is_instance_of::<pyo3::types::PyBytes>()
        {
            return Err(PyTypeError::new_err("is_in takes a list of values: write is_in([…])"));
        }
        let values: Vec<_> = values.try_iter()?.map(|value| literal(&value?)).collect::<PyResult<_>>()?;
        Ok(self.operand.clone().is_in(values).into())
    }

    /// Matches rows whose value is null.
    fn is_null(&self) -> PyExpr {
        self.operand.clone().is_null().into()
    }

    /// Matches rows whose value is not null.
    fn is_not_null(&self) -> PyExpr {
        self.operand.clone().is_not_null().into()
    }

    /// Matches rows whose string matches the pattern: `%` is any string, `_` one character, a backslash escapes.
    fn like(&self, pattern: String) -> PyExpr {
        self.operand.clone().like(pattern).into()
    }

    /// Like `like`, case-insensitive.
    fn ilike(&self, pattern: String) -> PyExpr {
        self.operand.clone().ilike(pattern).into()
    }

    /// Matches rows whose string starts with the prefix.
    fn starts_with(&self, prefix: String) -> PyExpr {
        self.operand.clone().starts_with(prefix).into()
    }

    /// Matches rows whose string contains the text.
    fn contains(&self, text: String) -> PyExpr {
        self.operand.clone().contains(text).into()
    }

    /// Matches rows whose string ends with the suffix.
    fn ends_with(&self, suffix: &str) -> PyExpr {
        self.operand.clone().ends_with(suffix).into()
    }

    fn __and__(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(self.holds().and(other(value)?).into())
    }

    fn __rand__(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(other(value)?.and(self.holds()).into())
    }

    fn __or__(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(self.holds().or(other(value)?).into())
    }

    fn __ror__(&self, value: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(other(value)?.or(self.holds()).into())
    }

    fn __invert__(&self) -> PyExpr {
        self.holds().negate().into()
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(NO_TRUTH))
    }

    fn __repr__(&self) -> String {
        self.operand.to_string()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        match &slf.get().operand {
            Operand::Column(column) => Ok((slf.get_type().into_any(), (column.name().to_owned(),))),
            computed => Ok((slf.get_type().getattr("parse")?, (computed.to_string(),))),
        }
    }
}

#[pymethods]
impl PyExpr {
    /// Parses the condition of a SQL `WHERE` clause.
    ///
    /// >>> import stylobate as st
    /// >>> st.Expr.parse("fare between 5 and 10")
    /// fare >= 5 AND fare <= 10
    #[staticmethod]
    fn parse(py: Python<'_>, sql: &str) -> PyResult<Self> {
        Ok(parse(py, sql)?.into())
    }

    fn __and__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(self.predicate.clone().and(other(value)?).into())
    }

    fn __rand__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(other(value)?.and(self.predicate.clone()).into())
    }

    fn __or__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(self.predicate.clone().or(other(value)?).into())
    }

    fn __ror__(&self, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(other(value)?.or(self.predicate.clone()).into())
    }

    fn __invert__(&self) -> Self {
        self.predicate.clone().negate().into()
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(NO_TRUTH))
    }

    fn __repr__(&self) -> String {
        self.predicate.to_string()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("parse")?, (slf.get().predicate.to_string(),)))
    }
}
