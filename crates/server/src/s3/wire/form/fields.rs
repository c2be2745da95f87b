//! Form fields that precede the file, with case-insensitive names that occur once each.

use s3s::{S3Error, S3Result, s3_error};

use crate::s3::wire::{
    attributes::METADATA,
    error::{ErrorDetail, detailed},
};

/// Placeholder for the file name in the value of a field.
const FILE_NAME: &str = "${filename}";

/// Maximum length of a file name in bytes, equal to that of a key.
const MAX_FILE_NAME: usize = 1024;

/// Maximum length of a field name in bytes.
const MAX_NAME: usize = 256;

/// Fields that sign a form and are not about the object.
const SIGNING: [&str; 8] = [
    "awsaccesskeyid",
    "policy",
    "signature",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-signature",
];

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::s3) struct FormField {
    /// The name as spelled in the form.
    pub(in crate::s3) name: String,
    pub(in crate::s3) value: String,
}

impl FormField {
    /// Returns the name in lower case, which identifies the field.
    pub(in crate::s3) fn lower_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// Returns true if the field is about the object, its upload or the answer.
    pub(in crate::s3) fn is_of_object(&self) -> bool {
        let name = self.lower_name();
        !SIGNING.contains(&name.as_str()) && !is_ignored(&name)
    }
}

/// Returns true if S3 ignores fields of this name.
pub(crate) fn is_ignored(name: &str) -> bool {
    name.starts_with("x-ignore-")
}

/// Fields of a form, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::s3) struct FormFields(Vec<FormField>);

impl FormFields {
    /// Adds a field. Duplicates are refused, except for user metadata, whose values are joined as in S3.
    pub(crate) fn push(&mut self, name: String, value: String) -> S3Result<()> {
        // Names are written verbatim into the form that is sent to an origin.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            return Err(s3_error!(MalformedPOSTRequest, "the name of a field of the form is not valid"));
        }
        let lower_name = name.to_ascii_lowercase();
        match self.0.iter_mut().find(|field| field.name.eq_ignore_ascii_case(&name)) {
            Some(found) if lower_name.starts_with(METADATA) => {
                found.value.push(',');
                found.value.push_str(&value);
            }
            Some(_) if is_ignored(&lower_name) => {}
            Some(_) => {
                return Err(argument(&name, &value, format!("POST takes the field '{name}' once only.")));
            }
            None => self.0.push(FormField { name, value }),
        }

        Ok(())
    }

    /// Returns the value of a field.
    pub(in crate::s3) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value.as_str())
    }

    /// Returns the value of a mandatory field.
    pub(crate) fn required(&self, name: &str) -> S3Result<&str> {
        self.get(name).ok_or_else(|| {
            let message = format!(
                "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
            );
            argument(name, "", message)
        })
    }

    pub(in crate::s3) fn iter(&self) -> impl Iterator<Item = &FormField> {
        self.0.iter()
    }

    /// Replaces `${filename}` by the file's name, as S3 does before it reads any value.
    pub(crate) fn expand(&mut self, file_name: &str) -> S3Result<()> {
        // An origin would substitute the name again, and store a different key than the one that was checked.
        if file_name.len() > MAX_FILE_NAME || file_name.contains(FILE_NAME) {
            return Err(argument("filename", file_name, "The file's name is not valid.".to_owned()));
        }
        for field in &mut self.0 {
            if field.value.contains(FILE_NAME) {
                field.value = field.value.replace(FILE_NAME, file_name);
            }
        }
        Ok(())
    }
}

/// Returns a 400 error: a field is missing or has an invalid value.
pub(crate) fn argument(name: &str, value: &str, message: String) -> S3Error {
    detailed(
        S3Error::with_message(s3s::S3ErrorCode::InvalidArgument, message),
        vec![
            ErrorDetail::new("ArgumentName", name.to_owned()),
            ErrorDetail::new("ArgumentValue", value.to_owned()),
        ],
    )
}

#[cfg(test)]
impl FormFields {
    /// Builds fields from pairs.
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let mut fields = Self::default();
        for (name, value) in pairs {
            fields.push((*name).to_owned(), (*value).to_owned()).unwrap();
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_in_any_case() {
        let fields = FormFields::of(&[("kEy", "a"), ("Content-Type", "text/x")]);
        assert_eq!((fields.get("key"), fields.get("content-type")), (Some("a"), Some("text/x")));
        assert_eq!(fields.required("policy").unwrap_err().code().as_str(), "InvalidArgument");
    }

    #[test]
    fn a_field_comes_once_but_for_metadata() {
        let mut fields = FormFields::of(&[("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2"), ("key", "k")]);
        assert_eq!(fields.get("x-amz-meta-a"), Some("1,2"));
        assert!(fields.push("Key".into(), "other".into()).is_err());
        for name in ["", "a b", "a\"", "a\r\n", "ключ"] {
            assert!(fields.push(name.into(), String::new()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_files_name_is_put_into_every_value() {
        let mut fields =
            FormFields::of(&[("key", "a/${filename}"), ("x-amz-meta-n", "${filename}${filename}")]);
        fields.expand("f").unwrap();
        assert_eq!((fields.get("key"), fields.get("x-amz-meta-n")), (Some("a/f"), Some("ff")));
        assert!(fields.expand("x${filename}").is_err());
    }
}
