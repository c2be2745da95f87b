//! Extracts the metadata of cached objects from an origin's listing.

use chrono::{DateTime, Utc};
use stylobate_storage::ListedObject;

use super::{
    names::BucketNames,
    xml::{self, XmlElementFinder, XmlElementMatch, plain_text},
};

/// Reads a listing.
pub(super) struct OriginListingReader<'a> {
    pub(super) names: &'a BucketNames<'a>,
    /// True if the client requested URL-encoded keys.
    pub(super) may_be_encoded: bool,
}

impl OriginListingReader<'_> {
    /// Returns the known objects of the listing, by their client-side paths. Empty if the listing cannot be parsed.
    pub(super) fn objects(&self, xml: &str, is_known: impl Fn(&str) -> bool) -> Vec<ListedObject> {
        let is_encoded = self.may_be_encoded && xml.contains("<EncodingType>url</EncodingType>");
        match self.plain_objects(xml, is_encoded, &is_known) {
            Some(listed) => listed,
            None => self.walked_objects(xml, is_encoded, &is_known),
        }
    }

    /// Finds objects by text search. Reads only the key of an unknown object, so that a thousand objects take
    /// microseconds. Returns `None` if the listing needs a real parser.
    fn plain_objects(
        &self,
        xml: &str,
        is_encoded: bool,
        is_known: &impl Fn(&str) -> bool,
    ) -> Option<Vec<ListedObject>> {
        if !xml::is_plain(xml) {
            return None;
        }
        let contents = XmlElementFinder::of("<Contents>", "</Contents>");
        let key = XmlElementFinder::of("<Key>", "</Key>");
        let others = [
            ("Size", XmlElementFinder::of("<Size>", "</Size>")),
            ("ETag", XmlElementFinder::of("<ETag>", "</ETag>")),
            ("LastModified", XmlElementFinder::of("<LastModified>", "</LastModified>")),
        ];

        // The text between matches may hide an element with attributes, with a namespace, or without an end.
        let hides_one = |between: &str| between.contains("Contents");
        let mut listed = Vec::new();
        let mut rest = xml;
        while let Some(XmlElementMatch { before, content: object, after }) = contents.first(rest) {
            if hides_one(before) {
                return None;
            }
            let path = self.path(&plain_text(key.first(object)?.content).ok()?, is_encoded);
            if is_known(&path) {
                let mut entry = ListedEntry { path: Some(path), ..ListedEntry::default() };
                for (name, element) in &others {
                    entry.set(name, &plain_text(element.first(object)?.content).ok()?);
                }
                listed.extend(entry.listed());
            }
            rest = after;
        }

        (!hides_one(rest)).then_some(listed)
    }

    fn walked_objects(
        &self,
        xml: &str,
        is_encoded: bool,
        is_known: &impl Fn(&str) -> bool,
    ) -> Vec<ListedObject> {
        let mut listed: Vec<ListedObject> = Vec::new();
        let mut entry = ListedEntry::default();
        let read = xml::walk(xml, |path, text| {
            match (path, text) {
                ([_, "Contents", "Key"], Some(key)) => entry.path = Some(self.path(key, is_encoded)),
                ([_, "Contents", name], Some(text)) => entry.set(name, text),
                ([_, "Contents"], None) => {
                    let listed_here = std::mem::take(&mut entry).listed();
                    listed.extend(listed_here.filter(|object| is_known(&object.path)));
                }
                _ => {}
            }
            None
        });

        if read.is_err() {
            listed.clear();
        }
        listed
    }

    /// Returns the client-side path of the object with this key.
    fn path(&self, key: &str, is_encoded: bool) -> String {
        let key = if is_encoded {
            let spaced = key.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        } else {
            key.to_owned()
        };
        match key.strip_prefix(self.names.prefix) {
            Some(short) => short.to_owned(),
            None => key,
        }
    }
}

/// An object in a listing.
#[derive(Default)]
struct ListedEntry {
    path: Option<String>,
    size: Option<u64>,
    e_tag: Option<String>,
    last_modified: Option<DateTime<Utc>>,
}

impl ListedEntry {
    fn set(&mut self, name: &str, text: &str) {
        match name {
            "Size" => self.size = text.parse().ok(),
            "ETag" => self.e_tag = Some(text.to_owned()),
            "LastModified" => {
                let time = DateTime::parse_from_rfc3339(text).ok();
                self.last_modified = time.map(|time| time.with_timezone(&Utc));
            }
            _ => {}
        }
    }

    fn listed(self) -> Option<ListedObject> {
        let Self { path, size, e_tag, last_modified } = self;
        Some(ListedObject { path: path?, size: size?, version: None, e_tag, last_modified })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: BucketNames<'static> = BucketNames { bucket: "lake", origin_bucket: "origin", prefix: "p/" };

    fn object(key: &str, size: u64) -> String {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
            <ETag>&quot;e&amp;{size}&quot;</ETag><Size>{size}</Size><Owner><ID>Contents</ID></Owner></Contents>"
        )
    }

    /// Returns path, size and ETag of the objects found in a listing that contains the XML `objects`.
    fn found(objects: &str, is_encoded: bool) -> Vec<(String, u64, String)> {
        let encoding = if is_encoded { "<EncodingType>url</EncodingType>" } else { "" };
        let xml = format!(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"u\"><Name>origin</Name>{encoding}{objects}\
            <CommonPrefixes><Prefix>p/x/</Prefix></CommonPrefixes></ListBucketResult>"
        );
        let listing = OriginListingReader { names: &NAMES, may_be_encoded: true };
        let listed = listing.objects(&xml, |path| !path.contains("unknown"));
        assert!(listed.iter().all(|object| object.last_modified.is_some()));

        listed
            .into_iter()
            .map(|object| (object.path, object.size, object.e_tag.unwrap_or_default()))
            .collect()
    }

    fn expected(objects: &[(&str, u64)]) -> Vec<(String, u64, String)> {
        objects.iter().map(|(path, size)| ((*path).to_owned(), *size, format!("\"e&{size}\""))).collect()
    }

    #[test]
    fn known_objects_are_found_by_the_names_of_clients() {
        let objects = [object("p/a", 1), object("p/unknown", 2), object("p/b&lt;c", 3), object("q", 4)];
        assert_eq!(found(&objects.concat(), false), expected(&[("a", 1), ("b<c", 3), ("q", 4)]));
        assert_eq!(found(&object("p%2Fa+b%2B", 5), true), expected(&[("a b+", 5)]));
        assert_eq!(found("", false), []);
    }

    #[test]
    fn however_it_is_written_the_same_is_found() {
        let plain = [object("p/a", 1), object("p/b", 2)].concat();
        let written = [
            plain.replace("<Contents>", "<Contents >"),
            plain.replacen("<Contents>", "<Contents a=\"b\">", 1),
            plain.replace("<Contents>", "<s3:Contents>").replace("</Contents>", "</s3:Contents>"),
            plain.replace("p/a", "<![CDATA[p/a]]>"),
            plain.replace("p/a", "p/&#97;"),
            format!("<!-- <Contents><Key>p/c</Key></Contents> -->{plain}"),
            plain.replacen("<Key>", "<Key x=\"y\">", 1),
        ];

        for xml in written {
            assert_eq!(found(&xml, false), expected(&[("a", 1), ("b", 2)]), "{xml}");
        }
    }

    #[test]
    fn nothing_is_found_in_what_breaks_off() {
        let plain = object("p/a", 1);
        for broken in
            [plain.replace("</Contents>", ""), plain.replace("</Key>", ""), format!("{plain}<Contents>")]
        {
            assert_eq!(found(&broken, false), [], "{broken}");
        }
    }
}
