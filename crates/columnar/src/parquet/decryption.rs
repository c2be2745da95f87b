//! Keys of encrypted Parquet files.

use std::{fmt, sync::Arc};

use parquet::{encryption::decrypt::FileDecryptionProperties, errors::Result as ParquetResult};

/// Keys of Parquet files with modular encryption (`AES_GCM_V1` and `AES_GCM_CTR_V1`), of 16 or 32 bytes each.
///
/// Pages of `AES_GCM_CTR_V1` are not authenticated: if they were changed, their values may be wrong without an error.
///
/// Unencrypted files of the same scan are read as usual. Decrypted data is never cached: only a scan that was given the
/// keys sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Decryption {
    footer_key: Vec<u8>,
    column_keys: Vec<(String, Vec<u8>)>,
    aad_prefix: Option<Vec<u8>>,
}

impl Decryption {
    /// Decrypts footers, and columns that are encrypted with the footer's key.
    pub fn new(footer_key: impl Into<Vec<u8>>) -> Self {
        Self { footer_key: footer_key.into(), column_keys: Vec::new(), aad_prefix: None }
    }

    /// Decrypts a column that has its own key; its name is a path with dots. Columns without a key cannot be read;
    /// others can.
    pub fn with_column_key(mut self, column: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        self.column_keys.push((column.into(), key.into()));
        self
    }

    /// Sets the prefix of the additional authenticated data, for files that do not store it. Default: none.
    pub fn with_aad_prefix(mut self, aad_prefix: impl Into<Vec<u8>>) -> Self {
        self.aad_prefix = Some(aad_prefix.into());
        self
    }

    pub(super) fn footer_key(&self) -> &[u8] {
        &self.footer_key
    }

    pub(super) fn column_key(&self, column: &str) -> Option<&[u8]> {
        let key = self.column_keys.iter().rev().find(|(known, _)| known == column);
        key.map(|(_, key)| &key[..])
    }

    pub(super) fn aad_prefix(&self) -> Option<&[u8]> {
        self.aad_prefix.as_deref()
    }

    /// Returns the keys in the form of the parquet crate, for a plaintext footer that has no signature and states all
    /// of the additional authenticated data.
    pub(super) fn properties(&self) -> ParquetResult<Arc<FileDecryptionProperties>> {
        let mut properties = FileDecryptionProperties::builder(self.footer_key.clone());
        for (column, key) in &self.column_keys {
            properties = properties.with_column_key(column, key.clone());
        }
        properties.disable_footer_signature_verification().build()
    }
}

impl fmt::Debug for Decryption {
    /// Hides the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decryption").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let keys = Decryption::new(*b"0123456789abcdef").with_column_key("a.b", *b"fedcba9876543210");
        assert_eq!(format!("{keys:?}"), "Decryption { .. }");
    }
}
