//! Unique column names across several tables.

use std::collections::HashSet;

/// Returns the name, prefixed with underscores until it is unique, and adds it to `taken`.
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
