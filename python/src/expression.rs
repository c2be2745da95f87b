//! `Column` and `Expr`: what `stylobate.col` makes, and what becomes of it under operators.

use pyo3::{basic::CompareOp, exceptions::PyTypeError, prelude::*};
use stylobate_columnar::{self as columnar, Literal, Predicate};

use crate::{errors::Failure, literal::literal};

const NO_TRUTH: &str = "a filter is neither true nor false before it has seen rows: write & for and, | for or, \
                        ~ for not, .is_in(…) for in, .between(a, b) for a <= x <= b, and parentheses around \
                        comparisons";
const NO_CONDITION: &str = "& and | join conditions: put parentheses around each comparison, as in \
                            (col(\"a\") < 1) & (col(\"b\") == 2)";

/// A column, named. Comparing it makes an `Expr`.
///
/// >>> import stylobate as st
/// >>> st.col("fare") < 10
/// fare < 10
/// >>> st.col("fare").between(5, 10) & ~st.col("city").is_null()
/// fare >= 5 AND fare <= 10 AND city IS NOT NULL
#[pyclass(frozen, module = "stylobate", name = "Column")]
pub(crate) struct PyColumn {
    column: columnar::Column,
}

/// A condition on rows, made by comparing columns. Join conditions with `&`, `|` and `~`; its `repr` is the
/// SQL.
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

/// What rows must fulfil, as users write it: an `Expr`, or a column of booleans.
pub(crate) fn condition(value: &Bound<'_, PyAny>) -> Option<Predicate> {
    if let Ok(expr) = value.cast::<PyExpr>() {
        return Some(expr.get().predicate.clone());
    }
    value.cast::<PyColumn>().ok().map(|column| column.get().holds())
}

/// The condition of a filter: one made by operators, or SQL.
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
    Predicate::parse(sql).map_err(|error| Failure::from(error).raised(py))
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

impl PyColumn {
    fn compare(&self, op: columnar::CompareOp, literal: Literal) -> Predicate {
        self.column.clone().compare(op, literal)
    }

    fn holds(&self) -> Predicate {
        self.compare(columnar::CompareOp::Equal, Literal::Boolean(true))
    }
}

#[pymethods]
impl PyColumn {
    /// Lets numpy's scalars leave a comparison with a column to the column.
    #[classattr]
    fn __array_ufunc__() -> Option<u8> {
        None
    }

    #[new]
    fn new(name: String) -> Self {
        Self { column: columnar::Column::new(name) }
    }

    /// The name, with dots between the names of nested fields.
    #[getter]
    fn name(&self) -> &str {
        self.column.name()
    }

    fn __richcmp__(&self, value: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<PyExpr> {
        let op = operator(op);
        if let Ok(other) = value.cast::<PyColumn>() {
            return Ok(self.column.clone().compare_column(op, other.get().column.clone()).into());
        }
        Ok(self.compare(op, literal(value)?).into())
    }

    /// Rows whose value is from `low` to `high`, both included.
    ///
    /// >>> import stylobate as st
    /// >>> st.col("fare").between(5, 10)
    /// fare >= 5 AND fare <= 10
    fn between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        Ok(self.column.clone().between(literal(low)?, literal(high)?).into())
    }

    /// Rows whose value is one of these.
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
        Ok(self.column.clone().is_in(values).into())
    }

    /// Rows without a value. A comparison with None holds for no row, as in SQL.
    fn is_null(&self) -> PyExpr {
        self.column.clone().is_null().into()
    }

    /// Rows with a value.
    fn is_not_null(&self) -> PyExpr {
        self.column.clone().is_not_null().into()
    }

    /// Rows whose text is like the pattern: `%` stands for any text, `_` for one character, a backslash
    /// escapes.
    fn like(&self, pattern: String) -> PyExpr {
        self.column.clone().like(pattern).into()
    }

    /// `like`, whatever the case of letters.
    fn ilike(&self, pattern: String) -> PyExpr {
        self.column.clone().ilike(pattern).into()
    }

    /// Rows whose text begins with this one.
    fn starts_with(&self, prefix: String) -> PyExpr {
        self.column.clone().starts_with(prefix).into()
    }

    /// Rows whose text contains this one.
    fn contains(&self, text: String) -> PyExpr {
        self.column.clone().contains(text).into()
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
        self.column.to_string()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().column.name().to_owned(),))
    }
}

#[pymethods]
impl PyExpr {
    /// The condition that a SQL `WHERE` says.
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
