"""Conversion of user-given filters to an `Expr`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, TypeAlias

from stylobate._stylobate import Column, Expr
from stylobate.errors import FilterError

__all__ = ["Filter", "Filters", "both", "condition", "from_tuples"]

Filter: TypeAlias = "Expr | Column | str"
Term: TypeAlias = "tuple[str, str, Any]"
Filters: TypeAlias = "Sequence[Term] | Sequence[Sequence[Term]]"

OPERATORS: dict[str, Callable[[Column, Any], Expr]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "in": lambda column, values: column.is_in(values),
    "not in": lambda column, values: ~column.is_in(values),
}


def condition(filter: Filter) -> Expr:
    """Converts a filter to an expression: a string is parsed as SQL, and a column must be boolean."""
    if isinstance(filter, Expr):
        return filter
    if isinstance(filter, Column):
        return filter == True  # noqa: E712
    if isinstance(filter, str):
        return Expr.parse(filter)
    name = type(filter).__qualname__
    raise TypeError(f"a filter is an Expr or the text of a SQL WHERE, not a {name}")


def both(first: Filter | None, second: Filter) -> Expr:
    """Returns the conjunction of two filters; the second one if the first is None."""
    return condition(second) if first is None else condition(first) & condition(second)


def from_tuples(filters: Filters) -> Expr:
    """Converts a filter in pyarrow's disjunctive normal form.

    A list of `(column, operator, value)` tuples is joined by AND, and a list of such lists by OR. Nulls follow SQL, so
    that `not in` drops them, unlike in pyarrow.

    >>> from stylobate.filters import from_tuples
    >>> from_tuples([("city", "==", "Oslo"), ("fare", "<", 10)])
    city = 'Oslo' AND fare < 10
    >>> from_tuples([[("fare", "<", 8)], [("fare", ">", 20), ("city", "in", ["Oslo", "Bergen"])]])
    fare < 8 OR (fare > 20 AND city IN ('Oslo', 'Bergen'))
    """
    if isinstance(filters, (str, Expr, Column)):
        raise TypeError("filters: give a list of (column, operator, value), or give this as filter")
    if isinstance(filters, Mapping) or not isinstance(filters, Iterable):
        wanted = "a list of (column, operator, value), or filter=st.col(…) for an expression"
        raise TypeError(f"filters: give {wanted}, not one of type {type(filters).__qualname__}")
    parts: list[Any] = list(filters)
    if not parts:
        raise FilterError("filters: the list is empty")

    is_nested = all(not isinstance(part[0] if part else None, (str, Column)) for part in parts)
    alternatives = parts if is_nested else [parts]
    return reduce(or_, [conjunction(terms) for terms in alternatives])


def conjunction(terms: Sequence[Any]) -> Expr:
    """Returns the conjunction of several terms."""
    if not terms:
        raise FilterError("filters: a list of terms is empty")
    return reduce(and_, [term(given) for given in terms])


def term(given: Any) -> Expr:
    """Converts one comparison."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 3:
        raise FilterError(f"filters: give (column, operator, value), not {given!r}")

    name, operator, value = given
    if operator not in OPERATORS:
        known = ", ".join(OPERATORS)
        raise FilterError(f"filters: {operator!r} is not an operator: give one of {known}")
    return OPERATORS[operator](name if isinstance(name, Column) else Column(name), value)
