//! Parses structs of Thrift's compact protocol into trees, independent of their schema: read, changed and written
//! again.
//!
//! Source: the compact protocol of Apache Thrift.

use stylobate_storage::{ByteReader, unzigzag};

/// Maximum nesting of structs and lists.
const MAX_DEPTH: usize = 32;

/// Value that borrows from the bytes it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ThriftValue<'a> {
    Bool(bool),
    Byte(u8),
    /// Number of 16, 32 or 64 bits, by its type code.
    Int(u8, i64),
    Double([u8; 8]),
    Binary(&'a [u8]),
    /// Type code of all elements, and the elements.
    List(u8, Vec<Self>),
    Struct(ThriftStruct<'a>),
}

/// Fields by number, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ThriftStruct<'a>(Vec<(i64, ThriftValue<'a>)>);

/// Type codes.
pub(crate) const I32: u8 = 5;
pub(crate) const I64: u8 = 6;
pub(crate) const STRUCT: u8 = 12;
const TRUE: u8 = 1;
const FALSE: u8 = 2;

impl<'a> ThriftStruct<'a> {
    /// Reads the struct at the start of the bytes; `None` if there is none.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        Self::read_prefix(bytes).map(|(read, _)| read)
    }

    /// Reads the struct at the start of the bytes, and returns it with the bytes after it; `None` if there is none.
    pub(crate) fn read_prefix(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut reader = ThriftReader { bytes: ByteReader::new(bytes) };
        let read = reader.read_struct(0)?;
        Some((read, reader.bytes.rest()))
    }

    /// Encodes the struct in the compact protocol.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    pub(crate) fn get(&self, field: i64) -> Option<&ThriftValue<'a>> {
        self.0.iter().find(|(known, _)| *known == field).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, field: i64) -> Option<&mut ThriftValue<'a>> {
        self.0.iter_mut().find(|(known, _)| *known == field).map(|(_, value)| value)
    }

    pub(crate) fn number(&self, field: i64) -> Option<i64> {
        match self.get(field)? {
            ThriftValue::Int(_, number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn binary(&self, field: i64) -> Option<&'a [u8]> {
        match self.get(field)? {
            ThriftValue::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn list_mut(&mut self, field: i64) -> Option<&mut Vec<ThriftValue<'a>>> {
        match self.get_mut(field)? {
            ThriftValue::List(_, values) => Some(values),
            _ => None,
        }
    }

    pub(crate) fn inner(&self, field: i64) -> Option<&Self> {
        match self.get(field)? {
            ThriftValue::Struct(inner) => Some(inner),
            _ => None,
        }
    }

    pub(crate) fn struct_mut(&mut self, field: i64) -> Option<&mut Self> {
        match self.get_mut(field)? {
            ThriftValue::Struct(inner) => Some(inner),
            _ => None,
        }
    }

    pub(crate) fn set(&mut self, field: i64, value: ThriftValue<'a>) {
        match self.get_mut(field) {
            Some(known) => *known = value,
            None => self.0.push((field, value)),
        }
    }

    pub(crate) fn remove(&mut self, field: i64) -> Option<ThriftValue<'a>> {
        let at = self.0.iter().position(|(known, _)| *known == field)?;
        Some(self.0.remove(at).1)
    }

    fn write(&self, into: &mut Vec<u8>) {
        let mut fields: Vec<&(i64, ThriftValue<'a>)> = self.0.iter().collect();
        fields.sort_by_key(|(field, _)| *field);
        let mut last = 0;

        for (field, value) in fields {
            match u8::try_from(field.wrapping_sub(last)) {
                Ok(step @ 1..=15) => into.push(step << 4 | value.code()),
                _ => {
                    into.push(value.code());
                    write_varint(zigzag(*field), into);
                }
            }

            last = *field;
            // A boolean field has no bytes of its own.
            if !matches!(value, ThriftValue::Bool(_)) {
                value.write(into);
            }
        }

        into.push(0);
    }
}

impl ThriftValue<'_> {
    fn code(&self) -> u8 {
        match self {
            Self::Bool(true) => TRUE,
            Self::Bool(false) => FALSE,
            Self::Byte(_) => 3,
            Self::Int(code, _) => *code,
            Self::Double(_) => 7,
            Self::Binary(_) => 8,
            Self::List(..) => 9,
            Self::Struct(_) => STRUCT,
        }
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => into.push(if *value { TRUE } else { FALSE }),
            Self::Byte(byte) => into.push(*byte),
            Self::Int(_, number) => write_varint(zigzag(*number), into),
            Self::Double(bytes) => into.extend(bytes),
            Self::Binary(bytes) => {
                write_varint(bytes.len() as u64, into);
                into.extend_from_slice(bytes);
            }
            Self::List(element, values) => {
                match u8::try_from(values.len()) {
                    Ok(count @ ..15) => into.push(count << 4 | element),
                    _ => {
                        into.push(0xf0 | element);
                        write_varint(values.len() as u64, into);
                    }
                }
                values.iter().for_each(|value| value.write(into));
            }
            Self::Struct(inner) => inner.write(into),
        }
    }
}

struct ThriftReader<'a> {
    bytes: ByteReader<'a>,
}

impl<'a> ThriftReader<'a> {
    fn read_struct(&mut self, depth: usize) -> Option<ThriftStruct<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }

        let mut fields = Vec::new();
        let mut last = 0_i64;
        loop {
            let head = self.bytes.byte()?;
            if head == 0 {
                return Some(ThriftStruct(fields));
            }

            let field = match head >> 4 {
                0 => self.number()?,
                step => last.checked_add(i64::from(step))?,
            };
            last = field;
            let value = match head & 0x0f {
                TRUE => ThriftValue::Bool(true),
                FALSE => ThriftValue::Bool(false),
                code => self.value(code, depth)?,
            };
            fields.push((field, value));
        }
    }

    fn value(&mut self, code: u8, depth: usize) -> Option<ThriftValue<'a>> {
        Some(match code {
            TRUE | FALSE => ThriftValue::Bool(self.bytes.byte()? == TRUE),
            3 => ThriftValue::Byte(self.bytes.byte()?),
            4..=6 => ThriftValue::Int(code, self.number()?),
            7 => ThriftValue::Double(self.bytes.array()?),
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                ThriftValue::Binary(self.bytes.take(length)?)
            }
            9 | 10 => {
                let head = self.bytes.byte()?;
                let count = match head >> 4 {
                    15 => usize::try_from(self.varint()?).ok()?,
                    count => usize::from(count),
                };
                // Each element has at least one byte.
                if count > self.bytes.rest().len() || depth > MAX_DEPTH {
                    return None;
                }

                let element = head & 0x0f;
                let values: Option<Vec<_>> = (0..count).map(|_| self.value(element, depth + 1)).collect();
                ThriftValue::List(element, values?)
            }
            STRUCT => ThriftValue::Struct(self.read_struct(depth + 1)?),
            _ => return None,
        })
    }

    fn number(&mut self) -> Option<i64> {
        self.varint().map(unzigzag)
    }

    fn varint(&mut self) -> Option<u64> {
        self.bytes.varint().ok().flatten()
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn write_varint(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push(number as u8 & 0x7f | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ThriftStruct<'static> {
        let mut inner = ThriftStruct::default();
        inner.set(1, ThriftValue::Bool(true));
        inner.set(3, ThriftValue::Bool(false));
        inner.set(40, ThriftValue::Double([1, 2, 3, 4, 5, 6, 7, 8]));
        let mut outer = ThriftStruct::default();
        outer.set(1, ThriftValue::Int(I32, -7));
        outer.set(2, ThriftValue::List(STRUCT, vec![ThriftValue::Struct(inner); 20]));
        outer.set(3, ThriftValue::Int(I64, i64::MIN));
        outer.set(5, ThriftValue::Binary(b"text"));
        outer.set(9, ThriftValue::List(I32, vec![ThriftValue::Int(I32, 1), ThriftValue::Int(I32, -1)]));

        outer
    }

    #[test]
    fn what_is_read_is_written_again() {
        let bytes = example().to_bytes();
        assert_eq!(ThriftStruct::read(&bytes), Some(example()));
        assert_eq!(ThriftStruct::read(&bytes).unwrap().to_bytes(), bytes);
        let followed = [&bytes[..], b"rest"].concat();
        assert_eq!(ThriftStruct::read_prefix(&followed), Some((example(), &b"rest"[..])));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let bytes = example().to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(ThriftStruct::read(&bytes[..end]), None, "{end}");
        }
        assert_eq!(ThriftStruct::read(&[0x1c; 1_000]), None, "nested without end");
        let mut state = 1_u64;

        for _ in 0..100_000 {
            let mut bytes = bytes.clone();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 56) as u8;
            let _ = ThriftStruct::read(&bytes);
        }
    }
}
