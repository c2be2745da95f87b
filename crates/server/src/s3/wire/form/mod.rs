//! The fields of an HTML form that uploads an object, out of a multipart body.

pub(crate) mod fields;
pub(crate) mod multipart;
