//! Determines from the footer of an ORC file whether it was written as part of a data set.

use bytes::Bytes;
use orc_rust::proto::{Footer, PostScript};
use prost::Message;

use super::footer::SOFTWARE;
use crate::{
    file::dataset_mark::{DATASET_KEY, TailOrigin},
    orc::{
        compression::OrcCodec,
        stream::{OrcStreamReader, max_message_bytes},
        tail::is_orc_tail,
    },
};

/// Returns the writer that is named in the last bytes of a file. Bytes that are not the end of an ORC file are foreign.
pub(crate) fn origin(end: &Bytes) -> TailOrigin {
    parse(end).unwrap_or(TailOrigin::Foreign)
}

fn parse(end: &Bytes) -> Option<TailOrigin> {
    if !is_orc_tail(end) {
        return None;
    }

    let (&length, before) = end.split_last()?;
    let postscript_start = before.len().checked_sub(usize::from(length))?;
    let postscript = PostScript::decode(before.get(postscript_start..)?).ok()?;
    let footer_length = usize::try_from(postscript.footer_length()).ok()?;
    let Some(footer_start) = postscript_start.checked_sub(footer_length) else {
        return Some(TailOrigin::Needs(postscript.footer_length() + u64::from(length) + 1));
    };

    let codec = OrcCodec::of(&postscript).ok()?;
    let footer = OrcStreamReader::new(end.slice(footer_start..postscript_start), codec);
    let footer = Footer::decode(footer.read_all(max_message_bytes(footer_length)).ok()?).ok()?;
    let is_own = footer.software_version.as_deref().is_some_and(|writer| writer.starts_with(SOFTWARE));
    let mark = footer.metadata.iter().find(|item| item.name.as_deref() == Some(DATASET_KEY));

    Some(TailOrigin::of(is_own, mark.and_then(|item| item.value.as_deref())))
}
