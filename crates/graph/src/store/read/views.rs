//! Opens views of a version's vertices and edges.

use super::{edge_view::EdgeView, vertex_view::VertexView};
use crate::{Result, store::snapshot::Snapshot};

impl Snapshot {
    /// Opens a view of the vertices of a type with these properties (default: all). All names are resolved up
    /// front.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchProperty`]; [`crate::Error::Missing`] and
    /// [`crate::Error::Data`] if data of commits is missing or inconsistent.
    pub async fn vertices(&self, vertex_type: &str, columns: Option<&[&str]>) -> Result<VertexView> {
        let at = self.record().vertex_type(vertex_type)?;
        VertexView::new(self.clone(), self.vertex_parts(at).await?, columns)
    }

    /// Opens a view of the edges of a type with these properties (default: all). All names are resolved up front.
    ///
    /// # Errors
    ///
    /// Same as [`Self::vertices`], with [`crate::Error::NoSuchEdgeType`] for an unknown type.
    pub async fn edges(&self, edge_type: &str, columns: Option<&[&str]>) -> Result<EdgeView> {
        let at = self.record().edge_type(edge_type)?;
        EdgeView::new(self.clone(), self.edge_parts(at).await?, columns)
    }
}
