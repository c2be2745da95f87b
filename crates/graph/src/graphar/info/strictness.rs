//! Accepted deviations of a graph's description from the format.

/// Accepted deviations of a graph's YAML files from the format.
///
/// Errors in both modes: missing keys without which data cannot be found (types, chunk sizes, file types, names,
/// orders), chunk sizes below 1, names that the format does not define, versions other than `gar/v1`, property
/// groups without properties, lists of lists, properties of edges with a cardinality, duplicates (properties of
/// one type, types, orders of an edge type), edges of unknown vertex types, and paths that are absolute or lead
/// upwards (`..`).
///
/// | in the files | `Tolerant` | `Strict` |
/// |---|---|---|
/// | a key that the format does not define | ignored | rejected |
/// | no `version`, or one with other words after `gar/v1` | `gar/v1` | rejected, except for types in parentheses |
/// | no `name` of the graph | `graph` | rejected |
/// | no `directed` | `false` | rejected |
/// | no `is_primary` | `false` | rejected |
/// | a flag other than `true` and `false` | `yes`, `no`, `1`, `0`, in upper case too | rejected |
/// | a prefix without a slash at its end | with one | rejected |
/// | a prefix `./…`, or with a repeated slash | without | rejected |
/// | an absolute prefix of the graph | as written, unless vertices lie beside the graph's file | as written |
/// | a file that is named with `./`, or does not end with `.yml` | as written | rejected |
/// | `label`, `src_label`, `edge_label`, `dst_label` | the types, if those are missing | rejected |
/// | property groups in each of `adj_lists` | those of the edge type, if it has none and all are alike | rejected |
/// | a chunk size in an edge type other than that of its vertices | that of the edge type | rejected |
/// | a primary key that may be null, or a second one | as written | rejected |
/// | properties of several values in CSV | as written | rejected |
/// | lists of `bool`, `date` or `timestamp` | as written | rejected: the official readers do not support them |
/// | an empty label, or duplicates in `labels` or in the keys of `extra_info` | as written | rejected |
///
/// Both modes accept what the format leaves open: neighbours of a vertex in any order, JSON as lines, quoted names in
/// the headers of CSV.
///
/// Optional in both, with their defaults: a prefix (the type, the names of the properties or the order), `is_nullable`
/// (true except for the primary key), `cardinality` (`single`), `labels`, `property_groups`, `vertices`, `edges` and
/// `extra_info` (none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strictness {
    /// Accepts the files that official libraries have written.
    #[default]
    Tolerant,
    /// Accepts only files that conform to the specification, for checking the output of a writer.
    Strict,
}

impl Strictness {
    pub(super) fn is_strict(self) -> bool {
        self == Self::Strict
    }
}
