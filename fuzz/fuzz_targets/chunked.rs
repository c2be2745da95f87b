//! Any bytes as an aws-chunked body: what is in it does not depend on where it is cut, and is the same when it is
//! encoded and decoded again.
//!
//! The first byte says whether the body is signed, the second how many bytes arrive at a time.
#![no_main]

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use stylobate_server::fuzzing::{DecodedBody, decode_chunked};

fuzz_target!(|data: &[u8]| {
    let [flags, step, body @ ..] = data else { return };
    let is_signed = flags & 1 == 1;
    let length = announced(body);
    let whole = block_on(decode_chunked(body, length, usize::MAX, is_signed));
    let cut = block_on(decode_chunked(body, length, usize::from(*step), is_signed));
    assert_eq!(whole, cut, "pieces of {step} bytes");
    let Some(decoded) = whole else { return };
    assert_eq!(decoded.data.len() as u64, length);
    let other = block_on(decode_chunked(body, length + 1, usize::MAX, is_signed));
    assert_eq!(other, None, "of another length than announced");

    let again = block_on(decode_chunked(&encoded(&decoded), length, usize::from(*step), false));
    assert_eq!(again.as_ref(), Some(&decoded));
});

/// The sum of the chunks' sizes, as far as they can be read.
fn announced(mut body: &[u8]) -> u64 {
    let mut sum: u64 = 0;
    while let Some(end) = body.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (&body[..end], &body[end + 1..]);
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let digits = std::str::from_utf8(&line[..digits]).unwrap_or_default();
        let size = u64::from_str_radix(digits, 16).unwrap_or_default();
        let after = usize::try_from(size).ok().and_then(|size| rest.get(size.checked_add(2)?..));
        sum = sum.saturating_add(size);
        match after {
            Some(after) if size > 0 => body = after,
            _ => break,
        }
    }
    sum.min(u64::MAX - 1)
}

fn encoded(decoded: &DecodedBody) -> Vec<u8> {
    let mut body = Vec::new();
    if !decoded.data.is_empty() {
        body.extend_from_slice(format!("{:x}\r\n", decoded.data.len()).as_bytes());
        body.extend_from_slice(&decoded.data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n");
    for (name, value) in &decoded.trailers {
        // A line feed alone, as it may have been: a line at its limit has no room for more.
        body.extend_from_slice(format!("{name}:{value}\n").as_bytes());
    }
    body.extend_from_slice(b"\r\n");
    body
}
