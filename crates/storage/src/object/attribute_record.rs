//! Attributes of an object as text, to be stored with it or sent to a peer.

use std::collections::BTreeMap;

use object_store::{Attribute, AttributeValue, Attributes};

const USER_METADATA: &str = "metadata:";

/// Returns the attributes by name. Attributes unknown to this crate are left out.
pub(crate) fn to_record(attributes: &Attributes) -> BTreeMap<String, String> {
    let name = |attribute: &Attribute| match attribute {
        Attribute::ContentDisposition => Some("content-disposition".to_owned()),
        Attribute::ContentEncoding => Some("content-encoding".to_owned()),
        Attribute::ContentLanguage => Some("content-language".to_owned()),
        Attribute::ContentType => Some("content-type".to_owned()),
        Attribute::CacheControl => Some("cache-control".to_owned()),
        Attribute::StorageClass => Some("storage-class".to_owned()),
        Attribute::Metadata(name) => Some(format!("{USER_METADATA}{name}")),
        _ => None,
    };
    attributes.iter().filter_map(|(key, value)| Some((name(key)?, value.to_string()))).collect()
}

/// Returns the attributes with these names.
pub(crate) fn from_record(record: BTreeMap<String, String>) -> Attributes {
    let attribute = |name: &str| match name {
        "content-disposition" => Some(Attribute::ContentDisposition),
        "content-encoding" => Some(Attribute::ContentEncoding),
        "content-language" => Some(Attribute::ContentLanguage),
        "content-type" => Some(Attribute::ContentType),
        "cache-control" => Some(Attribute::CacheControl),
        "storage-class" => Some(Attribute::StorageClass),
        other => other.strip_prefix(USER_METADATA).map(|name| Attribute::Metadata(name.to_owned().into())),
    };
    let known = |(name, value): (String, String)| Some((attribute(&name)?, AttributeValue::from(value)));
    record.into_iter().filter_map(known).collect()
}
