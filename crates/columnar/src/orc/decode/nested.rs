//! Decodes columns with children: structs, lists, maps and unions.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ListArray, MapArray, StructArray, UnionArray},
    buffer::{BooleanBuffer, NullBuffer, ScalarBuffer},
    datatypes::{FieldRef, Fields, UnionFields},
};

use super::{
    OrcColumnReader, StripeColumnDecoder,
    bits::{ByteRleDecoder, PresentStreamDecoder},
    ints::IntRleDecoder,
    reached::DecodedPosition,
    strings::{end, offsets},
};
use crate::orc::fault::OrcReadError;

pub(super) struct StructColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) fields: Fields,
    pub(super) children: Vec<StripeColumnDecoder>,
}

impl OrcColumnReader for StructColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let children = self.children.iter_mut().map(|child| child.next(len, rows.nulls.as_ref()));
        let children = children.collect::<Result<Vec<_>, _>>()?;
        let array = StructArray::try_new_with_length(self.fields.clone(), children, rows.nulls, len);
        Ok(Arc::new(array.map_err(|error| OrcReadError::corrupt(error.to_string()))?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        for child in &mut self.children {
            child.reached(reached)?;
        }
        Ok(())
    }
}

pub(super) struct ListColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) lengths: IntRleDecoder,
    pub(super) field: FieldRef,
    pub(super) item: StripeColumnDecoder,
}

impl OrcColumnReader for ListColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let offsets = offsets(&mut self.lengths, &rows)?;
        let items = self.item.next(end(&offsets), None)?;
        let array = ListArray::try_new(self.field.clone(), offsets, items, rows.nulls);
        Ok(Arc::new(array.map_err(|error| OrcReadError::corrupt(error.to_string()))?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.lengths.reached()?);
        self.item.reached(reached)?;
        Ok(())
    }
}

pub(super) struct MapColumnReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) lengths: IntRleDecoder,
    pub(super) entries: FieldRef,
    pub(super) fields: Fields,
    pub(super) key: StripeColumnDecoder,
    pub(super) value: StripeColumnDecoder,
}

impl OrcColumnReader for MapColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let offsets = offsets(&mut self.lengths, &rows)?;
        let keys = self.key.next(end(&offsets), None)?;
        if keys.null_count() > 0 {
            return Err(OrcReadError::unsupported("a map with a key that is null"));
        }

        let values = self.value.next(end(&offsets), None)?;
        let corrupt = |error: arrow::error::ArrowError| OrcReadError::corrupt(error.to_string());
        let entries = StructArray::try_new(self.fields.clone(), vec![keys, values], None).map_err(corrupt)?;
        let array = MapArray::try_new(self.entries.clone(), offsets, entries, rows.nulls, false);

        Ok(Arc::new(array.map_err(corrupt)?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.lengths.reached()?);
        self.key.reached(reached)?;
        self.value.reached(reached)?;
        Ok(())
    }
}

/// Decoder of unions, as sparse ones: every variant has all rows, and those of other variants are null in it. Arrow's
/// unions have no nulls of their own: a row without a value is a null of the first variant.
pub(super) struct UnionColumnReader {
    pub(super) presence: PresentStreamDecoder,
    /// Variant of each row.
    pub(super) tags: ByteRleDecoder,
    pub(super) fields: UnionFields,
    pub(super) variants: Vec<StripeColumnDecoder>,
}

impl OrcColumnReader for UnionColumnReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let tags = self.tags.read(rows.values())?;
        if let Some(tag) = tags.iter().find(|tag| usize::from(**tag) >= self.variants.len()) {
            return Err(OrcReadError::corrupt(format!(
                "variant {tag} of a union of {}",
                self.variants.len()
            )));
        }

        let tags = rows.scatter(tags);
        let mut children = Vec::with_capacity(self.variants.len());
        for (tag, variant) in self.variants.iter_mut().enumerate() {
            let is_own = BooleanBuffer::collect_bool(len, |row| {
                let has_value = rows.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                has_value && tags.get(row).is_some_and(|it| usize::from(*it) == tag)
            });
            children.push(variant.next(len, Some(&NullBuffer::new(is_own)))?);
        }

        let ids: ScalarBuffer<i8> = tags.into_iter().map(|tag| tag as i8).collect();
        let array = UnionArray::try_new(self.fields.clone(), ids, None, children);
        Ok(Arc::new(array.map_err(|error| OrcReadError::corrupt(error.to_string()))?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.tags.reached()?);
        for variant in &mut self.variants {
            variant.reached(reached)?;
        }
        Ok(())
    }
}
