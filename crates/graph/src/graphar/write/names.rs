//! Column names, and the folders that are named after them.

use std::collections::HashSet;

use crate::{
    Error, Result,
    graphar::{FileType, Property, PropertyGroup},
};

/// Prefix of GraphAr's own columns in chunk files.
const OWN: &str = "_graphAr";
/// Maximum length of a folder name made from property names: file systems allow 255 bytes.
const MAX_NAME: usize = 128;

/// Checks the names of columns.
pub(super) fn check_columns<'a>(of: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut known = HashSet::new();
    for name in names {
        if name.is_empty() || name.starts_with(OWN) {
            return Err(unwritable(of, format!("column {name:?}: a name that no property can have")));
        }
        if !known.insert(name) {
            return Err(unwritable(of, format!("column {name} is there twice")));
        }
    }
    Ok(())
}

/// Groups properties: the requested groups, then one with the rest. `reserved` are folders that no group can have.
pub(super) fn groups(
    of: &str,
    properties: Vec<Property>,
    wanted: &[Vec<String>],
    file_type: FileType,
    reserved: &[&str],
) -> Result<Vec<PropertyGroup>> {
    let available: Vec<String> = properties.iter().map(|property| property.name.clone()).collect();
    let mut left: Vec<Option<Property>> = properties.into_iter().map(Some).collect();
    let mut members = Vec::new();
    for names in wanted {
        let mut group = Vec::new();
        for name in names {
            let at = available.iter().position(|known| known == name);
            let at = at.ok_or_else(|| no_property(of, name, &available))?;
            let property = left.get_mut(at).and_then(Option::take);
            let twice = || unwritable(of, format!("property {name} is in two groups"));
            group.push(property.ok_or_else(twice)?);
        }
        members.push(group);
    }

    members.push(left.into_iter().flatten().collect());
    members.retain(|group| !group.is_empty());
    let mut taken: HashSet<String> = reserved.iter().map(|&folder| folder.to_owned()).collect();
    let group = |(number, properties)| {
        let mut group = PropertyGroup::new(file_type, properties);
        if !is_plain(&group.prefix) || is_count_file(&group.prefix) || taken.contains(&group.prefix) {
            group.prefix = format!("properties{number}/");
        }
        while !taken.insert(group.prefix.clone()) {
            group.prefix = format!("_{}", group.prefix);
        }
        group
    };

    Ok(members.into_iter().enumerate().map(group).collect())
}

/// Returns the error of an unknown column.
pub(super) fn no_property(of: &str, name: &str, available: &[String]) -> Error {
    Error::NoSuchProperty { of: of.to_owned(), property: name.to_owned(), available: available.join(", ") }
}

pub(crate) fn unwritable(of: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Unwritable { of: of.into(), reason: reason.into() }
}

/// Checks that the writer supports the file type.
pub(super) fn check_file_type(of: &str, file_type: FileType) -> Result<()> {
    match file_type {
        FileType::Parquet | FileType::Orc | FileType::Csv => Ok(()),
        FileType::Json => {
            Err(unwritable(of, "JSON files are read and not written: take parquet, orc or csv"))
        }
    }
}

/// Returns true if a name denotes the same folder on every system.
fn is_plain(prefix: &str) -> bool {
    let name = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('_') && name.chars().all(is_plain)
}

/// Returns true if a folder would have the name of a file beside it: `vertex_count`, or `edge_count` and a number.
fn is_count_file(prefix: &str) -> bool {
    let name = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    name == "vertex_count" || name.strip_prefix("edge_count").is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PropertyType;

    fn property(name: &str) -> Property {
        Property::new(name, PropertyType::Int64)
    }

    fn prefixes(names: &[&str], wanted: &[&[&str]]) -> Vec<String> {
        let properties = names.iter().map(|name| property(name)).collect();
        let wanted: Vec<Vec<String>> =
            wanted.iter().map(|names| names.iter().map(|&name| name.to_owned()).collect()).collect();
        let groups = groups("x", properties, &wanted, FileType::Csv, &["labels/"]).unwrap();
        groups.into_iter().map(|group| group.prefix).collect()
    }

    #[test]
    fn no_two_groups_have_one_folder_and_none_has_a_path() {
        assert_eq!(prefixes(&["a", "b", "c"], &[&["b"]]), ["b/", "a_c/"]);
        assert_eq!(prefixes(&["a_b", "a", "b"], &[&["a", "b"]]), ["a_b/", "properties1/"]);
        assert_eq!(prefixes(&["labels"], &[]), ["properties0/"]);
        assert_eq!(prefixes(&["..", "/etc"], &[&[".."]]), ["properties0/", "properties1/"]);
        let long = "x".repeat(300);
        let names = [long.as_str(), "properties0"];
        assert_eq!(prefixes(&names, &[&[&long]]), ["properties0/", "properties1/"]);
        assert_eq!(
            prefixes(&["vertex_count", "edge_count"], &[&["vertex_count"]]),
            ["properties0/", "edge_count/"]
        );
        assert_eq!(prefixes(&["edge_count07"], &[]), ["properties0/"]);
        assert!(prefixes(&[], &[]).is_empty());
    }

    #[test]
    fn names_that_cannot_be_are_errors() {
        assert!(check_columns("x", ["a", "b", "a"].into_iter()).is_err());
        assert!(check_columns("x", ["_graphArSrcIndex"].into_iter()).is_err());
        let twice = [vec!["a".to_owned()], vec!["a".to_owned()]];
        assert!(groups("x", vec![property("a")], &twice, FileType::Orc, &[]).is_err());
        let unknown = groups("x", vec![property("a")], &[vec!["b".to_owned()]], FileType::Orc, &[]);
        assert!(matches!(unknown, Err(Error::NoSuchProperty { .. })));
    }
}
