//! Access from a version to its vertices and edges.

use super::{edge_view::EdgeView, vertex_view::VertexView};
use crate::{Result, store::snapshot::Snapshot};

impl Snapshot {
    /// Returns the vertices of a type, with these properties: a handle with all names resolved. Without a list of
    /// columns all properties.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchProperty`]; [`crate::Error::Missing`] and
    /// [`crate::Error::Data`] if data of commits is missing or inconsistent.
    pub async fn vertices(&self, vertex_type: &str, columns: Option<&[&str]>) -> Result<VertexView> {
        let at = self.record().vertex_type(vertex_type)?;
        VertexView::new(self.clone(), self.vertex_parts(at).await?, columns)
    }

    /// Returns the edges of a type, with these properties: a handle with all names resolved. Without a list of columns
    /// all properties.
    ///
    /// # Errors
    ///
    /// As [`Self::vertices`], with [`crate::Error::NoSuchEdgeType`].
    pub async fn edges(&self, edge_type: &str, columns: Option<&[&str]>) -> Result<EdgeView> {
        let at = self.record().edge_type(edge_type)?;
        EdgeView::new(self.clone(), self.edge_parts(at).await?, columns)
    }
}
