//! Textual plan of a traversal.

use std::fmt::Write;

use async_recursion::async_recursion as boxed;
use futures::FutureExt;

use super::{
    plan::{TraversalColumnSource, TraversalNames, TraversalPlan},
    traversal::Traversal,
};
use crate::{
    Direction, Result,
    store::{
        parts::{
            edge_part::EdgePartSource, edge_parts::EdgeParts, vertex_part::VertexPart,
            vertex_parts::VertexParts,
        },
        write::changes::VertexIds,
    },
};

impl Traversal {
    /// Explains the reads of the traversal, one line per step. Reads only metadata.
    ///
    /// # Errors
    ///
    /// Same as [`Self::collect`], except for missing starts.
    #[boxed]
    pub async fn explain(&self) -> Result<String> {
        let plan = TraversalPlan::new(self).boxed().await?;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_plan(&plan, &mut text);
        Ok(text)
    }

    fn write_plan(&self, plan: &TraversalPlan, text: &mut String) -> std::fmt::Result {
        let steps = &plan.names.steps;
        let edges = &plan.names.edges;
        let name_of = |step: usize| steps.get(step).map(String::as_str).unwrap_or_default();
        let ids = match &self.ids {
            VertexIds::Keys(keys) => format!("{} keys", keys.len()),
            VertexIds::Indexes(indexes) => format!("{} indexes", indexes.len()),
        };
        writeln!(text, "version {}", self.snapshot.version())?;
        writeln!(text, "start {}: {ids}, in {}", name_of(0), of_vertices(plan.start.parts()))?;

        for (at, (hop, described)) in plan.hops.iter().zip(&self.hops).enumerate() {
            let (way, own) = match hop.direction {
                Direction::Out => ("out", "source"),
                Direction::In => ("in", "destination"),
            };
            let edge = edges.get(at).map(String::as_str).unwrap_or_default();
            let columns = match described.columns.as_slice() {
                [] => String::new(),
                columns => format!(" and {}", columns.join(", ")),
            };

            let parts = of_edges(hop.edges.parts());
            let to = name_of(at + 1);
            writeln!(text, "{way} {edge} to {to}: neighbours{columns} by {own}, in {parts}")?;
        }

        if let (Some(top), Some(source)) = (&self.top, &plan.order_by) {
            let order = if top.descending { "greatest" } else { "least" };
            let of = plan.describe(source);
            writeln!(text, "top {}: the {order} {} ({of}), of all rows", top.rows, top.by)?;
        }
        let rows = match &self.top {
            Some(top) => format!("at most {} rows", top.rows),
            None => "all rows".to_owned(),
        };

        let output = plan.output.iter().map(|(name, source)| format!("{name} ({})", plan.describe(source)));
        writeln!(text, "select for {rows}: {}", output.collect::<Vec<_>>().join(", "))
    }
}

impl TraversalPlan {
    /// Describes the source of a column.
    fn describe(&self, source: &TraversalColumnSource) -> String {
        let TraversalNames { steps, edges, .. } = &self.names;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        match source {
            TraversalColumnSource::Position => "which start".to_owned(),
            TraversalColumnSource::Index { step } => format!("index of {}", name(steps, *step)),
            TraversalColumnSource::Edge { hop, .. } => format!("column of edges {}", name(edges, *hop)),
            TraversalColumnSource::Property { step, .. } => {
                format!("property of {}, gathered", name(steps, *step))
            }
        }
    }
}

fn of_vertices(parts: &VertexParts) -> String {
    let bases = parts.parts.iter().filter(|part| matches!(part, VertexPart::Base(_))).count();
    let deltas = parts.parts.len() - bases;
    let patches = parts.patches.len();
    format!("{bases} bases, {deltas} deltas and {patches} patches of {} vertices", parts.state.count)
}

fn of_edges(parts: &EdgeParts) -> String {
    let bases = parts.parts.iter().filter(|part| matches!(part.of, EdgePartSource::Base(_))).count();
    let deltas = parts.parts.len() - bases;
    let deleted: u64 = parts.parts.iter().map(|part| part.out_deleted.len()).sum();
    format!("{bases} bases and {deltas} deltas of {} edges, {deleted} deleted", parts.state.count)
}
