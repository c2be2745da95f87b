//! Properties of vertices by index, in any order and as often as they are asked for.

use std::collections::HashSet;

use anyhow::Result;
use arrow::{
    array::{ArrayRef, Int64Array, UInt32Array},
    compute::take,
};
use stylobate_graph::Vertices;

/// What is selected of the vertices with these indexes, a row for each. Each chunk is looked at once, however the
/// indexes are mixed.
pub(super) async fn properties_of(vertices: &Vertices, indexes: &Int64Array) -> Result<Vec<ArrayRef>> {
    let mut distinct: Vec<i64> = indexes.values().to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let found = vertices.take(&distinct).await?;
    let place = |index: &i64| distinct.binary_search(index).unwrap_or_default() as u32;
    let rows: UInt32Array = indexes.values().iter().map(place).collect();
    let columns = found.columns().iter().skip(1);
    Ok(columns.map(|column| take(column, &rows, None)).collect::<Result<_, _>>()?)
}

/// The name with as many underscores before it as it takes to be no other's; from then on it is taken.
pub(super) fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut free = name.to_owned();
    while !taken.insert(free.clone()) {
        free.insert(0, '_');
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_columns_have_one_name() {
        let mut taken = HashSet::from(["src".to_owned()]);
        let free = ["src", "src", "dst"].map(|name| free_name(name, &mut taken));
        assert_eq!(free, ["_src", "__src", "dst"]);
    }
}
