//! Predicates and literals from Rust: `col("a").lt(24).and(col("b").is_not_null())`.

use std::ops::{BitAnd, BitOr, Not};

use super::{Column, CompareOp, Literal, Operand, Predicate};

/// Comparisons of columns and of values computed from them.
macro_rules! conditions {
    ($($type:ty),+) => {
        $(impl $type {
            /// Compares the column with a literal.
            pub fn compare(self, op: CompareOp, literal: impl Into<Literal>) -> Predicate {
                Predicate::Compare(self.into(), op, literal.into())
            }

            /// Compares the column with another column of the same row.
            pub fn compare_column(self, op: CompareOp, other: impl Into<Operand>) -> Predicate {
                Predicate::CompareColumns(self.into(), op, other.into())
            }

            /// `column = literal`
            pub fn eq(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::Equal, literal)
            }

            /// `column <> literal`
            pub fn not_eq(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::NotEqual, literal)
            }

            /// `column < literal`
            pub fn lt(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::Less, literal)
            }

            /// `column <= literal`
            pub fn lt_eq(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::LessOrEqual, literal)
            }

            /// `column > literal`
            pub fn gt(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::Greater, literal)
            }

            /// `column >= literal`
            pub fn gt_eq(self, literal: impl Into<Literal>) -> Predicate {
                self.compare(CompareOp::GreaterOrEqual, literal)
            }

            /// `column BETWEEN low AND high`; both ends are inclusive.
            pub fn between(self, low: impl Into<Literal>, high: impl Into<Literal>) -> Predicate {
                Predicate::And(vec![self.clone().gt_eq(low), self.lt_eq(high)])
            }

            /// `column IN (literals)`
            pub fn is_in<L: Into<Literal>>(self, literals: impl IntoIterator<Item = L>) -> Predicate {
                Predicate::In(self.into(), literals.into_iter().map(Into::into).collect())
            }

            /// `column IS NULL`
            pub fn is_null(self) -> Predicate {
                Predicate::IsNull(self.into())
            }

            /// `column IS NOT NULL`
            pub fn is_not_null(self) -> Predicate {
                Predicate::IsNull(self.into()).negate()
            }

            /// `column LIKE pattern`: `%` stands for any string, `_` for one character, the backslash escapes.
            pub fn like(self, pattern: impl Into<String>) -> Predicate {
                Predicate::Like { column: self.into(), pattern: pattern.into(), ignore_case: false }
            }

            /// `column ILIKE pattern`: [`Column::like`], ignoring case.
            pub fn ilike(self, pattern: impl Into<String>) -> Predicate {
                Predicate::Like { column: self.into(), pattern: pattern.into(), ignore_case: true }
            }

            /// Tests whether the string or binary value begins with this prefix.
            pub fn starts_with(self, prefix: impl Into<String>) -> Predicate {
                Predicate::StartsWith(self.into(), prefix.into())
            }

            /// Tests whether the string contains this text.
            pub fn contains(self, text: impl Into<String>) -> Predicate {
                Predicate::Contains(self.into(), text.into())
            }

            /// Tests whether the string ends with this suffix.
            pub fn ends_with(self, suffix: impl AsRef<str>) -> Predicate {
                self.like(format!("%{}", escaped(suffix.as_ref())))
            }

            /// `column IS NOT DISTINCT FROM literal`: equal, or both null. It is never unknown.
            pub fn eq_missing(self, literal: impl Into<Literal>) -> Predicate {
                match literal.into() {
                    Literal::Null => self.is_null(),
                    literal => Predicate::And(vec![self.clone().is_not_null(), self.eq(literal)]),
                }
            }

            /// `column IS NOT DISTINCT FROM column`: equal, or both null. It is never unknown.
            pub fn eq_missing_column(self, other: impl Into<Operand>) -> Predicate {
                let left: Operand = self.into();
                let right: Operand = other.into();
                let both = vec![left.clone().is_not_null(), right.clone().is_not_null()];
                let neither = vec![left.clone().is_null(), right.clone().is_null()];
                let equal = left.compare_column(CompareOp::Equal, right);
                let both = both.into_iter().chain([equal]).collect();
                Predicate::Or(vec![Predicate::And(both), Predicate::And(neither)])
            }
        })+
    };
}

conditions!(Column, Operand);

/// Escapes a string, so that the pattern matches only this string.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

impl Predicate {
    /// Returns the conjunction of both.
    pub fn and(self, other: Predicate) -> Self {
        match self {
            Self::And(mut all) => {
                all.push(other);
                Self::And(all)
            }
            first => Self::And(vec![first, other]),
        }
    }

    /// Returns the disjunction of both.
    pub fn or(self, other: Predicate) -> Self {
        match self {
            Self::Or(mut any) => {
                any.push(other);
                Self::Or(any)
            }
            first => Self::Or(vec![first, other]),
        }
    }

    /// Returns the negation; unknown stays unknown.
    pub fn negate(self) -> Self {
        match self {
            Self::Not(predicate) => *predicate,
            predicate => Self::Not(Box::new(predicate)),
        }
    }
}

impl Not for Predicate {
    type Output = Self;

    fn not(self) -> Self {
        self.negate()
    }
}

impl BitAnd for Predicate {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl BitOr for Predicate {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

macro_rules! literal_from {
    ($variant:ident: $($type:ty),+) => {
        $(impl From<$type> for Literal {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

literal_from!(Boolean: bool);
literal_from!(Integer: i8, i16, i32, i64, i128, u8, u16, u32, u64);
literal_from!(Float: f32, f64);
literal_from!(String: &str, String);
literal_from!(Binary: Vec<u8>, &[u8]);

impl From<usize> for Literal {
    fn from(value: usize) -> Self {
        Self::Integer(value as i128)
    }
}

impl From<isize> for Literal {
    fn from(value: isize) -> Self {
        Self::Integer(value as i128)
    }
}

impl<T: Into<Literal>> From<Option<T>> for Literal {
    /// Converts `None` to NULL.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
