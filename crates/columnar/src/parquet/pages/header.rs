//! Parses page headers in Thrift's compact protocol, to the extent that reading a column chunk requires.
//!
//! Follows `parquet.thrift` of the Parquet format, and the compact protocol of Apache Thrift. Unknown fields are
//! skipped; bytes that are not a header are an error.

use parquet::basic::Encoding;
use stylobate_storage::{ByteReader, Corrupt, unzigzag};

/// Maximum nesting of fields.
const MAX_NESTING: usize = 16;

/// Error for an encoding that a later version of the format may define.
pub(crate) const UNKNOWN_ENCODING: &str = "values in an unknown encoding";

/// Parsed page header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    /// Bytes of the decompressed page, including levels of version 2.
    pub(crate) uncompressed: usize,
    /// Bytes after the header.
    pub(crate) compressed: usize,
    /// Checksum of the bytes after the header.
    pub(crate) crc: Option<u32>,
}

/// Type of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Dictionary {
        values: usize,
        encoding: Encoding,
    },
    Data {
        rows: usize,
        encoding: Encoding,
        /// Encoding of definition levels.
        levels: Encoding,
        /// Encoding of repetition levels.
        repetition: Encoding,
    },
    DataV2 {
        rows: usize,
        /// Rows of a column with repeated values, if known.
        records: Option<usize>,
        encoding: Encoding,
        definition: usize,
        repetition: usize,
        compressed: bool,
    },
    /// Page type that readers skip.
    Other,
}

/// Value of a field, as far as headers need it.
#[derive(Clone, Copy)]
enum ThriftFieldType {
    True,
    False,
    Byte,
    Int,
    Double,
    Binary,
    List,
    Map,
    Struct,
}

/// Reader of a header. Its methods return `None` if the bytes end early.
struct PageHeaderReader<'a> {
    bytes: ByteReader<'a>,
}

/// Fields of a header struct, by number.
#[derive(Default)]
struct PageHeaderFields {
    numbers: [Option<i64>; 16],
}

impl PageHeader {
    /// Parses the header at the start of `bytes` and returns it with its length; `None` if they end within it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Corrupt> {
        PageHeaderReader::read(bytes, Self::parse)
    }

    fn parse(reader: &mut PageHeaderReader<'_>) -> Result<Option<Self>, Corrupt> {
        let mut inner = None;
        let Some(fields) = reader.header(&mut inner)? else { return Ok(None) };
        let kind = match (fields.get(1), inner) {
            (Some(2), Some((7, inner))) => {
                PageKind::Dictionary { values: inner.count(1)?, encoding: inner.encoding(2)? }
            }
            (Some(0), Some((5, inner))) => PageKind::Data {
                rows: inner.count(1)?,
                encoding: inner.encoding(2)?,
                levels: inner.encoding(3)?,
                // Irrelevant if nothing is repeated.
                repetition: inner.encoding(4).unwrap_or(Encoding::RLE),
            },
            (Some(3), Some((8, inner))) => PageKind::DataV2 {
                rows: inner.count(1)?,
                records: inner.count(3).ok(),
                encoding: inner.encoding(4)?,
                definition: inner.count(5)?,
                repetition: inner.count(6)?,
                compressed: inner.get(7) != Some(0),
            },
            (Some(0 | 2 | 3), _) => return Err("a page without its own header".into()),
            (Some(_), _) => PageKind::Other,
            (None, _) => return Err("a page without a type".into()),
        };

        let crc = fields.get(4).map(|crc| crc as u32);
        let uncompressed = fields.count(2)?;
        let compressed = fields.count(3)?;

        Ok(Some(Self { kind, uncompressed, compressed, crc }))
    }
}

/// Returns the lengths of a bloom filter's header and of its bitset; `None` if the bytes end within the header.
pub(crate) fn bloom_filter_lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, Corrupt> {
    let bitset = PageHeaderReader::read(bytes, |reader| {
        let fields = reader.numbers()?;
        fields.map(|fields| fields.count(1)).transpose()
    })?;
    Ok(bitset.map(|(bitset, header)| (header, bitset)))
}

impl PageHeaderFields {
    fn get(&self, field: usize) -> Option<i64> {
        self.numbers.get(field).copied().flatten()
    }

    fn count(&self, field: usize) -> Result<usize, Corrupt> {
        let count = self.get(field).ok_or("a page's header lacks a number")?;
        // Thrift's i32.
        let count = i32::try_from(count).ok().and_then(|count| usize::try_from(count).ok());
        Ok(count.ok_or("a negative number")?)
    }

    fn encoding(&self, field: usize) -> Result<Encoding, Corrupt> {
        Ok(match self.get(field).ok_or("a page without an encoding")? {
            0 => Encoding::PLAIN,
            2 => Encoding::PLAIN_DICTIONARY,
            3 => Encoding::RLE,
            5 => Encoding::DELTA_BINARY_PACKED,
            6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            7 => Encoding::DELTA_BYTE_ARRAY,
            8 => Encoding::RLE_DICTIONARY,
            9 => Encoding::BYTE_STREAM_SPLIT,
            #[expect(deprecated, reason = "old files have it")]
            4 => Encoding::BIT_PACKED,
            _ => return Err(UNKNOWN_ENCODING.into()),
        })
    }
}

impl<'a> PageHeaderReader<'a> {
    /// Parses the struct at the start of `bytes` and returns it with its length.
    fn read<T>(
        bytes: &'a [u8],
        parse: impl FnOnce(&mut Self) -> Result<Option<T>, Corrupt>,
    ) -> Result<Option<(T, usize)>, Corrupt> {
        let mut reader = Self { bytes: ByteReader::new(bytes) };
        let parsed = parse(&mut reader);
        let offset = reader.bytes.offset();
        match parsed {
            Ok(parsed) => Ok(parsed.map(|parsed| (parsed, offset))),
            Err(corrupt) => Err(corrupt.at(offset as u64)),
        }
    }

    /// Reads the fields of the header, and of its one struct that describes the page.
    fn header(
        &mut self,
        inner: &mut Option<(usize, PageHeaderFields)>,
    ) -> Result<Option<PageHeaderFields>, Corrupt> {
        let mut fields = PageHeaderFields::default();
        let mut field = 0;
        loop {
            let Some(next) = self.field(&mut field)? else { return Ok(None) };
            match next {
                None => return Ok(Some(fields)),
                Some(ThriftFieldType::Struct) if matches!(field, 5 | 7 | 8) => {
                    let Some(numbers) = self.numbers()? else { return Ok(None) };
                    *inner = Some((field, numbers));
                }
                Some(kind) => {
                    if self.keep(kind, field, &mut fields)?.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads the numbers of a struct, and skips its other fields.
    fn numbers(&mut self) -> Result<Option<PageHeaderFields>, Corrupt> {
        let mut fields = PageHeaderFields::default();
        let mut field = 0;
        loop {
            match self.field(&mut field)? {
                None => return Ok(None),
                Some(None) => return Ok(Some(fields)),
                Some(Some(kind)) => {
                    if self.keep(kind, field, &mut fields)?.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Keeps a number, and skips any other value; `None` if the bytes end.
    fn keep(
        &mut self,
        kind: ThriftFieldType,
        field: usize,
        fields: &mut PageHeaderFields,
    ) -> Result<Option<()>, Corrupt> {
        let number = match kind {
            ThriftFieldType::True => 1,
            ThriftFieldType::False => 0,
            ThriftFieldType::Int => match self.bytes.varint()? {
                Some(number) => unzigzag(number),
                None => return Ok(None),
            },
            other => return self.skip(other, 0),
        };

        if let Some(kept) = fields.numbers.get_mut(field) {
            *kept = Some(number);
        }
        Ok(Some(()))
    }

    /// Reads the next field header: returns its type, and updates `field` to its number; the inner `None` is the end of
    /// the struct.
    fn field(&mut self, field: &mut usize) -> Result<Option<Option<ThriftFieldType>>, Corrupt> {
        let Some(head) = self.bytes.byte() else { return Ok(None) };
        if head == 0 {
            return Ok(Some(None));
        }

        match head >> 4 {
            0 => {
                let Some(number) = self.bytes.varint()? else { return Ok(None) };
                *field = usize::try_from(unzigzag(number)).map_err(|_| "a field of a negative number")?;
            }
            step => *field = field.saturating_add(usize::from(step)),
        }

        Ok(Some(Some(kind(head & 0x0f)?)))
    }

    fn skip(&mut self, value: ThriftFieldType, depth: usize) -> Result<Option<()>, Corrupt> {
        if depth > MAX_NESTING {
            return Err("a header that nests too deep".into());
        }

        match value {
            ThriftFieldType::True | ThriftFieldType::False => {}
            ThriftFieldType::Byte => return Ok(self.skip_bytes(1)),
            ThriftFieldType::Int => return Ok(self.bytes.varint()?.map(|_| ())),
            ThriftFieldType::Double => return Ok(self.skip_bytes(8)),
            ThriftFieldType::Binary => {
                let Some(length) = self.bytes.varint()? else { return Ok(None) };
                return Ok(self.skip_bytes(usize::try_from(length).map_err(|_| "a text that is too long")?));
            }
            ThriftFieldType::List => {
                let Some(head) = self.bytes.byte() else { return Ok(None) };
                let count = match head >> 4 {
                    15 => match self.bytes.varint()? {
                        Some(count) => count,
                        None => return Ok(None),
                    },
                    count => u64::from(count),
                };

                let element = kind(head & 0x0f)?;
                return self.skip_many(&[element], count, depth);
            }
            ThriftFieldType::Map => {
                let Some(count) = self.bytes.varint()? else { return Ok(None) };
                if count > 0 {
                    let Some(kinds) = self.bytes.byte() else { return Ok(None) };
                    return self.skip_many(&[kind(kinds >> 4)?, kind(kinds & 0x0f)?], count, depth);
                }
            }
            ThriftFieldType::Struct => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        None => return Ok(None),
                        Some(None) => break,
                        Some(Some(kind)) => {
                            if self.skip(kind, depth + 1)?.is_none() {
                                return Ok(None);
                            }
                        }
                    }
                }
            }
        }

        Ok(Some(()))
    }

    fn skip_many(
        &mut self,
        kinds: &[ThriftFieldType],
        count: u64,
        depth: usize,
    ) -> Result<Option<()>, Corrupt> {
        for _ in 0..count {
            for kind in kinds {
                // A boolean in a list has a byte of its own.
                let kind = if matches!(kind, ThriftFieldType::True | ThriftFieldType::False) {
                    ThriftFieldType::Byte
                } else {
                    *kind
                };
                if self.skip(kind, depth + 1)?.is_none() {
                    return Ok(None);
                }
            }
        }

        Ok(Some(()))
    }

    fn skip_bytes(&mut self, length: usize) -> Option<()> {
        self.bytes.take(length).map(|_| ())
    }
}

fn kind(code: u8) -> Result<ThriftFieldType, Corrupt> {
    Ok(match code {
        1 => ThriftFieldType::True,
        2 => ThriftFieldType::False,
        3 => ThriftFieldType::Byte,
        4..=6 => ThriftFieldType::Int,
        7 => ThriftFieldType::Double,
        8 => ThriftFieldType::Binary,
        9 | 10 => ThriftFieldType::List,
        11 => ThriftFieldType::Map,
        12 => ThriftFieldType::Struct,
        _ => return Err("a header of an unknown kind".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `type` 0, 100 bytes, 60 bytes, a `data_page_header` with 7 values in RLE_DICTIONARY with levels in RLE and
    /// statistics that are skipped.
    const DATA: [u8; 23] = [
        0x15, 0, 0x15, 200, 1, 0x15, 120, 0x2c, 0x15, 14, 0x15, 16, 0x15, 6, 0x15, 6, 0x1c, 0x18, 2, 9, 9, 0,
        0,
    ];

    #[test]
    fn a_data_page_says_what_it_is() {
        let mut bytes = DATA.to_vec();
        bytes.extend([0, 1, 2, 3]);
        let (header, length) = PageHeader::read(&bytes).unwrap().unwrap();
        assert_eq!(length, DATA.len() + 1);
        let encoding = Encoding::RLE_DICTIONARY;
        let rle = Encoding::RLE;
        let kind = PageKind::Data { rows: 7, encoding, levels: rle, repetition: rle };
        assert_eq!(header, PageHeader { kind, uncompressed: 100, compressed: 60, crc: None });
    }

    #[test]
    fn a_header_that_goes_on_is_not_an_error_and_any_other_end_is_none() {
        for end in 0..=DATA.len() {
            assert_eq!(PageHeader::read(&DATA[..end]), Ok(None), "{end}");
        }
        assert!(PageHeader::read(&[0]).is_err(), "nothing is said");
        assert!(PageHeader::read(&[0x15, 0, 0]).is_err(), "no header of its own");
        assert_eq!(PageHeader::read(&[0x15, 0, 0x1d, 0]).unwrap_err().offset, Some(3), "no such kind");
        assert!(PageHeader::read(&[0xff; 30]).is_err());
    }

    #[test]
    fn a_bloom_filter_says_how_long_it_is() {
        // 64 bytes, in blocks, of XXHASH, uncompressed.
        let header = [0x15, 128, 1, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
        let bytes = [&header[..], &[0xff; 64]].concat();
        assert_eq!(bloom_filter_lengths(&bytes), Ok(Some((header.len(), 64))));
        assert_eq!(bloom_filter_lengths(&header[..9]), Ok(None));
        assert!(bloom_filter_lengths(&[0]).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 1_u64;
        for _ in 0..200_000 {
            let mut bytes = DATA;
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 56) as u8;
            }
            let _ = PageHeader::read(&bytes);
        }
    }
}
