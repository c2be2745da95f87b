//! Tree of a file's types, and the Arrow types that they are read as.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit, UnionFields, UnionMode,
};
use orc_rust::proto;

use super::{calendar::Calendar, fault::OrcReadError};
use crate::file::schema::ProjectedColumn;

/// Maximum depth; deeper trees are treated as corrupt.
pub(super) const MAX_DEPTH: usize = 100;
/// Maximum variants of a union: Arrow numbers them from 0 to 127.
pub(super) const MAX_VARIANTS: usize = 128;
/// Maximum digits of a 128-bit decimal.
const MAX_PRECISION: u32 = 38;
/// Metadata key of a field for its text type in a file, if that is not `string`: `varchar(n)` or `char(n)`.
pub(super) const FIELD_TYPE: &str = "orc.type";
/// Maximum digits that always fit in 64 bits.
const MAX_SHORT: u32 = 18;
/// Type of a decimal without precision, as Hive 0.11 wrote them.
const UNBOUNDED_DECIMAL: (u8, i8) = (38, 10);

/// Column: a leaf, or one with children.
#[derive(Clone, Debug)]
pub(super) struct OrcType {
    /// Number of the column in streams and statistics.
    pub(super) id: u32,
    /// Name without those of its parents.
    pub(super) name: String,
    /// Names from the top down, separated by dots.
    pub(super) path: Arc<str>,
    pub(super) kind: OrcTypeKind,
    /// Maximum characters of a string, if the file has a limit.
    length: Option<u32>,
    /// Attributes of the column's type in the file.
    attributes: Arc<HashMap<String, String>>,
    /// Calendar of dates.
    pub(super) calendar: Calendar,
    pub(super) children: Vec<OrcType>,
}

/// ORC type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrcTypeKind {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    String,
    Char,
    Binary,
    Date,
    /// Precision and scale.
    Decimal(u8, i8),
    /// Decimal whose unscaled values are 64-bit integers, all of the column's scale.
    ShortDecimal(u8, i8),
    Timestamp(TimeUnit),
    Instant(TimeUnit),
    List,
    Map,
    Struct,
    Union,
    Unknown(i32),
}

impl OrcType {
    /// Builds the tree below the root, which must be a struct. `unit` returns the unit of a column's timestamps,
    /// `short_decimals` is set if decimals of up to 18 digits are stored as integers, and `calendar` is that of
    /// dates.
    pub(super) fn root(
        types: &[proto::Type],
        unit: impl Fn(u32) -> TimeUnit,
        short_decimals: bool,
        calendar: Calendar,
    ) -> Result<Self, OrcReadError> {
        let seen = vec![false; types.len()];
        let without_attributes = Arc::default();
        let mut parser =
            OrcTypeParser { types, seen, unit: &unit, short_decimals, calendar, without_attributes };
        let root = parser.parse(0, String::new(), &Arc::from(""), 0)?;
        match root.kind {
            OrcTypeKind::Struct => Ok(root),
            _ => Err(OrcReadError::unsupported("the file's root is not a struct of columns")),
        }
    }

    /// Returns whether it is a column of strings.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, OrcTypeKind::String | OrcTypeKind::Char)
    }

    /// Returns the columns of the root as an Arrow schema with this metadata.
    pub(super) fn schema(&self, metadata: HashMap<String, String>) -> SchemaRef {
        let fields: Fields = self.children.iter().map(Self::field).collect();
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }

    /// Returns the column as an Arrow field, which is always nullable.
    pub(super) fn field(&self) -> FieldRef {
        let mut metadata = self.attributes.as_ref().clone();
        let declared = match (self.kind, self.length) {
            (OrcTypeKind::Char, Some(length)) => Some(format!("char({length})")),
            (OrcTypeKind::String, Some(length)) => Some(format!("varchar({length})")),
            _ => None,
        };
        metadata.extend(declared.map(|declared| (FIELD_TYPE.to_owned(), declared)));
        Arc::new(Field::new(&self.name, self.data_type(), true).with_metadata(metadata))
    }

    pub(super) fn data_type(&self) -> DataType {
        match self.kind {
            OrcTypeKind::Boolean => DataType::Boolean,
            OrcTypeKind::Byte => DataType::Int8,
            OrcTypeKind::Short => DataType::Int16,
            OrcTypeKind::Int => DataType::Int32,
            OrcTypeKind::Long => DataType::Int64,
            OrcTypeKind::Float => DataType::Float32,
            OrcTypeKind::Double => DataType::Float64,
            OrcTypeKind::String | OrcTypeKind::Char => DataType::Utf8,
            OrcTypeKind::Binary => DataType::Binary,
            OrcTypeKind::Date => DataType::Date32,
            OrcTypeKind::Decimal(precision, scale) | OrcTypeKind::ShortDecimal(precision, scale) => {
                DataType::Decimal128(precision, scale)
            }
            OrcTypeKind::Timestamp(unit) => DataType::Timestamp(unit, None),
            OrcTypeKind::Instant(unit) => DataType::Timestamp(unit, Some("UTC".into())),
            OrcTypeKind::List => {
                self.children.first().map_or(DataType::Null, |item| DataType::List(item.field()))
            }
            OrcTypeKind::Map => DataType::Map(self.entries(), false),
            OrcTypeKind::Struct => DataType::Struct(self.children.iter().map(Self::field).collect()),
            OrcTypeKind::Union => {
                let variants = self.children.iter().take(MAX_VARIANTS).map(Self::field);
                let ids = 0..=i8::MAX;
                DataType::Union(ids.zip(variants).collect::<UnionFields>(), UnionMode::Sparse)
            }
            OrcTypeKind::Unknown(_) => DataType::Null,
        }
    }

    /// Returns the struct of key and value of a map.
    pub(super) fn entries(&self) -> FieldRef {
        let mut fields: Vec<FieldRef> = self.children.iter().map(Self::field).collect();
        if let Some(key) = fields.first_mut() {
            *key = Arc::new(key.as_ref().clone().with_nullable(false));
        }
        Arc::new(Field::new_struct("entries", fields, false))
    }

    /// Returns the projected part of a top-level column.
    pub(super) fn pruned(&self, projected: &ProjectedColumn) -> Self {
        match projected.leaves {
            None => self.clone(),
            Some(_) => self.prune(&mut 0, projected).unwrap_or_else(|| self.clone()),
        }
    }

    fn prune(&self, next_leaf: &mut usize, projected: &ProjectedColumn) -> Option<Self> {
        match self.kind {
            OrcTypeKind::List | OrcTypeKind::Map | OrcTypeKind::Struct => {
                let kept: Vec<_> =
                    self.children.iter().filter_map(|it| it.prune(next_leaf, projected)).collect();
                (!kept.is_empty()).then(|| Self { children: kept, ..self.clone_without_children() })
            }
            _ => {
                let leaf = *next_leaf;
                *next_leaf += 1;
                projected.has_leaf(leaf).then(|| self.clone())
            }
        }
    }

    /// Returns the column without its children.
    pub(super) fn clone_without_children(&self) -> Self {
        let Self { id, name, path, kind, length, attributes, calendar, children: _ } = self;
        Self {
            id: *id,
            name: name.clone(),
            path: path.clone(),
            kind: *kind,
            length: *length,
            attributes: attributes.clone(),
            calendar: *calendar,
            children: Vec::new(),
        }
    }

    /// Returns the column of this name at the top level or within structs, if it is unique.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        let mut found = self.children.iter().filter_map(|child| {
            let rest = name.strip_prefix(child.name.as_str())?;
            match rest.strip_prefix('.') {
                _ if rest.is_empty() => Some(child),
                Some(rest) if child.kind == OrcTypeKind::Struct => child.find(rest),
                _ => None,
            }
        });

        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    /// Calls back with each column of the tree.
    pub(super) fn visit(&self, each: &mut impl FnMut(&Self)) {
        each(self);
        self.children.iter().for_each(|child| child.visit(each));
    }
}

struct OrcTypeParser<'a, F> {
    types: &'a [proto::Type],
    seen: Vec<bool>,
    unit: &'a F,
    short_decimals: bool,
    calendar: Calendar,
    without_attributes: Arc<HashMap<String, String>>,
}

impl<F: Fn(u32) -> TimeUnit> OrcTypeParser<'_, F> {
    fn parse(
        &mut self,
        id: u32,
        name: String,
        parent: &Arc<str>,
        depth: usize,
    ) -> Result<OrcType, OrcReadError> {
        let corrupt = |reason: &str| Err(OrcReadError::corrupt(format!("type {id}: {reason}")));
        let (Some(ty), Some(seen)) = (self.types.get(id as usize), self.seen.get_mut(id as usize)) else {
            return corrupt("there is no such type");
        };
        // A type that is its own child, or the child of two others, would make an infinite tree.
        if std::mem::replace(seen, true) || depth > MAX_DEPTH {
            return corrupt("the types are not a tree");
        }

        let kind = self.kind(id, ty)?;
        let path: Arc<str> = match (depth, parent.is_empty()) {
            (0, _) => Arc::from(""),
            (_, true) => Arc::from(name.as_str()),
            (_, false) => format!("{parent}.{name}").into(),
        };
        let names: Vec<String> = match kind {
            OrcTypeKind::Struct => ty.field_names.clone(),
            OrcTypeKind::List => vec!["item".to_owned()],
            OrcTypeKind::Map => vec!["key".to_owned(), "value".to_owned()],
            OrcTypeKind::Union => (0..ty.subtypes.len()).map(|variant| format!("_union_{variant}")).collect(),
            _ => Vec::new(),
        };

        if names.iter().any(|name| name.contains('\0')) {
            return corrupt("a name with a zero in it");
        }
        if names.len() != ty.subtypes.len() && !matches!(kind, OrcTypeKind::Unknown(_)) {
            return corrupt("it has not as many fields as names");
        }

        let children = names.into_iter().zip(&ty.subtypes);
        let children = children
            .map(|(name, &child)| self.parse(child, name, &path, depth + 1))
            .collect::<Result<_, _>>()?;
        // Some writers use 0 for a string of any length.
        let length = ty.maximum_length.filter(|length| *length > 0);
        let attributes =
            ty.attributes.iter().filter_map(|pair| Some((pair.key.clone()?, pair.value.clone()?)));
        let attributes = if ty.attributes.is_empty() {
            self.without_attributes.clone()
        } else {
            Arc::new(attributes.filter(|(key, _)| key != FIELD_TYPE).collect())
        };

        Ok(OrcType { id, name, path, kind, length, attributes, calendar: self.calendar, children })
    }

    fn kind(&self, id: u32, ty: &proto::Type) -> Result<OrcTypeKind, OrcReadError> {
        use proto::r#type::Kind as Proto;
        let number = ty.kind.unwrap_or_default();
        Ok(match Proto::try_from(number) {
            Ok(Proto::Boolean) => OrcTypeKind::Boolean,
            Ok(Proto::Byte) => OrcTypeKind::Byte,
            Ok(Proto::Short) => OrcTypeKind::Short,
            Ok(Proto::Int) => OrcTypeKind::Int,
            Ok(Proto::Long) => OrcTypeKind::Long,
            Ok(Proto::Float) => OrcTypeKind::Float,
            Ok(Proto::Double) => OrcTypeKind::Double,
            Ok(Proto::String | Proto::Varchar) => OrcTypeKind::String,
            Ok(Proto::Char) => OrcTypeKind::Char,
            Ok(Proto::Binary) => OrcTypeKind::Binary,
            Ok(Proto::Date) => OrcTypeKind::Date,
            Ok(Proto::Timestamp) => OrcTypeKind::Timestamp((self.unit)(id)),
            Ok(Proto::TimestampInstant) => OrcTypeKind::Instant((self.unit)(id)),
            Ok(Proto::List) => OrcTypeKind::List,
            Ok(Proto::Map) => OrcTypeKind::Map,
            Ok(Proto::Struct) => OrcTypeKind::Struct,
            Ok(Proto::Union) => OrcTypeKind::Union,
            Ok(Proto::Decimal) => match (ty.precision.unwrap_or_default(), ty.scale.unwrap_or_default()) {
                (0, _) => OrcTypeKind::Decimal(UNBOUNDED_DECIMAL.0, UNBOUNDED_DECIMAL.1),
                (precision @ ..=MAX_SHORT, scale) if self.short_decimals && scale <= precision => {
                    OrcTypeKind::ShortDecimal(precision as u8, scale as i8)
                }
                (precision, scale) if precision <= MAX_PRECISION && scale <= precision => {
                    OrcTypeKind::Decimal(precision as u8, scale as i8)
                }
                (precision, scale) => {
                    return Err(OrcReadError::corrupt(format!("type {id}: decimal({precision}, {scale})")));
                }
            },
            Err(_) => OrcTypeKind::Unknown(number),
        })
    }
}
