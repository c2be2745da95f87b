//! Truncated or corrupted files: an error or the right number of rows, and never a panic.

use bytes::Bytes;
use orc_rust::proto::{ColumnEncoding, Encryption, stream::Kind as Streams, r#type::Kind};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    codecs, open, read_all,
    sample::{SampleOrcFile, bits, ints, leaf, lengths, parent},
    simple_batch, write,
};
use crate::{
    Error,
    orc::{
        tail::{is_orc_tail, may_be_postscript},
        tests::kinds,
    },
};

fn files() -> Vec<Bytes> {
    let batches = [simple_batch(60), simple_batch(23)];
    codecs()
        .into_iter()
        .map(|codec| write(&batches, codec))
        .chain([kinds::nested(), kinds::others()])
        .collect()
}

#[test]
fn every_prefix_of_a_file_is_an_error_that_names_it() {
    for file in files() {
        let before = read_all(&file, 50).unwrap();
        assert!(before.num_rows() > 0);
        for len in 0..file.len() {
            let error = read_all(&file.slice(..len), 50).unwrap_err();
            let named = matches!(
                &error,
                Error::Corrupt { object, .. } | Error::Unsupported { object, .. } if object == "memory"
            );
            assert!(named, "{len} of {} bytes: {error}", file.len());
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_no_number_of_rows() {
    let mut random = StdRng::seed_from_u64(11);
    for file in files() {
        let rows = read_all(&file, 50).unwrap().num_rows();
        for _ in 0..500 {
            let mut damaged = file.to_vec();
            let bit = random.random_range(0..damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            match read_all(&damaged.into(), 50) {
                Ok(read) => assert_eq!(read.num_rows(), rows, "bit {bit}"),
                Err(Error::Corrupt { .. } | Error::Unsupported { .. } | Error::BatchTooLong { .. }) => (),
                Err(error) => panic!("bit {bit}: {error}"),
            }
        }
    }
}

#[test]
fn bytes_at_random_are_an_error() {
    let mut random = StdRng::seed_from_u64(12);
    for len in 0..2000 {
        let mut bytes = vec![0; len];
        random.fill(&mut bytes[..]);
        assert!(read_all(&bytes.into(), 50).is_err(), "{len} bytes");
    }
}

/// Returns a list column whose rows claim these lengths.
fn claiming(lengths_claimed: &[u64]) -> Bytes {
    let types = vec![parent(Kind::Struct, &[1], &["l"]), parent(Kind::List, &[2], &[]), leaf(Kind::Int)];
    let streams = vec![(1, Streams::Length, lengths(lengths_claimed)), (2, Streams::Data, ints(&[1, 2, 3]))];
    SampleOrcFile::new(types).stripe(lengths_claimed.len() as u64, streams).file()
}

#[test]
fn lengths_that_are_only_claimed_cost_no_memory() {
    assert_eq!(read_all(&claiming(&[1, 2]), 10).unwrap().num_rows(), 2);
    for claimed in
        [&[4][..], &[i32::MAX as u64], &[i32::MAX as u64, i32::MAX as u64], &[1 << 40], &[u64::MAX]]
    {
        let error = read_all(&claiming(claimed), 10).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. } | Error::BatchTooLong { .. }),
            "{claimed:?}: {error}"
        );
    }
    let strings = || vec![parent(Kind::Struct, &[1], &["s"]), leaf(Kind::String)];
    let direct = vec![(1, Streams::Length, lengths(&[2_000_000_000])), (1, Streams::Data, b"few".to_vec())];
    assert!(read_all(&SampleOrcFile::new(strings()).stripe(1, direct).file(), 10).is_err());
    let codes = vec![(1, Streams::Data, lengths(&[0])), (1, Streams::Length, lengths(&[1]))];
    let mut dictionary = SampleOrcFile::new(strings()).stripe(1, codes);
    dictionary.stripes[0].encodings[1] =
        ColumnEncoding { kind: Some(1), dictionary_size: Some(u32::MAX), ..Default::default() };
    assert!(read_all(&dictionary.file(), 10).is_err());
    let rows = SampleOrcFile::new(strings()).stripe(u64::MAX, vec![(1, Streams::Present, bits(&[true]))]);
    assert!(read_all(&rows.file(), 65_536).is_err());
}

#[test]
fn an_error_says_where_the_bytes_lie() {
    let Error::Corrupt { object, row_group, column, offset, .. } =
        read_all(&claiming(&[1, 9]), 10).unwrap_err()
    else {
        panic!("not corrupt")
    };
    // The magic bytes, then the run of two lengths, then the items.
    assert_eq!(
        (object.as_str(), row_group, column.as_deref(), offset),
        ("memory", Some(0), Some("l.item"), Some(6))
    );
}

#[test]
fn a_present_stream_that_ends_too_soon_is_not_taken_for_no_nulls() {
    let types = vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)];
    let streams = vec![(1, Streams::Present, bits(&[true])), (1, Streams::Data, ints(&[7; 20]))];
    assert!(read_all(&SampleOrcFile::new(types).stripe(20, streams).file(), 20).is_err());
}

#[test]
fn what_the_footer_says_must_fit_together() {
    let types = || vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)];
    let stripe = || vec![(1, Streams::Data, ints(&[1, 2]))];
    assert_eq!(read_all(&SampleOrcFile::new(types()).stripe(2, stripe()).file(), 10).unwrap().num_rows(), 2);

    let mut rows = SampleOrcFile::new(types()).stripe(2, stripe());
    rows.footer.number_of_rows = Some(3);
    assert!(open(&rows.file()).is_err());
    let mut encodings = SampleOrcFile::new(types()).stripe(2, stripe());
    encodings.stripes[0].encodings.pop();
    assert!(read_all(&encodings.file(), 10).is_err());
    let twice = SampleOrcFile::new(types()).stripe(2, [stripe(), stripe()].concat());
    assert!(read_all(&twice.file(), 10).is_err());
    let stranger = SampleOrcFile::new(types()).stripe(2, vec![(9, Streams::Data, ints(&[1, 2]))]);
    assert!(read_all(&stranger.file(), 10).is_err());

    for subtypes in [&[0][..], &[5], &[1, 1]] {
        let names = ["a", "b"];
        let circle = vec![parent(Kind::Struct, subtypes, &names[..subtypes.len()]), leaf(Kind::Int)];
        assert!(open(&SampleOrcFile::new(circle).file()).is_err(), "{subtypes:?}");
    }

    let deep = (1..1000).map(|child| parent(Kind::List, &[child + 1], &[])).chain([leaf(Kind::Int)]);
    let deep = [parent(Kind::Struct, &[1], &["deep"])].into_iter().chain(deep).collect();
    assert!(open(&SampleOrcFile::new(deep).file()).is_err());
}

#[test]
fn an_encrypted_file_says_so() {
    let mut sample = SampleOrcFile::new(vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)]);
    sample.footer.encryption = Some(Encryption::default());
    let error = open(&sample.file()).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("encrypted"));
}

#[test]
fn a_codec_from_the_future_is_unsupported_and_not_taken_for_none() {
    let mut sample = SampleOrcFile::new(vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)]);
    sample.postscript.compression = Some(77);
    assert!(matches!(open(&sample.file()), Err(Error::Unsupported { .. })));
}

#[test]
fn an_orc_file_is_told_by_its_last_bytes() {
    for file in files() {
        assert!(is_orc_tail(&file) && is_orc_tail(&file[file.len() - 5..]));
        assert!(!is_orc_tail(&file[..file.len() - 1]));
    }
    assert!(!is_orc_tail(b"") && !is_orc_tail(b"\x03") && !is_orc_tail(b"PAR1"));
}

#[test]
fn a_postscript_of_the_first_writers_has_no_magic() {
    let mut sample = SampleOrcFile::new(vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)]);
    sample.postscript.magic = None;
    sample.postscript.writer_version = None;
    let file = sample.file();
    assert!(!is_orc_tail(&file) && may_be_postscript(&file));
    assert!(open(&file).is_ok());

    for file in files() {
        assert!(!may_be_postscript(&file));
    }
    assert!(
        !may_be_postscript(b"") && !may_be_postscript(b"\x00") && !may_be_postscript(b"ORCHID,1\nLILY,2\n")
    );
}
