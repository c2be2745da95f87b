//! Reads the condition of a SQL `WHERE`: the words are sqlparser's, the grammar is here.
//!
//! The grammar is small, and written out so that a chain of ten thousand ORs is one flat list and that no text, however
//! it nests, can overflow the stack.
//!
//! ```text
//! condition  = conjunction { OR conjunction }
//! conjunction = negation { AND negation }
//! negation   = { NOT } comparison
//! comparison = sum [ op sum | IS … | [NOT] BETWEEN … | [NOT] IN … | [NOT] LIKE … ]
//! sum        = operand { (+ | -) operand }
//! operand    = literal | column | function | CAST | ( condition )
//! ```

use sqlparser::tokenizer::Token;

use super::{
    Column, CompareOp, Literal, Predicate,
    like::with_backslashes,
    literals::{Interval, Operand, bytes, cast, fold, number, sum},
    tokens::{Parser, is_reserved, quoted, refuse},
};
use crate::Result;

pub(super) fn parse(sql: &str) -> Result<Predicate> {
    let mut parser = Parser::new(sql)?;
    let condition = parser.condition()?.into_predicate()?;
    match parser.peek() {
        None => Ok(condition),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

impl Operand {
    /// The condition that it is: a column alone is one of booleans.
    fn into_predicate(self) -> Result<Predicate> {
        match self {
            Self::Condition(predicate) => Ok(predicate),
            Self::Column(column) => Ok(column.eq(true)),
            Self::Literal(Literal::Boolean(value)) => Ok(Predicate::Constant(value)),
            other => Err(refuse(format!("{} is not a condition", other.describe()))),
        }
    }

    fn into_literal(self) -> Result<Literal> {
        match self {
            Self::Literal(literal) => Ok(literal),
            other => Err(refuse(format!("{} where a literal should be", other.describe()))),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Column(column) => quoted(column),
            Self::Literal(literal) => quoted(literal),
            Self::Interval(_) => "an interval".to_owned(),
            Self::Condition(predicate) => quoted(predicate),
        }
    }
}

impl Parser {
    fn condition(&mut self) -> Result<Operand> {
        self.chain("OR", Predicate::Or, |parser| parser.chain("AND", Predicate::And, Self::negation))
    }

    /// One operand, or the flat list of several with the word between them.
    fn chain(
        &mut self,
        word: &str,
        join: fn(Vec<Predicate>) -> Predicate,
        read: impl Fn(&mut Self) -> Result<Operand>,
    ) -> Result<Operand> {
        let first = read(self)?;
        if !self.at_word(word) {
            return Ok(first);
        }
        let mut all = vec![first.into_predicate()?];
        while self.eat_word(word) {
            all.push(read(self)?.into_predicate()?);
        }
        Ok(Operand::Condition(join(all)))
    }

    fn negation(&mut self) -> Result<Operand> {
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
        Ok(Operand::Condition(predicate))
    }

    fn comparison(&mut self) -> Result<Operand> {
        let left = self.sum()?;
        if let Some(op) = self.compare_op() {
            self.skip();
            let right = self.sum()?;
            return compare(left, op, right).map(Operand::Condition);
        }
        if self.eat_word("IS") {
            return self.is(left).map(Operand::Condition);
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
        Ok(Operand::Condition(if negated { Predicate::Not(Box::new(predicate)) } else { predicate }))
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

    /// What follows IS. Of a boolean column it is never unknown: `flag IS TRUE` is false where `flag` is null.
    fn is(&mut self, left: Operand) -> Result<Predicate> {
        let negated = self.eat_word("NOT");
        let predicate = if self.eat_word("NULL") || self.eat_word("UNKNOWN") {
            match left {
                Operand::Column(column) => column.is_null(),
                Operand::Literal(literal) => Predicate::Constant(literal == Literal::Null),
                other => return Err(refuse(format!("{}: IS NULL wants a column", other.describe()))),
            }
        } else {
            let value = self.eat_word("TRUE");
            if !value && !self.eat_word("FALSE") {
                return Err(self.unexpected("NULL, TRUE or FALSE"));
            }
            match left {
                Operand::Column(column) => {
                    Predicate::And(vec![column.clone().is_not_null(), column.eq(value)])
                }
                other => return Err(refuse(format!("{}: IS TRUE wants a column", other.describe()))),
            }
        };
        Ok(if negated { Predicate::Not(Box::new(predicate)) } else { predicate })
    }

    fn between(&mut self, left: Operand) -> Result<Predicate> {
        let low = self.sum()?;
        self.expect_word("AND")?;
        let high = self.sum()?;
        let above = compare(left.clone(), CompareOp::GreaterOrEqual, low)?;
        let below = compare(left, CompareOp::LessOrEqual, high)?;
        Ok(Predicate::And(vec![above, below]))
    }

    fn is_in(&mut self, left: Operand) -> Result<Predicate> {
        let Operand::Column(column) = left else {
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

    fn like(&mut self, left: Operand) -> Result<Predicate> {
        let ignore_case = self.at_word("ILIKE");
        self.skip();
        let Operand::Column(column) = left else {
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

    fn sum(&mut self) -> Result<Operand> {
        let mut left = self.operand()?;
        loop {
            let negative = match self.peek() {
                Some(Token::Plus) => false,
                Some(Token::Minus) => true,
                _ => return Ok(left),
            };
            self.skip();
            left = sum(left, negative, self.operand()?)?;
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let mut operand = self.bare_operand()?;
        while self.eat(&Token::DoubleColon) {
            operand = Operand::Literal(cast(operand.into_literal()?, &self.type_name()?)?);
        }
        Ok(operand)
    }

    fn bare_operand(&mut self) -> Result<Operand> {
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
            Token::Word(_) => return self.column().map(Operand::Column),
            _ => return Err(self.unexpected("a column or a literal")),
        };
        self.skip();
        Ok(Operand::Literal(literal))
    }

    fn signed(&mut self) -> Result<Operand> {
        let negative = self.eat(&Token::Minus);
        if !negative {
            self.expect(&Token::Plus)?;
        }
        if let Some(Token::Number(digits, _)) = self.peek() {
            let literal = number(digits, negative)?;
            self.skip();
            return Ok(Operand::Literal(literal));
        }
        let operand = self.nested(1, Self::bare_operand)?;
        sum(Operand::Literal(Literal::Integer(0)), negative, operand)
    }

    /// What begins with a word that has no quotes.
    fn word(&mut self) -> Result<Operand> {
        let word = self.word_ahead(0).unwrap_or_default().to_ascii_uppercase();
        let before_string = matches!(self.peek_at(1), Some(Token::SingleQuotedString(_) | Token::Number(..)));
        let before_parenthesis = self.peek_at(1) == Some(&Token::LParen);
        match word.as_str() {
            "NULL" => Ok(self.literal(Literal::Null)),
            "TRUE" => Ok(self.literal(Literal::Boolean(true))),
            "FALSE" => Ok(self.literal(Literal::Boolean(false))),
            "DATE" | "TIME" | "TIMESTAMP" if before_string => {
                self.skip();
                cast(Literal::String(self.string()?), &word).map(Operand::Literal)
            }
            "INTERVAL" if before_string => self.interval(),
            "CAST" | "TRY_CAST" if before_parenthesis => self.cast(),
            "STARTS_WITH" if before_parenthesis => self.function(Predicate::StartsWith),
            "CONTAINS" if before_parenthesis => self.function(Predicate::Contains),
            _ if before_parenthesis => Err(refuse(format!("there is no function {}", quoted(word)))),
            _ if is_reserved(&word) => Err(self.unexpected("a column or a literal")),
            _ => self.column().map(Operand::Column),
        }
    }

    fn literal(&mut self, literal: Literal) -> Operand {
        self.skip();
        Operand::Literal(literal)
    }

    fn column(&mut self) -> Result<Column> {
        let mut name = String::new();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => name += &word.value,
                _ => return Err(self.unexpected("a name")),
            }
            self.skip();
            if !self.eat(&Token::Period) {
                return Ok(Column::new(name));
            }
            name.push('.');
        }
    }

    fn function(&mut self, build: fn(Column, String) -> Predicate) -> Result<Operand> {
        self.skip();
        self.expect(&Token::LParen)?;
        let column = self.column()?;
        self.expect(&Token::Comma)?;
        let text = self.string()?;
        self.expect(&Token::RParen)?;
        Ok(Operand::Condition(build(column, text)))
    }

    fn interval(&mut self) -> Result<Operand> {
        self.skip();
        let amount = match self.peek() {
            Some(Token::Number(digits, _)) => {
                let digits = digits.clone();
                self.skip();
                digits
            }
            _ => self.string()?,
        };
        let unit = match amount.contains(|letter: char| letter.is_ascii_alphabetic()) {
            true => None,
            false => {
                let unit =
                    self.word_ahead(0).ok_or_else(|| self.unexpected("a unit such as DAY"))?.to_owned();
                self.skip();
                Some(unit)
            }
        };
        Interval::parse(&amount, unit.as_deref()).map(Operand::Interval)
    }

    fn cast(&mut self) -> Result<Operand> {
        self.skip();
        self.expect(&Token::LParen)?;
        let literal = self.nested(1, Self::sum)?.into_literal()?;
        self.expect_word("AS")?;
        let type_name = self.type_name()?;
        self.expect(&Token::RParen)?;
        cast(literal, &type_name).map(Operand::Literal)
    }

    /// A type as one text: `DECIMAL(15,2)`, `TIMESTAMP`.
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

fn compare(left: Operand, op: CompareOp, right: Operand) -> Result<Predicate> {
    match (left, right) {
        (Operand::Column(column), Operand::Literal(literal)) => Ok(column.compare(op, literal)),
        (Operand::Literal(literal), Operand::Column(column)) => Ok(column.compare(op.flipped(), literal)),
        (Operand::Column(left), Operand::Column(right)) => Ok(left.compare_column(op, right)),
        (Operand::Literal(left), Operand::Literal(right)) => fold(&left, op, &right).map(Predicate::Constant),
        (left, right) => {
            Err(refuse(format!("{} {op} {}: cannot be compared", left.describe(), right.describe())))
        }
    }
}
