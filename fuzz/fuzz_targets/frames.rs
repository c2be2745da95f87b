//! Any bytes as what a peer sends on a connection for pages, an answer or requests: what is received does not depend on
//! where it is cut, and an answer has no more bytes than were asked for.
//!
//! The first byte: 1 takes the rest as requests, 2 signs it. The second is how many bytes arrive at a time, and the next
//! two are how many were asked for.
#![no_main]

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use stylobate_server::peer_fuzzing::{receive_answer, receive_requests, sign_answer, sign_requests};

fuzz_target!(|data: &[u8]| {
    let [flags, step, low, high, bytes @ ..] = data else { return };
    let step = usize::from(*step);
    let mut bytes = bytes.to_vec();
    let is_signed = flags & 2 != 0;

    if flags & 1 != 0 {
        if is_signed {
            sign_requests(&mut bytes);
        }
        let whole = block_on(receive_requests(&bytes, usize::MAX));
        assert_eq!(whole, block_on(receive_requests(&bytes, step)), "pieces of {step} bytes");
        assert!(is_signed || whole.is_empty(), "a request without a signature");
        return;
    }

    if is_signed {
        sign_answer(&mut bytes);
    }
    let len = u64::from(u16::from_le_bytes([*low, *high]));
    let whole = block_on(receive_answer(&bytes, len, usize::MAX));
    assert_eq!(whole, block_on(receive_answer(&bytes, len, step)), "pieces of {step} bytes");
    assert!(is_signed || whole.runs.is_empty(), "a run without a signature");

    let received = whole.runs.iter().map(|(bytes, _)| bytes.len() as u64).sum::<u64>();
    assert!(received <= len);
    if whole.error.is_none() {
        assert!(whole.is_complete && received == len);
    }
});
