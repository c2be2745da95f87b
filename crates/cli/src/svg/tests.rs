//! Checks that documents are well-formed XML, whatever texts they contain.

use super::*;

/// Checks that elements nest, attributes are quoted and text is escaped; returns all character data.
pub(crate) fn text_of(svg: &str) -> String {
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (characters, tag) = rest.split_at(start);
        assert!(!characters.contains('>'), "{characters}");

        for (at, _) in characters.match_indices('&') {
            let entity = characters[at + 1..].split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "apos"].contains(&entity), "{characters}");
        }

        text.push_str(characters);
        let end = tag.find('>').expect("each tag ends");
        let inner = &tag[1..end];
        let after = &tag[end + 1..];
        match inner.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                assert!(inner.matches('"').count().is_multiple_of(2), "{inner}");
                if !inner.ends_with('/') {
                    open.push(inner.split(' ').next().unwrap());
                }
            }
        }

        rest = after;
        if open.is_empty() {
            assert_eq!(rest.trim(), "", "nothing follows the root");
        }
    }

    assert!(open.is_empty(), "{open:?} is not closed");
    text
}

#[test]
fn texts_and_tooltips_are_escaped() {
    let mut svg = SvgDocument::new(100.0, 50.0, "<script>");
    svg.heading(1.0, "a & b", "</text>");
    let area = Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 };
    svg.rect(area, Paint::BLUE, "", &["first\n".to_owned(), "\"second'".to_owned()]);
    svg.explained_text(0.0, 0.0, TextAnchor::End, Paint::INK, "\u{1b}x", &["</title>".to_owned()]);
    let svg = svg.finish();
    let text = text_of(&svg);
    for expected in [
        "&lt;script&gt;",
        "a &amp; b",
        "&lt;/text&gt;",
        "first\u{fffd}\n&quot;second&apos;",
        "&lt;/title&gt;\u{fffd}x",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!svg.contains('\u{1b}'));
}

#[test]
fn every_colour_has_a_counterpart_for_dark_screens() {
    let svg = SvgDocument::new(1.0, 1.0, "").finish();
    for paint in Paint::ALL {
        assert!(svg.contains(&format!(".{}{{color:{}}}", paint.class, paint.dark)), "{paint}");
    }
}

#[test]
fn long_texts_are_shortened() {
    assert_eq!(shorten("abc", 3), "abc");
    assert_eq!(shorten("abcd", 3), "ab…");
    assert_eq!(shorten("äöüß", 2), "ä…");
}
