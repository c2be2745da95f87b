//! Reads and rewrites the text of elements in S3's XML, and keeps everything else byte for byte.

use std::borrow::Cow;

use memchr::memmem;
use quick_xml::{
    Reader,
    escape::{escape, unescape},
    events::Event,
};

/// Malformed XML from a client or an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the XML cannot be read")]
pub(super) struct MalformedXml;

/// Maximum nesting depth, above that of any of S3's documents.
const MAX_DEPTH: usize = 16;

/// Calls `visit` with the text of each leaf element, and with `None` at the end of each element that has children,
/// along with the names of its ancestors and its own, outermost first. If `visit` returns a text, it replaces the
/// original one in the result.
pub(super) fn walk(
    xml: &str,
    mut visit: impl FnMut(&[&str], Option<&str>) -> Option<String>,
) -> Result<String, MalformedXml> {
    let mut reader = Reader::from_str(xml);
    let mut path: Vec<&str> = Vec::new();
    let mut output = String::with_capacity(xml.len());
    // Start of the innermost element's text, until the element turns out to have children.
    let mut text_from: Option<usize> = None;
    let mut copied = 0;

    loop {
        let before = reader.buffer_position() as usize;
        match reader.read_event().map_err(|_| MalformedXml)? {
            Event::Start(_) if path.len() == MAX_DEPTH => return Err(MalformedXml),
            Event::Start(_) => {
                path.push(local_name(xml.get(before..).ok_or(MalformedXml)?));
                text_from = Some(reader.buffer_position() as usize);
            }
            Event::Empty(_) => text_from = None,
            Event::End(_) => {
                let Some(from) = text_from.take() else {
                    visit(&path, None);
                    path.pop();
                    continue;
                };
                let text = plain_text(xml.get(from..before).ok_or(MalformedXml)?)?;
                if let Some(replaced) = visit(&path, Some(&text)) {
                    output.push_str(xml.get(copied..from).ok_or(MalformedXml)?);
                    output.push_str(&escaped(&replaced));
                    copied = before;
                }
                path.pop();
            }
            Event::Eof if path.is_empty() => break,
            Event::Eof => return Err(MalformedXml),
            _ => {}
        }
    }
    output.push_str(xml.get(copied..).ok_or(MalformedXml)?);

    Ok(output)
}

/// Returns true if the document contains only tags and text, so that every `<` begins a tag and elements can be found
/// by text search.
pub(super) fn is_plain(xml: &str) -> bool {
    memmem::find(xml.as_bytes(), b"<!").is_none()
}

/// Finds elements of one name in [plain](is_plain) XML, if their tags have neither a namespace nor attributes.
pub(super) struct XmlElementFinder {
    begin: memmem::Finder<'static>,
    end: memmem::Finder<'static>,
}

impl XmlElementFinder {
    /// Creates a finder for these tags, such as `<Key>` and `</Key>`.
    pub(super) fn of(begin: &'static str, end: &'static str) -> Self {
        Self { begin: memmem::Finder::new(begin), end: memmem::Finder::new(end) }
    }

    /// Returns the first match.
    pub(super) fn first<'x>(&self, xml: &'x str) -> Option<XmlElementMatch<'x>> {
        let begin = self.begin.find(xml.as_bytes())?;
        let rest = xml.get(begin + self.begin.needle().len()..)?;
        let end = self.end.find(rest.as_bytes())?;
        let after = rest.get(end + self.end.needle().len()..)?;
        Some(XmlElementMatch { before: xml.get(..begin)?, content: rest.get(..end)?, after })
    }
}

/// A matched element and the text around it.
pub(super) struct XmlElementMatch<'x> {
    pub(super) before: &'x str,
    pub(super) content: &'x str,
    pub(super) after: &'x str,
}

/// Replaces the texts of leaf elements.
pub(super) fn rewrite(
    xml: &str,
    mut visit: impl FnMut(&[&str], &str) -> Option<String>,
) -> Result<String, MalformedXml> {
    walk(xml, |path, text| visit(path, text?))
}

/// Calls `visit` with the text of each leaf element.
pub(super) fn visit(xml: &str, mut visit: impl FnMut(&[&str], &str)) -> Result<(), MalformedXml> {
    rewrite(xml, |path, text| {
        visit(path, text);
        None
    })?;
    Ok(())
}

/// Checks that every parser would read the same keys from a deletion request: it may contain only text and the
/// elements that S3 defines, each in its place.
pub(super) fn check_deletion(xml: &str) -> Result<(), MalformedXml> {
    let mut reader = Reader::from_str(xml);
    let mut path: Vec<Vec<u8>> = Vec::new();
    let mut keys = 0_usize;
    let mut objects = 0_usize;
    loop {
        match reader.read_event().map_err(|_| MalformedXml)? {
            Event::Start(start) => {
                let name = start.local_name().as_ref().to_vec();
                let belongs = match path.len() {
                    0 => name == b"Delete",
                    1 => name == b"Object" || name == b"Quiet",
                    2 => {
                        path.get(1).is_some_and(|parent| parent == b"Object")
                            && [&b"Key"[..], b"VersionId", b"ETag", b"LastModifiedTime", b"Size"]
                                .contains(&name.as_slice())
                    }
                    _ => false,
                };

                if !belongs {
                    return Err(MalformedXml);
                }
                objects += usize::from(name == b"Object");
                keys += usize::from(name == b"Key");
                // No object has had more than one key so far.
                if keys > objects {
                    return Err(MalformedXml);
                }
                path.push(name);
            }
            Event::End(_) => {
                let ended = path.pop();
                if ended.is_some_and(|name| name == b"Object") && keys != objects {
                    return Err(MalformedXml);
                }
            }
            Event::Text(_) | Event::GeneralRef(_) | Event::Decl(_) => {}
            Event::Eof if path.is_empty() && keys > 0 => return Ok(()),
            _ => return Err(MalformedXml),
        }
    }
}

/// Escapes the text between tags. A carriage return is escaped too, since a parser would read it as a line feed.
fn escaped(text: &str) -> String {
    escape(text).replace('\r', "&#13;")
}

/// Returns the name in the tag at the beginning of the text, without its namespace prefix.
fn local_name(tag: &str) -> &str {
    let tag = tag.strip_prefix('<').unwrap_or(tag);
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).unwrap_or(tag.len());
    let name = tag.get(..end).unwrap_or(tag);
    name.split_once(':').map_or(name, |(_, name)| name)
}

/// Unescapes the text between two tags; a CDATA section is taken verbatim.
pub(super) fn plain_text(raw: &str) -> Result<Cow<'_, str>, MalformedXml> {
    if !raw.contains(['&', '<']) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut text = String::new();
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once("<![CDATA[") {
        let (data, remainder) = after.split_once("]]>").ok_or(MalformedXml)?;
        text.push_str(&unescape(before).map_err(|_| MalformedXml)?);
        text.push_str(data);
        rest = remainder;
    }
    text.push_str(&unescape(rest).map_err(|_| MalformedXml)?);

    Ok(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_replaced_changes() {
        let xml =
            "<?xml version='1.0'?>\n<R xmlns=\"u\"> <Key>a&amp;b</Key><E/><K2> x </K2>\n<Key></Key></R>";
        let replace = |path: &[&str], text: &str| {
            (*path.last().unwrap() == "Key" && !text.is_empty()).then(|| format!("<{text}>"))
        };
        let rewritten = rewrite(xml, replace).unwrap();
        assert_eq!(rewritten, xml.replace("a&amp;b", "&lt;a&amp;b&gt;"));
        assert_eq!(rewrite(xml, |_, _| None).unwrap(), xml);
    }

    #[test]
    fn texts_come_with_the_elements_around_them() {
        let mut seen = Vec::new();
        visit("<A><B><C>1&#x41;</C></B><C><![CDATA[<2>]]></C></A>", |path, text| {
            seen.push((path.join("/"), text.to_owned()));
        })
        .unwrap();
        assert_eq!(seen, [("A/B/C".to_owned(), "1A".to_owned()), ("A/C".to_owned(), "<2>".to_owned())]);
    }

    #[test]
    fn a_list_of_keys_has_one_reading() {
        let one =
            "<Delete><Object><Key>a&amp;b</Key><VersionId>1</VersionId></Object><Quiet>true</Quiet></Delete>";
        assert!(check_deletion(one).is_ok());
        assert!(check_deletion(&format!("<?xml version=\"1.0\"?>\n{one}\n")).is_ok());
        for hidden in [
            "<Delete><Object><Key>a<b></b></Key></Object></Delete>",
            "<Delete><Object><Key>a<!--c--></Key></Object></Delete>",
            "<Delete><Object><Key><![CDATA[a]]></Key></Object></Delete>",
            "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
            "<Delete><Object></Object><Object><Key>a</Key></Object></Delete>",
            "<Delete><Key>a</Key></Delete>",
            "<Other><Object><Key>a</Key></Object></Other>",
            "<Delete></Delete>",
            "<!DOCTYPE x [<!ENTITY e \"b\">]><Delete><Object><Key>&e;</Key></Object></Delete>",
        ] {
            assert!(check_deletion(hidden).is_err(), "{hidden}");
        }
    }

    #[test]
    fn a_carriage_return_stays_one() {
        let rewritten = rewrite("<A>x</A>", |_, _| Some("a\rb".to_owned())).unwrap();
        assert_eq!(rewritten, "<A>a&#13;b</A>");
    }

    #[test]
    fn what_is_no_xml_is_an_error() {
        let deep = format!("{}{}", "<a>".repeat(17), "</a>".repeat(17));
        for xml in ["<A>", "<A></B>", "<A>&nope;</A>", "<A><", &deep] {
            assert!(visit(xml, |_, _| {}).is_err(), "{xml}");
        }
    }
}
