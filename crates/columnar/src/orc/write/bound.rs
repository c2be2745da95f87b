//! Minimum and maximum strings in statistics.

/// Maximum bytes of a bound; longer ones are truncated.
const MAX_BYTES: usize = 1024;

/// Bound of strings, truncated if it is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrcStringBound {
    pub(super) text: Vec<u8>,
    pub(super) is_cut: bool,
}

impl OrcStringBound {
    pub(super) fn lower(text: &[u8]) -> Self {
        match cut(text) {
            None => Self { text: text.to_vec(), is_cut: false },
            Some(start) => Self { text: start.to_vec(), is_cut: true },
        }
    }

    /// Returns an upper bound: the last remaining character of a truncated string is incremented.
    pub(super) fn upper(text: &[u8]) -> Self {
        let start = cut(text).and_then(|start| std::str::from_utf8(start).ok());
        let Some(start) = start else { return Self { text: text.to_vec(), is_cut: false } };
        let mut kept = start.to_owned();

        while let Some(last) = kept.pop() {
            let next = (u32::from(last) + 1..).take(0x801).find_map(char::from_u32);
            if let Some(next) = next {
                kept.push(next);
                return Self { text: kept.into_bytes(), is_cut: true };
            }
        }

        Self { text: text.to_vec(), is_cut: false }
    }
}

/// Returns the characters that fit, unless all do.
fn cut(text: &[u8]) -> Option<&[u8]> {
    let prefix = text.get(..MAX_BYTES).filter(|_| text.len() > MAX_BYTES)?;
    match std::str::from_utf8(prefix) {
        Ok(whole) => Some(whole.as_bytes()),
        Err(error) => prefix.get(..error.valid_up_to()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_still_bound() {
        let long = "ä".repeat(600);
        let lower = OrcStringBound::lower(long.as_bytes());
        let upper = OrcStringBound::upper(long.as_bytes());
        assert!(lower.is_cut && upper.is_cut);
        assert!(*lower.text <= *long.as_bytes() && *upper.text > *long.as_bytes());
        assert!(std::str::from_utf8(&upper.text).unwrap().ends_with('å'));
        let last = format!("{}x", "\u{10ffff}".repeat(300));

        assert_eq!(
            OrcStringBound::upper(last.as_bytes()),
            OrcStringBound { text: last.clone().into_bytes(), is_cut: false }
        );
        let before_surrogates = "\u{d7ff}".repeat(400);
        assert!(*OrcStringBound::upper(before_surrogates.as_bytes()).text > *before_surrogates.as_bytes());
        assert!(!OrcStringBound::lower(&[b'x'; MAX_BYTES]).is_cut);
    }
}
