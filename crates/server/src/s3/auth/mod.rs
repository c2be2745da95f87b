//! Who may do what: signatures, rights of access keys, and requests of web pages.

pub(super) mod authenticate;
pub(super) mod cors;
