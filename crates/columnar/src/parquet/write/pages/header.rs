//! Encodes page headers in Thrift's compact protocol, with checksums, which the parquet crate does not write.

use bytes::Bytes;
use parquet::basic::Encoding;

use super::hybrid::append_varint;

/// Contents of a page header.
pub(crate) enum PageHeaderSpec {
    Dictionary {
        values: usize,
    },
    Data {
        rows: usize,
        encoding: Encoding,
    },
    /// Version 2: the body begins with this many bytes of uncompressed levels.
    DataV2 {
        rows: usize,
        nulls: usize,
        levels: usize,
        is_compressed: bool,
        encoding: Encoding,
    },
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;

const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Returns a header, and the body that it describes.
pub(crate) fn page(kind: &PageHeaderSpec, uncompressed: usize, body: Bytes) -> Result<[Bytes; 2], String> {
    let size = |bytes: usize| i32::try_from(bytes).map_err(|_| "a page of more than 2 GiB".to_owned());
    let mut out = Vec::with_capacity(48);
    let mut header = ThriftStructWriter { out: &mut out, last: 0 };
    header.number(
        1,
        match kind {
            PageHeaderSpec::Data { .. } => 0,
            PageHeaderSpec::Dictionary { .. } => 2,
            PageHeaderSpec::DataV2 { .. } => 3,
        },
    );

    header.number(2, size(uncompressed)?);
    header.number(3, size(body.len())?);
    header.number(4, crc32fast::hash(&body) as i32);
    match kind {
        PageHeaderSpec::Data { rows, encoding } => {
            let mut data = header.inner(5);
            data.number(1, size(*rows)?);
            data.number(2, number(*encoding));
            data.number(3, number(Encoding::RLE));
            data.number(4, number(Encoding::RLE));
            data.end();
        }
        PageHeaderSpec::Dictionary { values } => {
            let mut dictionary = header.inner(7);
            dictionary.number(1, size(*values)?);
            dictionary.number(2, number(Encoding::PLAIN));
            dictionary.end();
        }
        PageHeaderSpec::DataV2 { rows, nulls, levels, is_compressed, encoding } => {
            let mut data = header.inner(8);
            data.number(1, size(*rows)?);
            data.number(2, size(*nulls)?);
            data.number(3, size(*rows)?);
            data.number(4, number(*encoding));
            data.number(5, size(*levels)?);
            data.number(6, 0);
            data.begin(7, if *is_compressed { TRUE } else { FALSE });
            data.end();
        }
    }

    header.end();
    Ok([out.into(), body])
}

fn number(encoding: Encoding) -> i32 {
    match encoding {
        Encoding::RLE => 3,
        Encoding::RLE_DICTIONARY => 8,
        _ => 0,
    }
}

/// Writer of a struct's fields, in ascending order.
struct ThriftStructWriter<'o> {
    out: &'o mut Vec<u8>,
    last: u8,
}

impl ThriftStructWriter<'_> {
    fn begin(&mut self, field: u8, kind: u8) {
        self.out.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    fn number(&mut self, field: u8, value: i32) {
        self.begin(field, I32);
        append_varint(u64::from((value << 1 ^ value >> 31) as u32), self.out);
    }

    fn inner(&mut self, field: u8) -> ThriftStructWriter<'_> {
        self.begin(field, STRUCT);
        ThriftStructWriter { out: self.out, last: 0 }
    }

    fn end(self) {
        self.out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::pages::header::{PageHeader, PageKind};

    #[test]
    fn headers_are_read_as_they_were_written() {
        let given = PageHeaderSpec::Data { rows: 20_000, encoding: Encoding::RLE_DICTIONARY };
        let [header, body] = page(&given, 300, vec![7; 200].into()).unwrap();
        let (read, length) = PageHeader::read(&header).unwrap().unwrap();
        assert_eq!(length, header.len());
        let kind = PageKind::Data {
            rows: 20_000,
            encoding: Encoding::RLE_DICTIONARY,
            levels: Encoding::RLE,
            repetition: Encoding::RLE,
        };
        let crc = Some(crc32fast::hash(&body));
        assert_eq!(read, PageHeader { kind, uncompressed: 300, compressed: 200, crc });

        let encoding = Encoding::PLAIN;
        let given =
            PageHeaderSpec::DataV2 { rows: 100, nulls: 7, levels: 12, is_compressed: false, encoding };
        let [header, _] = page(&given, 300, vec![7; 300].into()).unwrap();
        let (read, _) = PageHeader::read(&header).unwrap().unwrap();
        let kind = PageKind::DataV2 {
            rows: 100,
            records: Some(100),
            encoding,
            definition: 12,
            repetition: 0,
            compressed: false,
        };

        assert_eq!(read.kind, kind);

        let [header, _] = page(&PageHeaderSpec::Dictionary { values: 3 }, 5, vec![1; 5].into()).unwrap();
        let (read, _) = PageHeader::read(&header).unwrap().unwrap();
        assert_eq!(read.kind, PageKind::Dictionary { values: 3, encoding: Encoding::PLAIN });
    }
}
