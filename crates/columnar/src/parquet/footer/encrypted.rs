//! Opens footers of encrypted files: decrypts them, or checks the signatures of those in plaintext.
//!
//! Source: sections 5.2 to 5.5 of `Encryption.md` of the Parquet format.

use bytes::Bytes;
use parquet::{
    errors::{ParquetError, Result},
    file::metadata::{ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader},
};

use super::thrift_tree::{ThriftStruct, ThriftValue};
use crate::parquet::{
    decryption::Decryption,
    decryptor::{FileDecryptor, PageCipher},
};

/// Field numbers of the algorithms in their union.
const AES_GCM_V1: i64 = 1;
const AES_GCM_CTR_V1: i64 = 2;
/// Field numbers within either algorithm.
const AAD_PREFIX: i64 = 1;
const AAD_FILE_UNIQUE: i64 = 2;
const SUPPLY_AAD_PREFIX: i64 = 3;
/// Field numbers of the algorithm: in the metadata before an encrypted footer, and in a plaintext footer.
const ALGORITHM_OF_FILE: i64 = 1;
const ALGORITHM_OF_FOOTER: i64 = 8;

/// Footer of an encrypted file, in plaintext except for the metadata of columns with their own keys.
pub(crate) struct DecryptedFooter {
    /// A file of `AES_GCM_V1` without row groups or signature: the algorithm of pages does not matter for the footer,
    /// and the parquet crate supports only this one.
    file: Bytes,
    decryptor: FileDecryptor,
}

impl DecryptedFooter {
    /// Decrypts a footer, or checks its signature; `None` if the file is not encrypted. `footer` has all bytes
    /// before the length of the footer.
    pub(crate) fn open(footer: &[u8], is_encrypted: bool, keys: &Decryption) -> Result<Option<Self>> {
        if is_encrypted {
            let missing = || wrong("the crypto metadata of the file cannot be parsed");
            let (crypto, module) = ThriftStruct::read_prefix(footer).ok_or_else(missing)?;
            let decryptor = decryptor_of(&crypto, ALGORITHM_OF_FILE, keys)?.ok_or_else(missing)?;
            let plain = decryptor.footer(module)?;
            let metadata = ThriftStruct::read(&plain).ok_or_else(|| wrong("the footer cannot be parsed"))?;
            let file = as_gcm_file(metadata, decryptor.file_aad());
            return Ok(Some(Self { file, decryptor }));
        }

        let Some((metadata, signature)) = ThriftStruct::read_prefix(footer) else { return Ok(None) };
        let Some(decryptor) = decryptor_of(&metadata, ALGORITHM_OF_FOOTER, keys)? else { return Ok(None) };
        let signed = footer.strip_suffix(signature).unwrap_or(footer);
        decryptor.verify_footer(signed, signature)?;
        let file = as_gcm_file(metadata, decryptor.file_aad());

        Ok(Some(Self { file, decryptor }))
    }

    /// Decodes the footer. Metadata of columns whose keys are missing stays encrypted.
    pub(crate) fn decode(
        &self,
        keys: &Decryption,
        options: ParquetMetaDataOptions,
    ) -> Result<ParquetMetaData> {
        let reader = ParquetMetaDataReader::new().with_metadata_options(Some(options));
        reader.with_decryption_properties(Some(keys.properties()?)).parse_and_finish(&self.file)
    }

    /// Returns the decryptor of the file's pages.
    pub(crate) fn into_decryptor(self) -> FileDecryptor {
        self.decryptor
    }
}

/// Returns the decryptor of a file whose algorithm is in `field`; `None` if there is none.
fn decryptor_of(metadata: &ThriftStruct<'_>, field: i64, keys: &Decryption) -> Result<Option<FileDecryptor>> {
    let Some(algorithm) = metadata.inner(field) else { return Ok(None) };
    let known = [(AES_GCM_V1, PageCipher::Gcm), (AES_GCM_CTR_V1, PageCipher::Ctr)];
    let known = known.into_iter().find_map(|(field, pages)| Some((algorithm.inner(field)?, pages)));
    let (algorithm, pages) =
        known.ok_or_else(|| ParquetError::NYI("an unknown encryption algorithm".to_owned()))?;

    let must_supply = matches!(algorithm.get(SUPPLY_AAD_PREFIX), Some(ThriftValue::Bool(true)));
    if must_supply && keys.aad_prefix().is_none() {
        return Err(wrong("the prefix of the AAD is not in the file, and none was given"));
    }
    let unique = algorithm.binary(AAD_FILE_UNIQUE);
    let unique = unique.ok_or_else(|| wrong("the crypto metadata of the file has no AAD"))?;
    let prefix = algorithm.binary(AAD_PREFIX).unwrap_or_default();

    Ok(Some(FileDecryptor::new(keys, pages, prefix, unique)))
}

/// Returns a file of `AES_GCM_V1` that has only a footer, in plaintext.
fn as_gcm_file<'a>(mut metadata: ThriftStruct<'a>, file_aad: &'a [u8]) -> Bytes {
    let mut gcm = ThriftStruct::default();
    gcm.set(AAD_FILE_UNIQUE, ThriftValue::Binary(file_aad));
    let mut algorithm = ThriftStruct::default();
    algorithm.set(AES_GCM_V1, ThriftValue::Struct(gcm));
    metadata.set(ALGORITHM_OF_FOOTER, ThriftValue::Struct(algorithm));

    let footer = metadata.to_bytes();
    let length = (footer.len() as u32).to_le_bytes();
    Bytes::from([&footer[..], &length, b"PAR1"].concat())
}

fn wrong(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}
