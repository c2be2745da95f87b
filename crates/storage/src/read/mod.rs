//! Reads objects through the page cache: fetches missing bytes once for all readers.

pub(super) mod byte_source;
pub(super) mod cluster;
pub(super) mod column_reads;
pub(super) mod fetch_plan;
pub(super) mod fetcher;
pub(super) mod flight;
pub(super) mod footer_credit;
pub(super) mod object_store_impl;
pub(super) mod open_object;
pub(super) mod opened_file;
pub(super) mod page_assembler;
pub(super) mod paged;
pub(super) mod pin;
pub(super) mod read_ahead;
pub(super) mod read_through;
pub(super) mod reader;
pub(super) mod receive;
pub(super) mod requests;
pub(super) mod warm;
