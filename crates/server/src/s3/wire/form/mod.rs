//! Parsing of HTML forms that upload an object, from a multipart body.

pub(crate) mod fields;
pub(crate) mod multipart;
