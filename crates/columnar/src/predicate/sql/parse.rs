//! Parses the condition of a SQL `WHERE`. The tokenizer is sqlparser's; the grammar is here.
//!
//! The grammar is small. A chain of ten thousand ORs is parsed into one flat list, and no input overflows the
//! stack, regardless of its nesting.
//!
//! ```text
//! condition  = conjunction { OR conjunction }
//! conjunction = negation { AND negation }
//! negation   = { NOT } comparison
//! comparison = sum [ op sum | IS … | [NOT] BETWEEN … | [NOT] IN … | [NOT] LIKE … ]
//! sum        = product { (+ | -) product }
//! product    = operand { (* | / | %) operand }
//! operand    = literal | column | function | CAST | ( condition )
//! ```

use sqlparser::tokenizer::Token;

use super::literals::{Interval, SqlTerm, arithmetic, bytes, cast, fold, negative, number};
use crate::{
    Result,
    predicate::{
        ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate,
        like::with_backslashes,
        tokens::{PredicateParser, is_reserved, quoted, refuse},
    },
};

pub(crate) fn parse(sql: &str) -> Result<Predicate> {
    whole(sql, PredicateParser::condition)?.into_predicate()
}

pub(crate) fn parse_operand(sql: &str) -> Result<Operand> {
    match whole(sql, PredicateParser::sum)? {
        SqlTerm::Operand(operand) => Ok(operand),
        other => Err(refuse(format!("{} where a column should be", other.describe()))),
    }
}

fn whole(sql: &str, read: impl FnOnce(&mut PredicateParser) -> Result<SqlTerm>) -> Result<SqlTerm> {
    let mut parser = PredicateParser::new(sql)?;
    let parsed = read(&mut parser)?;
    match parser.peek() {
        None => Ok(parsed),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

impl SqlTerm {
    /// Converts the term to a condition: a bare column must be boolean.
    fn into_predicate(self) -> Result<Predicate> {
        match self {
            Self::Condition(predicate) => Ok(predicate),
            Self::Operand(column) => Ok(column.eq(true)),
            Self::Literal(Literal::Boolean(value)) => Ok(Predicate::Constant(value)),
            other => Err(refuse(format!("{} is not a condition", other.describe()))),
        }
    }

    fn into_literal(self) -> Result<Literal> {
        match self {
            Self::Literal(literal) => Ok(literal),
            Self::Interval(interval) => interval.to_literal(),
            other => Err(refuse(format!("{} where a literal should be", other.describe()))),
        }
    }

    /// Converts an interval to the literal that columns of durations are compared with.
    fn with_duration(self) -> Result<Self> {
        match self {
            Self::Interval(interval) => interval.to_literal().map(Self::Literal),
            other => Ok(other),
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Operand(column) => quoted(column),
            Self::Literal(literal) => quoted(literal),
            Self::Interval(_) => "an interval".to_owned(),
            Self::Condition(predicate) => quoted(predicate),
        }
    }
}

impl PredicateParser {
    fn condition(&mut self) -> Result<SqlTerm> {
        self.chain("OR", Predicate::Or, |parser| parser.chain("AND", Predicate::And, Self::negation))
    }

    /// Parses one operand, or a flat list of several joined by the word.
    fn chain(
        &mut self,
        word: &str,
        join: fn(Vec<Predicate>) -> Predicate,
        read: impl Fn(&mut Self) -> Result<SqlTerm>,
    ) -> Result<SqlTerm> {
        let first = read(self)?;
        if !self.at_word(word) {
            return Ok(first);
        }

        let mut all = vec![first.into_predicate()?];
        while self.eat_word(word) {
            all.push(read(self)?.into_predicate()?);
        }
        Ok(SqlTerm::Condition(join(all)))
    }

    fn negation(&mut self) -> Result<SqlTerm> {
        let start = self.next;
        while self.eat_word("NOT") {}
        let negations = self.next - start;
        let operand = self.nested(negations, Self::comparison)?;
        if negations == 0 {
            return Ok(operand);
        }

        let mut predicate = operand.into_predicate()?;
        for _ in 0..negations {
            predicate = Predicate::Not(Box::new(predicate));
        }

        Ok(SqlTerm::Condition(predicate))
    }

    fn comparison(&mut self) -> Result<SqlTerm> {
        let left = self.sum()?;
        if let Some(op) = self.compare_op() {
            self.skip();
            let right = self.sum()?;
            return compare(left, op, right).map(SqlTerm::Condition);
        }
        if self.eat_word("IS") {
            return self.is(left).map(SqlTerm::Condition);
        }

        let start = self.next;
        let negated = self.eat_word("NOT");
        let predicate = if self.eat_word("BETWEEN") {
            self.between(left)?
        } else if self.eat_word("IN") {
            self.is_in(left)?
        } else if self.at_word("LIKE") || self.at_word("ILIKE") {
            self.like(left)?
        } else if negated {
            return Err(self.unexpected("BETWEEN, IN or LIKE"));
        } else {
            self.next = start;
            return Ok(left);
        };

        Ok(SqlTerm::Condition(if negated { Predicate::Not(Box::new(predicate)) } else { predicate }))
    }

    fn compare_op(&self) -> Option<CompareOp> {
        match self.peek()? {
            Token::Eq | Token::DoubleEq => Some(CompareOp::Equal),
            Token::Neq => Some(CompareOp::NotEqual),
            Token::Lt => Some(CompareOp::Less),
            Token::LtEq => Some(CompareOp::LessOrEqual),
            Token::Gt => Some(CompareOp::Greater),
            Token::GtEq => Some(CompareOp::GreaterOrEqual),
            _ => None,
        }
    }

    /// Parses the part after IS. For a boolean column the result is never unknown: `flag IS TRUE` is false if `flag` is
    /// null.
    fn is(&mut self, left: SqlTerm) -> Result<Predicate> {
        let negated = self.eat_word("NOT");
        let predicate = if self.eat_word("NULL") || self.eat_word("UNKNOWN") {
            match left {
                SqlTerm::Operand(column) => column.is_null(),
                SqlTerm::Literal(literal) => Predicate::Constant(literal == Literal::Null),
                other => return Err(refuse(format!("{}: IS NULL wants a column", other.describe()))),
            }
        } else if self.eat_word("DISTINCT") {
            self.expect_word("FROM")?;
            let right = self.sum()?;
            is_distinct(left, right)?
        } else {
            let value = self.eat_word("TRUE");
            if !value && !self.eat_word("FALSE") {
                return Err(self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM"));
            }

            match left {
                SqlTerm::Operand(column) => {
                    Predicate::And(vec![column.clone().is_not_null(), column.eq(value)])
                }
                other => return Err(refuse(format!("{}: IS TRUE wants a column", other.describe()))),
            }
        };

        Ok(if negated { predicate.negate() } else { predicate })
    }

    fn between(&mut self, left: SqlTerm) -> Result<Predicate> {
        let low = self.sum()?;
        self.expect_word("AND")?;
        let high = self.sum()?;
        let above = compare(left.clone(), CompareOp::GreaterOrEqual, low)?;
        let below = compare(left, CompareOp::LessOrEqual, high)?;
        Ok(Predicate::And(vec![above, below]))
    }

    fn is_in(&mut self, left: SqlTerm) -> Result<Predicate> {
        let SqlTerm::Operand(column) = left else {
            return Err(refuse(format!("{}: IN wants a column", left.describe())));
        };

        self.expect(&Token::LParen)?;
        let mut literals = Vec::new();
        if !self.eat(&Token::RParen) {
            loop {
                literals.push(self.sum()?.into_literal()?);
                if !self.eat(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }

        Ok(Predicate::In(column, literals))
    }

    fn like(&mut self, left: SqlTerm) -> Result<Predicate> {
        let ignore_case = self.at_word("ILIKE");
        self.skip();
        let SqlTerm::Operand(column) = left else {
            return Err(refuse(format!("{}: LIKE wants a column", left.describe())));
        };

        let mut pattern = self.string()?;
        if self.eat_word("ESCAPE") {
            pattern = with_backslashes(&pattern, &self.string()?)?;
        }
        Ok(Predicate::Like { column, pattern, ignore_case })
    }

    fn string(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::SingleQuotedString(text)) => {
                let text = text.clone();
                self.skip();
                Ok(text)
            }
            _ => Err(self.unexpected("a string")),
        }
    }

    fn sum(&mut self) -> Result<SqlTerm> {
        let mut left = self.product()?;
        loop {
            let op = match self.peek() {
                Some(Token::Plus) => ArithmeticOp::Add,
                Some(Token::Minus) => ArithmeticOp::Subtract,
                _ => return Ok(left),
            };
            self.skip();
            left = arithmetic(left, op, self.product()?)?;
        }
    }

    fn product(&mut self) -> Result<SqlTerm> {
        let mut left = self.operand()?;
        loop {
            let op = match self.peek() {
                Some(Token::Mul) => ArithmeticOp::Multiply,
                Some(Token::Div) => ArithmeticOp::Divide,
                Some(Token::Mod) => ArithmeticOp::Modulo,
                _ => return Ok(left),
            };
            self.skip();
            left = arithmetic(left, op, self.operand()?)?;
        }
    }

    fn operand(&mut self) -> Result<SqlTerm> {
        let mut operand = self.bare_operand()?;
        while self.eat(&Token::DoubleColon) {
            operand = SqlTerm::Literal(cast(operand.into_literal()?, &self.type_name()?)?);
        }
        Ok(operand)
    }

    fn bare_operand(&mut self) -> Result<SqlTerm> {
        let Some(token) = self.peek() else {
            return Err(self.unexpected("a column or a literal"));
        };

        let literal = match token {
            Token::LParen => {
                self.skip();
                let inner = self.nested(1, Self::condition)?;
                self.expect(&Token::RParen)?;
                return Ok(inner);
            }
            Token::Minus | Token::Plus => return self.signed(),
            Token::Number(digits, _) => number(digits, false)?,
            Token::SingleQuotedString(text) => Literal::String(text.clone()),
            Token::HexStringLiteral(digits) => Literal::Binary(bytes(digits)?),
            Token::Word(word) if word.quote_style.is_none() => return self.word(),
            Token::Word(_) => return self.column(),
            _ => return Err(self.unexpected("a column or a literal")),
        };

        self.skip();
        Ok(SqlTerm::Literal(literal))
    }

    fn signed(&mut self) -> Result<SqlTerm> {
        let is_negative = self.eat(&Token::Minus);
        if !is_negative {
            self.expect(&Token::Plus)?;
        }
        if let Some(Token::Number(digits, _)) = self.peek() {
            let literal = number(digits, is_negative)?;
            self.skip();
            return Ok(SqlTerm::Literal(literal));
        }

        let operand = self.nested(1, Self::bare_operand)?;
        match operand {
            operand if is_negative => negative(operand),
            SqlTerm::Operand(_) => Ok(operand),
            operand => arithmetic(SqlTerm::Literal(Literal::Integer(0)), ArithmeticOp::Add, operand),
        }
    }

    /// Parses a term that begins with an unquoted word.
    fn word(&mut self) -> Result<SqlTerm> {
        let word = self.word_ahead(0).unwrap_or_default().to_ascii_uppercase();
        let before_string = matches!(self.peek_at(1), Some(Token::SingleQuotedString(_) | Token::Number(..)));
        let before_parenthesis = self.peek_at(1) == Some(&Token::LParen);

        match word.as_str() {
            "NULL" => Ok(self.literal(Literal::Null)),
            "TRUE" => Ok(self.literal(Literal::Boolean(true))),
            "FALSE" => Ok(self.literal(Literal::Boolean(false))),
            "DATE" | "TIME" | "TIMESTAMP" | "UUID" if before_string => {
                self.skip();
                cast(Literal::String(self.string()?), &word).map(SqlTerm::Literal)
            }
            "INTERVAL" if before_string => self.interval(),
            "CAST" | "TRY_CAST" if before_parenthesis => self.cast(),
            "STARTS_WITH" if before_parenthesis => self.text_function(Predicate::StartsWith),
            "CONTAINS" if before_parenthesis => self.text_function(Predicate::Contains),
            "ENDS_WITH" | "SUFFIX" if before_parenthesis => self.text_function(Operand::ends_with),
            "EXTRACT" if before_parenthesis => self.extract(),
            _ if before_parenthesis => match Function::named(&word) {
                Some(function) => {
                    self.skip();
                    self.expect(&Token::LParen)?;
                    self.call(function)
                }
                None => Err(refuse(format!("there is no function {}", quoted(word)))),
            },
            _ if is_reserved(&word) => Err(self.unexpected("a column or a literal")),
            _ => self.column(),
        }
    }

    fn literal(&mut self, literal: Literal) -> SqlTerm {
        self.skip();
        SqlTerm::Literal(literal)
    }

    fn column(&mut self) -> Result<SqlTerm> {
        let mut name = String::new();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => name += &word.value,
                _ => return Err(self.unexpected("a name")),
            }

            self.skip();
            if !self.eat(&Token::Period) {
                return Ok(SqlTerm::Operand(Column::new(name).into()));
            }
            name.push('.');
        }
    }

    /// Parses the operand of a function up to the closing parenthesis.
    fn call(&mut self, function: Function) -> Result<SqlTerm> {
        let of = self.nested(1, Self::sum)?;
        self.expect(&Token::RParen)?;
        match of {
            SqlTerm::Operand(operand) => operand.call(function).map(SqlTerm::Operand),
            other => Err(refuse(format!("{}: {} wants a column", other.describe(), function.name()))),
        }
    }

    /// Parses `EXTRACT(part FROM operand)`.
    fn extract(&mut self) -> Result<SqlTerm> {
        self.skip();
        self.expect(&Token::LParen)?;
        let part = self.word_ahead(0).and_then(Function::named);
        let Some(function @ (Function::Year | Function::Month | Function::Day)) = part else {
            return Err(self.unexpected("YEAR, MONTH or DAY"));
        };

        self.skip();
        self.expect_word("FROM")?;
        self.call(function)
    }

    /// Parses a condition on a string, with another string after the comma.
    fn text_function(&mut self, build: fn(Operand, String) -> Predicate) -> Result<SqlTerm> {
        self.skip();
        self.expect(&Token::LParen)?;
        let column = match self.nested(1, Self::sum)? {
            SqlTerm::Operand(column) => column,
            other => return Err(refuse(format!("{} where a column should be", other.describe()))),
        };

        self.expect(&Token::Comma)?;
        let text = self.string()?;
        self.expect(&Token::RParen)?;
        Ok(SqlTerm::Condition(build(column, text)))
    }

    fn interval(&mut self) -> Result<SqlTerm> {
        self.skip();
        let amount = match self.peek() {
            Some(Token::Number(digits, _)) => {
                let digits = digits.clone();
                self.skip();
                digits
            }
            _ => self.string()?,
        };

        let unit = if amount.contains(|letter: char| letter.is_ascii_alphabetic()) {
            None
        } else {
            let unit = self.word_ahead(0).ok_or_else(|| self.unexpected("a unit such as DAY"))?.to_owned();
            self.skip();
            Some(unit)
        };

        Interval::parse(&amount, unit.as_deref()).map(SqlTerm::Interval)
    }

    fn cast(&mut self) -> Result<SqlTerm> {
        self.skip();
        self.expect(&Token::LParen)?;
        let literal = self.nested(1, Self::sum)?.into_literal()?;
        self.expect_word("AS")?;
        let type_name = self.type_name()?;
        self.expect(&Token::RParen)?;
        cast(literal, &type_name).map(SqlTerm::Literal)
    }

    /// Parses a type as one text: `DECIMAL(15,2)`, `TIMESTAMP`.
    fn type_name(&mut self) -> Result<String> {
        let Some(word) = self.word_ahead(0) else { return Err(self.unexpected("a type")) };

        let mut name = word.to_ascii_uppercase();
        self.skip();
        if name == "DOUBLE" {
            self.eat_word("PRECISION");
        }

        if self.eat(&Token::LParen) {
            name.push('(');
            loop {
                match self.peek() {
                    Some(Token::Number(digits, _)) => name += digits,
                    _ => return Err(self.unexpected("a number")),
                }

                self.skip();
                if !self.eat(&Token::Comma) {
                    break;
                }
                name.push(',');
            }

            self.expect(&Token::RParen)?;
            name.push(')');
        }

        if name.starts_with("TIME") && (self.eat_word("WITH") || self.eat_word("WITHOUT")) {
            self.expect_word("TIME")?;
            self.expect_word("ZONE")?;
        }

        Ok(name)
    }
}

fn compare(left: SqlTerm, op: CompareOp, right: SqlTerm) -> Result<Predicate> {
    match (left.with_duration()?, right.with_duration()?) {
        (SqlTerm::Operand(left), SqlTerm::Literal(right)) => Ok(left.compare(op, right)),
        (SqlTerm::Literal(left), SqlTerm::Operand(right)) => Ok(right.compare(op.flipped(), left)),
        (SqlTerm::Operand(left), SqlTerm::Operand(right)) => Ok(left.compare_column(op, right)),
        (SqlTerm::Literal(left), SqlTerm::Literal(right)) => fold(&left, op, &right).map(Predicate::Constant),
        (left, right) => {
            Err(refuse(format!("{} {op} {}: cannot be compared", left.describe(), right.describe())))
        }
    }
}

fn is_distinct(left: SqlTerm, right: SqlTerm) -> Result<Predicate> {
    let equal = match (left.with_duration()?, right.with_duration()?) {
        (SqlTerm::Operand(operand), SqlTerm::Literal(literal))
        | (SqlTerm::Literal(literal), SqlTerm::Operand(operand)) => operand.eq_missing(literal),
        (SqlTerm::Operand(left), SqlTerm::Operand(right)) => left.eq_missing_column(right),
        (left, right) => {
            let left = left.describe();
            let right = right.describe();
            return Err(refuse(format!("{left} IS DISTINCT FROM {right}: cannot be compared")));
        }
    };

    Ok(equal.negate())
}
