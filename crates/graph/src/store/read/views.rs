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

    /// Returns [`Self::vertices`] if the type was opened before.
    pub fn vertices_cached(&self, vertex_type: &str, columns: Option<&[&str]>) -> Option<Result<VertexView>> {
        let opened = self.record().vertex_type(vertex_type).map(|at| self.open_vertices(at)).transpose()?;
        Some(opened.and_then(|parts| VertexView::new(self.clone(), parts.clone(), columns)))
    }

    /// Returns [`Self::edges`] if the type was opened before.
    pub fn edges_cached(&self, edge_type: &str, columns: Option<&[&str]>) -> Option<Result<EdgeView>> {
        let opened = self.record().edge_type(edge_type).map(|at| self.open_edges(at)).transpose()?;
        Some(opened.and_then(|parts| EdgeView::new(self.clone(), parts.clone(), columns)))
    }
}
