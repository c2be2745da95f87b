//! Access control: signatures, rights of access keys, and CORS.

pub(super) mod authenticate;
pub(super) mod cors;
