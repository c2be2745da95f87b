//! Reads and rewrites the text of elements in XML of S3, and leaves everything else as it is, byte for byte.

use quick_xml::{
    Reader,
    escape::{escape, unescape},
    events::Event,
};

/// XML that cannot be read, of a client or of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the XML cannot be read")]
pub(super) struct MalformedXml;

/// Shows the text of each element without children to `visit`, with the names of the elements around it, outermost
/// first. Where `visit` returns another text, that takes its place in what is returned.
pub(super) fn rewrite(
    xml: &str,
    mut visit: impl FnMut(&[String], &str) -> Option<String>,
) -> Result<String, MalformedXml> {
    let mut reader = Reader::from_str(xml);
    let mut path: Vec<String> = Vec::new();
    let mut output = String::with_capacity(xml.len());
    // Where the text of the innermost element begins, until it turns out to have children.
    let mut text_from: Option<usize> = None;
    let mut copied = 0;
    loop {
        let before = reader.buffer_position() as usize;
        match reader.read_event().map_err(|_| MalformedXml)? {
            Event::Start(start) => {
                path.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                text_from = Some(reader.buffer_position() as usize);
            }
            Event::End(_) => {
                if let Some(from) = text_from.take() {
                    let raw = xml.get(from..before).ok_or(MalformedXml)?;
                    let text = plain_text(raw)?;
                    if let Some(replaced) = visit(&path, &text) {
                        output.push_str(xml.get(copied..from).ok_or(MalformedXml)?);
                        output.push_str(&escape(&replaced));
                        copied = before;
                    }
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

/// Shows the text of each element without children.
pub(super) fn visit(xml: &str, mut visit: impl FnMut(&[String], &str)) -> Result<(), MalformedXml> {
    rewrite(xml, |path, text| {
        visit(path, text);
        None
    })?;
    Ok(())
}

/// The text between two tags, without escapes; a section of character data is taken as it is.
fn plain_text(raw: &str) -> Result<String, MalformedXml> {
    let mut text = String::new();
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once("<![CDATA[") {
        let (data, remainder) = after.split_once("]]>").ok_or(MalformedXml)?;
        text.push_str(&unescape(before).map_err(|_| MalformedXml)?);
        text.push_str(data);
        rest = remainder;
    }
    text.push_str(&unescape(rest).map_err(|_| MalformedXml)?);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_replaced_changes() {
        let xml =
            "<?xml version='1.0'?>\n<R xmlns=\"u\"> <Key>a&amp;b</Key><E/><K2> x </K2>\n<Key></Key></R>";
        let replace = |path: &[String], text: &str| {
            (path.last().unwrap() == "Key" && !text.is_empty()).then(|| format!("<{text}>"))
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
    fn what_is_no_xml_is_an_error() {
        for xml in ["<A>", "<A></B>", "<A>&nope;</A>", "<A><"] {
            assert!(visit(xml, |_, _| {}).is_err(), "{xml}");
        }
    }
}
