//! Decrypts the modules of encrypted files: footers, page headers and pages.
//!
//! Source: sections 4 and 5.1 of `Encryption.md` of the Parquet format. All modules are encrypted with AES-GCM, except
//! the pages of `AES_GCM_CTR_V1`: those are encrypted with AES-CTR, which does not detect changes.

use aes::{Aes128, Aes256};
use bytes::Bytes;
use ctr::{
    Ctr128BE,
    cipher::{KeyIvInit, StreamCipher},
};
use parquet::{
    errors::{ParquetError, Result},
    file::{column_crypto_metadata::ColumnCryptoMetaData, metadata::ColumnChunkMetaData},
};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::decryption::Decryption;

/// Bytes of the length that precedes a module.
pub(crate) const MODULE_LENGTH: usize = 4;
const NONCE: usize = 12;
/// First value of the counter that follows the nonce in AES-CTR.
const FIRST_COUNTER: u32 = 1;

/// Cipher of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageCipher {
    /// AES-GCM, of `AES_GCM_V1`.
    Gcm,
    /// AES-CTR, of `AES_GCM_CTR_V1`.
    Ctr,
}

/// Keys of one encrypted file, with the algorithm that they were used with.
#[derive(Clone, Debug)]
pub(crate) struct FileDecryptor {
    keys: Decryption,
    pages: PageCipher,
    /// Start of the additional authenticated data of each module.
    file_aad: Vec<u8>,
}

/// Decryptor of the pages of one column chunk, in order.
pub(crate) struct ChunkDecryptor {
    gcm: LessSafeKey,
    /// Key of pages that are encrypted by AES-CTR.
    ctr: Option<Vec<u8>>,
    file_aad: Vec<u8>,
    row_group: i16,
    column: i16,
    page: PageOrdinal,
}

/// Position of the next page of a chunk.
#[derive(Clone, Copy)]
enum PageOrdinal {
    Dictionary,
    Data(usize),
}

/// Types of modules, as their additional authenticated data names them.
#[derive(Clone, Copy)]
enum ModuleType {
    Footer = 0,
    DataPage = 2,
    DictionaryPage = 3,
    DataPageHeader = 4,
    DictionaryPageHeader = 5,
}

impl FileDecryptor {
    /// Creates a decryptor of the file with this unique part of the additional authenticated data. A prefix given with
    /// the keys takes precedence over the one that the file stores.
    pub(crate) fn new(keys: &Decryption, pages: PageCipher, stored_prefix: &[u8], unique: &[u8]) -> Self {
        let prefix = keys.aad_prefix().unwrap_or(stored_prefix);
        Self { keys: keys.clone(), pages, file_aad: [prefix, unique].concat() }
    }

    /// Returns the start of the additional authenticated data of each module.
    pub(crate) fn file_aad(&self) -> &[u8] {
        &self.file_aad
    }

    /// Decrypts the module of the footer.
    pub(crate) fn footer(&self, module: &[u8]) -> Result<Vec<u8>> {
        let key = gcm_key(self.keys.footer_key())?;
        let plain = sealed(module).and_then(|sealed| open(&key, &self.footer_aad(), sealed));
        plain.ok_or_else(|| wrong("the footer key and the AAD do not decrypt the footer".to_owned()))
    }

    /// Checks the signature of a plaintext footer: a nonce, and the tag that results from encrypting the footer.
    pub(crate) fn verify_footer(&self, footer: &[u8], signature: &[u8]) -> Result<()> {
        let mismatch =
            || wrong("the signature of the footer is not of the footer key and the AAD".to_owned());
        let (nonce, tag) = signature.split_first_chunk::<NONCE>().ok_or_else(mismatch)?;
        let key = gcm_key(self.keys.footer_key())?;
        let aad = self.footer_aad();
        let mut footer = footer.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);

        match key.seal_in_place_separate_tag(nonce, Aad::from(&aad), &mut footer) {
            Ok(expected) if expected.as_ref() == tag => Ok(()),
            _ => Err(mismatch()),
        }
    }

    /// Returns the decryptor of an encrypted column chunk.
    pub(crate) fn chunk(
        &self,
        row_group: usize,
        leaf: usize,
        chunk: &ColumnChunkMetaData,
    ) -> Result<ChunkDecryptor> {
        let key = match chunk.crypto_metadata() {
            Some(ColumnCryptoMetaData::ENCRYPTION_WITH_COLUMN_KEY(column)) => {
                let name = column.path_in_schema.join(".");
                let key = self.keys.column_key(&name);
                key.ok_or_else(|| wrong(format!("there is no key of the encrypted column {name:?}")))?
            }
            Some(ColumnCryptoMetaData::ENCRYPTION_WITH_FOOTER_KEY) | None => self.keys.footer_key(),
        };
        let has_dictionary = chunk.dictionary_page_offset().is_some();

        Ok(ChunkDecryptor {
            gcm: gcm_key(key)?,
            ctr: (self.pages == PageCipher::Ctr).then(|| key.to_vec()),
            file_aad: self.file_aad.clone(),
            row_group: ordinal(row_group, "row groups")?,
            column: ordinal(leaf, "columns")?,
            page: if has_dictionary { PageOrdinal::Dictionary } else { PageOrdinal::Data(0) },
        })
    }

    fn footer_aad(&self) -> Vec<u8> {
        [&self.file_aad[..], &[ModuleType::Footer as u8]].concat()
    }
}

impl ChunkDecryptor {
    /// Decrypts the header of the next page.
    pub(crate) fn header(&self, module: &[u8]) -> Result<Vec<u8>> {
        let aad = self.aad(ModuleType::DictionaryPageHeader, ModuleType::DataPageHeader)?;
        let plain = sealed(module).and_then(|sealed| open(&self.gcm, &aad, sealed));
        plain.ok_or_else(|| wrong("the key does not decrypt the header of a page".to_owned()))
    }

    /// Decrypts the next page.
    pub(crate) fn page(&self, module: &[u8]) -> Result<Bytes> {
        let sealed = sealed(module);
        let plain = match &self.ctr {
            Some(key) => sealed.and_then(|sealed| apply_ctr(key, sealed)),
            None => {
                let aad = self.aad(ModuleType::DictionaryPage, ModuleType::DataPage)?;
                sealed.and_then(|sealed| open(&self.gcm, &aad, sealed))
            }
        };
        plain.map(Bytes::from).ok_or_else(|| wrong("the key does not decrypt a page".to_owned()))
    }

    /// Moves past the next page.
    pub(crate) fn advance(&mut self) {
        self.page = match self.page {
            PageOrdinal::Dictionary => PageOrdinal::Data(0),
            PageOrdinal::Data(page) => PageOrdinal::Data(page + 1),
        };
    }

    /// Returns the additional authenticated data of a module of the next page.
    fn aad(&self, of_dictionary: ModuleType, of_data: ModuleType) -> Result<Vec<u8>> {
        let module = match self.page {
            PageOrdinal::Dictionary => of_dictionary,
            PageOrdinal::Data(_) => of_data,
        };

        let mut aad = self.file_aad.clone();
        aad.push(module as u8);
        aad.extend(self.row_group.to_le_bytes());
        aad.extend(self.column.to_le_bytes());
        if let PageOrdinal::Data(page) = self.page {
            aad.extend(ordinal(page, "pages of a column chunk")?.to_le_bytes());
        }

        Ok(aad)
    }
}

/// Returns the size of a module in bytes, given the length that it begins with.
pub(crate) fn module_size(length: [u8; MODULE_LENGTH]) -> usize {
    (u32::from_le_bytes(length) as usize).saturating_add(MODULE_LENGTH)
}

/// Returns the nonce, the encrypted bytes and their tag, if any, of a module, without its length.
fn sealed(module: &[u8]) -> Option<(&[u8; NONCE], &[u8])> {
    let size = module_size(*module.first_chunk()?);
    module.get(MODULE_LENGTH..size)?.split_first_chunk()
}

/// Decrypts AES-GCM; `None` if the key or the additional data is wrong, or the bytes were changed.
fn open(key: &LessSafeKey, aad: &[u8], (nonce, bytes): (&[u8; NONCE], &[u8])) -> Option<Vec<u8>> {
    let mut plain = bytes.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key.open_in_place(nonce, Aad::from(aad), &mut plain).ok()?.len();
    plain.truncate(length);
    Some(plain)
}

/// Decrypts AES-CTR; `None` if the key has an invalid length.
fn apply_ctr(key: &[u8], (nonce, bytes): (&[u8; NONCE], &[u8])) -> Option<Vec<u8>> {
    let mut plain = bytes.to_vec();
    let counter = [&nonce[..], &FIRST_COUNTER.to_be_bytes()].concat();
    if key.len() == AES_256_GCM.key_len() {
        let mut cipher = Ctr128BE::<Aes256>::new_from_slices(key, &counter).ok()?;
        cipher.try_apply_keystream(&mut plain).ok()?;
    } else {
        let mut cipher = Ctr128BE::<Aes128>::new_from_slices(key, &counter).ok()?;
        cipher.try_apply_keystream(&mut plain).ok()?;
    }
    Some(plain)
}

fn gcm_key(key: &[u8]) -> Result<LessSafeKey> {
    let algorithm = if key.len() == AES_256_GCM.key_len() { &AES_256_GCM } else { &AES_128_GCM };
    let key = UnboundKey::new(algorithm, key);
    key.map(LessSafeKey::new).map_err(|_| wrong("a key that has neither 16 nor 32 bytes".to_owned()))
}

/// Returns a number in the form of the additional authenticated data.
fn ordinal(number: usize, what: &str) -> Result<i16> {
    i16::try_from(number).map_err(|_| wrong(format!("an encrypted file has at most {} {what}", i16::MAX)))
}

fn wrong(reason: String) -> ParquetError {
    ParquetError::General(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = *b"0123456789abcdef";

    fn module(nonce: [u8; NONCE], bytes: &[u8]) -> Vec<u8> {
        let length = (NONCE + bytes.len()) as u32;
        [&length.to_le_bytes()[..], &nonce, bytes].concat()
    }

    fn encrypt(aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce = [7; NONCE];
        let mut bytes = plain.to_vec();
        let key = gcm_key(&KEY).unwrap();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut bytes)
            .unwrap();
        module(nonce, &bytes)
    }

    fn chunk(page: PageOrdinal, ctr: Option<&[u8]>) -> ChunkDecryptor {
        ChunkDecryptor {
            gcm: gcm_key(&KEY).unwrap(),
            ctr: ctr.map(<[u8]>::to_vec),
            file_aad: b"file".to_vec(),
            row_group: 1,
            column: 0x203,
            page,
        }
    }

    /// Test vectors 1 and 7 of RFC 3686, whose counter blocks are a nonce of 12 bytes and a counter from 1, too.
    #[test]
    fn pages_of_aes_ctr_are_decrypted() {
        let short =
            [0xae, 0x68, 0x52, 0xf8, 0x12, 0x10, 0x67, 0xcc, 0x4b, 0xf7, 0xa5, 0x76, 0x55, 0x77, 0xf3, 0x9e];
        let nonce = [0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0];
        let page =
            [0xe4, 0x09, 0x5d, 0x4f, 0xb7, 0xa7, 0xb3, 0x79, 0x2d, 0x61, 0x75, 0xa3, 0x26, 0x13, 0x11, 0xb8];
        let decrypted = chunk(PageOrdinal::Data(0), Some(&short)).page(&module(nonce, &page));
        assert_eq!(&decrypted.unwrap()[..], b"Single block msg");

        let long = [
            0x77, 0x6b, 0xef, 0xf2, 0x85, 0x1d, 0xb0, 0x6f, 0x4c, 0x8a, 0x05, 0x42, 0xc8, 0x69, 0x6f, 0x6c,
            0x6a, 0x81, 0xaf, 0x1e, 0xec, 0x96, 0xb4, 0xd3, 0x7f, 0xc1, 0xd6, 0x89, 0xe6, 0xc1, 0xc1, 0x04,
        ];
        let nonce = [0, 0, 0, 0x60, 0xdb, 0x56, 0x72, 0xc9, 0x7a, 0xa8, 0xf0, 0xb2];
        let page =
            [0x14, 0x5a, 0xd0, 0x1d, 0xbf, 0x82, 0x4e, 0xc7, 0x56, 0x08, 0x63, 0xdc, 0x71, 0xe3, 0xe0, 0xc0];
        let decrypted = chunk(PageOrdinal::Dictionary, Some(&long)).page(&module(nonce, &page));
        assert_eq!(&decrypted.unwrap()[..], b"Single block msg");
    }

    #[test]
    fn each_module_is_bound_to_its_place() {
        let ordinals = [1, 0, 3, 2];
        let aad = |module: u8, page: &[u8]| [&b"file"[..], &[module], &ordinals, page].concat();
        let mut decryptor = chunk(PageOrdinal::Dictionary, None);
        assert_eq!(decryptor.header(&encrypt(&aad(5, &[]), b"header")).unwrap(), b"header");
        assert_eq!(&decryptor.page(&encrypt(&aad(3, &[]), b"page")).unwrap()[..], b"page");

        for page in 0..=300_u16 {
            decryptor.advance();
            let page = page.to_le_bytes();
            assert_eq!(decryptor.header(&encrypt(&aad(4, &page), b"header")).unwrap(), b"header");
            assert_eq!(&decryptor.page(&encrypt(&aad(2, &page), b"page")).unwrap()[..], b"page");
        }
        assert!(decryptor.header(&encrypt(&aad(5, &[]), b"header")).is_err());
        assert!(decryptor.page(&encrypt(&aad(2, &[0, 0]), b"page")).is_err());
    }

    #[test]
    fn modules_that_are_cut_or_changed_are_errors() {
        let aad = [&b"file"[..], &[4, 1, 0, 3, 2, 0, 0]].concat();
        let good = encrypt(&aad, b"header");
        let decryptor = chunk(PageOrdinal::Data(0), None);
        assert!(decryptor.header(&good).is_ok());
        for end in 0..good.len() {
            assert!(decryptor.header(&good[..end]).is_err(), "{end}");
            let mut changed = good.clone();
            changed[end] ^= 1;
            assert!(decryptor.header(&changed).is_err(), "{end}");
        }

        // A wrong key goes unnoticed in AES-CTR pages, but not in their headers.
        let gcm = gcm_key(b"fedcba9876543210").unwrap();
        let of_other_key = ChunkDecryptor { gcm, ..chunk(PageOrdinal::Data(0), Some(b"fedcba9876543210")) };
        assert!(of_other_key.header(&good).is_err());
        assert!(of_other_key.page(&good).is_ok());

        let ctr = chunk(PageOrdinal::Data(0), Some(&KEY));
        for end in 0..MODULE_LENGTH + NONCE {
            assert!(ctr.page(&module([0; NONCE], b"x")[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_footer_is_signed_by_its_key() {
        let keys = Decryption::new(KEY).with_aad_prefix(*b"table ");
        let file = FileDecryptor::new(&keys, PageCipher::Ctr, b"other ", b"unique");
        assert_eq!(file.file_aad(), b"table unique");
        let footer = b"footer";
        let sealed = encrypt(b"table unique\0", footer);
        assert_eq!(file.footer(&sealed).unwrap(), footer);

        let nonce = &sealed[MODULE_LENGTH..][..NONCE];
        let tag = &sealed[MODULE_LENGTH + NONCE + footer.len()..];
        let signature = [nonce, tag].concat();
        assert!(file.verify_footer(footer, &signature).is_ok());
        assert!(file.verify_footer(b"fooler", &signature).is_err());
        assert!(file.verify_footer(footer, &signature[..27]).is_err());
        assert!(file.verify_footer(footer, &[]).is_err());
    }
}
