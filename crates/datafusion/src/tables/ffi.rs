//! Tables for other libraries in the process that were built with the same major version of DataFusion.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
pub use datafusion_ffi::{
    proto::logical_extension_codec::FFI_LogicalExtensionCodec, table_provider::FFI_TableProvider,
};
use tokio::runtime::Handle;

/// Returns the major version of DataFusion with which a library must be built to use [`exported_table`].
pub fn ffi_version() -> u64 {
    datafusion_ffi::version()
}

/// Exports a table to a library whose filters are encoded by `codec`. Its scans run within `runtime`.
pub fn exported_table(
    table: Arc<dyn TableProvider>,
    codec: FFI_LogicalExtensionCodec,
    runtime: Handle,
) -> FFI_TableProvider {
    FFI_TableProvider::new_with_ffi_codec(table, true, Some(runtime), codec)
}
