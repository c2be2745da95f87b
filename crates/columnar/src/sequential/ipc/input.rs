//! Reads and errors that files and streams share.

use std::io::{self, Read};

use stylobate_storage::Corrupt;

/// Returns the error of bytes that are not Arrow IPC, with [`Corrupt`] as its source.
pub(super) fn invalid(corrupt: impl Into<Corrupt>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, corrupt.into())
}

/// Returns the error of a message, given the offsets of the message and of its body.
pub(super) fn invalid_message(corrupt: Corrupt, message: u64, body: u64) -> io::Error {
    invalid(match corrupt.offset {
        Some(_) => corrupt.within(body),
        None => corrupt.at(message),
    })
}

/// Fills `bytes`. An input that ends early is invalid.
pub(super) fn read_exactly(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<()> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid("it ends within a message"),
        _ => error,
    })
}
