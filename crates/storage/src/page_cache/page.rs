//! The key and the value of a page, and how they are written to disk.

use std::io::{Read, Write};

use bytes::Bytes;
use foyer::Code;

use crate::object::ObjectHash;

/// A page: its version's hash and its number, counted from the object's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) object: ObjectHash,
    pub(crate) page: u32,
}

impl Code for PageKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        self.object.0.encode(writer)?;
        self.page.encode(writer)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        Ok(Self { object: ObjectHash(u128::decode(reader)?), page: u32::decode(reader)? })
    }

    fn estimated_size(&self) -> usize {
        size_of::<u128>() + size_of::<u32>()
    }
}

/// The bytes of a page. On disk: their number as a little-endian u64, then the bytes.
#[derive(Clone, Debug)]
pub(super) struct Page(pub(super) Bytes);

impl Code for Page {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        (self.0.len() as u64).encode(writer)?;
        writer.write_all(&self.0).map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let len = u64::decode(reader)?;
        // Reading to the end allocates what is there, not what a damaged length claims.
        let mut bytes = Vec::with_capacity(len.min(super::options::LARGEST_PAGE.as_u64()) as usize);
        reader.take(len).read_to_end(&mut bytes).map_err(foyer::Error::io_error)?;
        if bytes.len() as u64 != len {
            return Err(foyer::Error::new(foyer::ErrorKind::OutOfRange, "page is shorter than its length"));
        }
        Ok(Self(Bytes::from(bytes)))
    }

    fn estimated_size(&self) -> usize {
        size_of::<u64>() + self.0.len()
    }
}

const ENTRY_OVERHEAD: usize = 256;

/// What a page costs in memory: its bytes and what the cache needs to find it.
pub(super) fn weigh(_: &PageKey, page: &Page) -> usize {
    page.0.len() + ENTRY_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back_as_it_was_written() {
        let key = PageKey { object: ObjectHash(u128::MAX - 5), page: 77 };
        let mut bytes = Vec::new();
        key.encode(&mut bytes).unwrap();
        assert_eq!(bytes.len(), key.estimated_size());
        assert_eq!(PageKey::decode(&mut bytes.as_slice()).unwrap(), key);

        let page = Page(Bytes::from_static(b"columns"));
        let mut bytes = Vec::new();
        page.encode(&mut bytes).unwrap();
        assert_eq!(bytes.len(), page.estimated_size());
        assert_eq!(Page::decode(&mut bytes.as_slice()).unwrap().0, page.0);
    }

    #[test]
    fn a_page_shorter_than_its_length_is_an_error() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"few");
        assert!(Page::decode(&mut bytes.as_slice()).is_err());
    }
}
