//! How much a description of a graph may deviate from the format.

/// How much the YAML files of a graph may deviate from the format.
///
/// What is wrong beyond doubt is an error in both: keys without which data cannot be found (types, chunk sizes, file
/// types, names, orders), chunk sizes below 1, names that the format does not have, versions other than `gar/v1`,
/// property groups without properties, lists of lists, properties of edges with a cardinality, what is there twice
/// (properties of one type, types, orders of an edge type), edges of vertex types that are not there, and paths that
/// are absolute or lead upwards (`..`).
///
/// | the files say | `Tolerant` | `Strict` |
/// |---|---|---|
/// | a key that the format does not have | nothing | refused |
/// | no `version`, or one with other words behind `gar/v1` | `gar/v1` | refused, but for types in parentheses |
/// | no `name` of the graph | `graph` | refused |
/// | no `directed` | `false` | refused |
/// | no `is_primary` | `false` | refused |
/// | a flag other than `true` and `false` | `yes`, `no`, `1`, `0`, in upper case too | refused |
/// | a prefix without a slash at its end | with one | refused |
/// | a prefix that begins with `./` and goes on, or has a slash too many | without | refused |
/// | an absolute prefix of the graph | that, unless vertices lie beside the graph's file | that |
/// | a file that is named with `./`, or does not end with `.yml` | as said | refused |
/// | `label`, `src_label`, `edge_label`, `dst_label` | the types, if those are not said | refused |
/// | property groups in each of `adj_lists` | those of the edge type, if it has none and all are alike | refused |
/// | a chunk size of an edge type's ends other than the vertices' | the edge type's own | refused |
/// | a primary key that may be null, or a second one | as said | refused |
/// | properties of several values in CSV | as said | refused |
/// | lists of `bool`, `date` or `timestamp` | as said | refused: the official readers have none |
/// | an empty label, or anything twice among `labels` or the keys of `extra_info` | as said | refused |
///
/// What the format leaves open is read by both: neighbours of a vertex in any order, JSON as lines, quoted names in the
/// headers of CSV.
///
/// These may be left out in both: a prefix (the type, the names of the properties or the order), `is_nullable` (what
/// is no primary key may be null), `cardinality` (`single`), `labels`, `property_groups`, `vertices`, `edges` and
/// `extra_info` (none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strictness {
    /// Reads whatever official libraries have written.
    #[default]
    Tolerant,
    /// Reads what follows the format to the letter: for checking what a writer made.
    Strict,
}

impl Strictness {
    pub(super) fn is_strict(self) -> bool {
        self == Self::Strict
    }
}
