//! Merges a column of several files: finds the type that holds the values of all of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};

use crate::file::schema::{TimeUnitChooser, coarser, decided, finer, met};

/// A column merged from the files so far.
pub(crate) struct MergedColumn {
    /// The field with the last decided type that holds all values.
    pub(crate) field: Field,
    /// The last file that has it.
    pub(crate) file: usize,
    /// Number of files that have it as non-nullable.
    required: usize,
    /// The field as written, if it has a dictionary and all files so far agree.
    written: Option<FieldRef>,
    /// The type in files whose time unit was chosen by their values.
    chosen: Option<DataType>,
    /// The type in other files.
    others: Option<DataType>,
    /// The conflict that leaves no type for all values, unless a later file provides one.
    undecided: Option<TypeConflict>,
}

/// Types of a column without a common type.
#[derive(Clone, Debug)]
pub(crate) struct TypeConflict {
    /// The file that has another type.
    pub(crate) file: usize,
    /// Its type in that file.
    pub(crate) data_type: DataType,
    /// The previous file with the column.
    pub(crate) other: usize,
    /// The merged type up to that file.
    pub(crate) before: DataType,
}

impl MergedColumn {
    /// Creates the column from the first file that has it.
    pub(crate) fn of(field: &Field, file: usize, is_chosen: bool) -> Self {
        let of = |are: bool| are.then(|| field.data_type().clone());
        let required = usize::from(!field.is_nullable());
        Self {
            field: field.clone().with_nullable(true),
            file,
            required,
            written: None,
            chosen: of(is_chosen),
            others: of(!is_chosen),
            undecided: None,
        }
    }

    /// Returns the field of the column in a table of `files` files, and the conflict if it has no type. The field is
    /// non-nullable only if it is in every file.
    pub(crate) fn finished(self, files: usize) -> (Field, Option<TypeConflict>) {
        (self.field.with_nullable(self.required < files), self.undecided)
    }

    /// Sets the field that the first file was written with.
    pub(crate) fn written_as(mut self, written: &FieldRef) -> Self {
        self.written = Some(written.clone()).filter(|written| written.data_type() != self.field.data_type());
        self
    }

    /// Adds the field that another file was written with: ordered and unordered dictionaries differ.
    pub(crate) fn add_written(&mut self, written: &FieldRef) {
        self.written.take_if(|known| {
            known.data_type() != written.data_type() || known.dict_is_ordered() != written.dict_is_ordered()
        });
    }

    /// Returns the field as written, if its type is not that of the values.
    pub(crate) fn written(&self, files: usize) -> Option<FieldRef> {
        let written = self.written.as_ref()?.as_ref().clone();
        let said = self.field.metadata().clone();
        Some(Arc::new(written.with_nullable(self.required < files).with_metadata(said)))
    }

    /// Adds a file. Fails if no type can hold the values of all files, regardless of the files that follow.
    pub(crate) fn add(&mut self, field: &Field, file: usize, is_chosen: bool) -> Result<(), TypeConflict> {
        let conflict = TypeConflict {
            file,
            data_type: field.data_type().clone(),
            other: self.file,
            before: self.field.data_type().clone(),
        };
        self.file = file;
        self.required += usize::from(!field.is_nullable());

        match self.meet(field.data_type(), is_chosen) {
            None => return Err(conflict),
            Some(Some(data_type)) => match decided(&data_type) {
                Some(data_type) => {
                    self.field.set_data_type(data_type);
                    self.undecided = None;
                }
                None => {
                    self.undecided.get_or_insert(conflict);
                }
            },
            Some(None) => {}
        }

        // Metadata is kept if all files agree on it.
        self.field.metadata_mut().retain(|key, value| field.metadata().get(key) == Some(value));
        Ok(())
    }

    /// Widens the merged type to one more: `Some(None)` if the type is unchanged, `None` if there is no common type.
    fn meet(&mut self, data_type: &DataType, is_chosen: bool) -> Option<Option<DataType>> {
        let (mine, others, unit): (_, _, TimeUnitChooser) = if is_chosen {
            // Readers choose nanoseconds unless some years are out of range, in which case microseconds usually
            // suffice.
            (&mut self.chosen, &self.others, coarser)
        } else {
            (&mut self.others, &self.chosen, finer)
        };
        if mine.as_ref() == Some(data_type) {
            return Some(None);
        }

        let wider = match &*mine {
            Some(known) => met(known, data_type, unit)?,
            None => data_type.clone(),
        };

        let mine = mine.insert(wider);
        let both = match others {
            Some(others) => met(others, mine, finer)?,
            None => mine.clone(),
        };
        Some(Some(both))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;
    use proptest::prelude::*;

    use super::*;

    /// A column of one file: its type, whether it is non-nullable, and whether its unit was chosen.
    type Seen = (DataType, bool, bool);

    /// Merges the column of all files.
    fn together(files: &[&Seen]) -> Option<Field> {
        let mut column: Option<MergedColumn> = None;
        for (file, (data_type, required, is_chosen)) in files.iter().enumerate() {
            let field = Field::new("x", data_type.clone(), !required);
            match &mut column {
                None => column = Some(MergedColumn::of(&field, file, *is_chosen)),
                Some(column) => column.add(&field, file, *is_chosen).ok()?,
            }
        }
        let (field, conflict) = column?.finished(files.len());
        conflict.is_none().then_some(field)
    }

    fn of(data_types: &[DataType]) -> Option<DataType> {
        let seen: Vec<Seen> = data_types.iter().map(|data_type| (data_type.clone(), false, false)).collect();
        together(&seen.iter().collect::<Vec<_>>()).map(|field| field.data_type().clone())
    }

    /// Returns all permutations of `0..count`.
    fn permutations(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for shorter in permutations(count - 1) {
            for at in 0..count {
                let mut longer = shorter.clone();
                longer.insert(at, count - 1);
                all.push(longer);
            }
        }
        all
    }

    fn numbers() -> Vec<DataType> {
        use DataType::{
            Decimal32, Decimal64, Decimal128, Decimal256, Float16, Float32, Float64, Int8, Int16, Int32,
            Int64, Null, UInt8, UInt16, UInt32, UInt64,
        };
        vec![
            Int8,
            Int16,
            Int32,
            Int64,
            UInt8,
            UInt16,
            UInt32,
            UInt64,
            UInt64,
            Float16,
            Float32,
            Float64,
            Decimal32(5, 2),
            Decimal64(10, 0),
            Decimal128(38, 10),
            Decimal128(5, -2),
            Decimal256(76, 40),
            Decimal256(76, 70),
            Null,
        ]
    }

    fn others() -> Vec<DataType> {
        use DataType::{
            Binary, BinaryView, Boolean, Date32, Date64, Duration, FixedSizeBinary, LargeBinary, LargeUtf8,
            Time32, Time64, Timestamp, Utf8, Utf8View,
        };
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let zoned = |unit, zone: &str| Timestamp(unit, Some(zone.into()));
        vec![
            Utf8,
            LargeUtf8,
            Utf8View,
            Binary,
            LargeBinary,
            BinaryView,
            FixedSizeBinary(4),
            FixedSizeBinary(8),
            Boolean,
            Date32,
            Date64,
            Time32(Second),
            Time32(Millisecond),
            Time64(Microsecond),
            Time64(Nanosecond),
            Duration(Second),
            Duration(Microsecond),
            Duration(Nanosecond),
            Timestamp(Second, None),
            Timestamp(Nanosecond, None),
            Timestamp(Microsecond, None),
            zoned(Millisecond, "UTC"),
            zoned(Microsecond, "Z"),
            zoned(Nanosecond, "Europe/Oslo"),
        ]
    }

    /// Generates types, also within lists, structs and maps.
    fn data_type() -> impl Strategy<Value = DataType> {
        let leaf = prop_oneof![
            3 => prop::sample::select(numbers()),
            1 => prop::sample::select(others()),
        ];
        leaf.prop_recursive(2, 4, 1, |inner| {
            (inner, any::<bool>(), 0..6).prop_map(|(inner, nullable, kind)| {
                let field = Arc::new(Field::new("item", inner, nullable));
                match kind {
                    0 => DataType::List(field),
                    1 => DataType::LargeList(field),
                    2 => DataType::FixedSizeList(field, 2),
                    3 => DataType::ListView(field),
                    4 => DataType::Struct(vec![field].into()),
                    _ => {
                        let key = Arc::new(Field::new("key", DataType::Utf8, false));
                        let entries = DataType::Struct(vec![key, field].into());
                        DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
                    }
                }
            })
        })
    }

    /// Generates a column of two to five files that mostly have a common type.
    fn files() -> impl Strategy<Value = Vec<Seen>> {
        let flat = prop::sample::select(numbers()).boxed();
        let list = flat.clone().prop_map(|number| DataType::List(Arc::new(Field::new("item", number, true))));
        let data_types = prop_oneof![
            prop::collection::vec(flat, 2..=5),
            prop::collection::vec(list, 2..=5),
            prop::collection::vec(prop::sample::select(others()), 2..=4),
            prop::collection::vec(data_type(), 2..=4),
        ];
        data_types.prop_flat_map(|data_types| {
            let seen =
                data_types.into_iter().map(|data_type| (Just(data_type), any::<bool>(), any::<bool>()));
            seen.collect::<Vec<_>>()
        })
    }

    proptest! {
        #[test]
        fn what_a_column_is_does_not_depend_on_the_order_of_files(files in files()) {
            let expected = together(&files.iter().collect::<Vec<_>>());
            for order in permutations(files.len()) {
                let ordered: Vec<&Seen> = order.iter().map(|at| &files[*at]).collect();
                prop_assert_eq!(together(&ordered), expected.clone(), "{:?}", ordered);
            }
        }
    }

    #[test]
    fn numbers_meet_where_some_type_of_any_file_has_all_of_them() {
        use DataType::{Decimal128, Decimal256, Float32, Float64, Int8, Int64, UInt32, UInt64, Utf8};
        assert_eq!(of(&[Int8, UInt64, Float64]), Some(Float64));
        assert_eq!(of(&[UInt64, Int64, Float32]), Some(Float64));
        assert_eq!(of(&[Int8, UInt64, Decimal128(5, 2)]), Some(Decimal128(22, 2)));
        assert_eq!(of(&[Decimal128(5, 2), UInt64, Int8]), Some(Decimal128(22, 2)));
        assert_eq!(of(&[UInt32, Decimal128(5, 2), Int8]), Some(Decimal128(21, 2)));
        assert_eq!(of(&[UInt32, Int8, Decimal128(5, 2)]), Some(Decimal128(21, 2)));
        assert_eq!(of(&[Int8, UInt64]), Some(Decimal128(20, 0)));
        assert_eq!(of(&[UInt64, Int8, Int64]), Some(Decimal128(20, 0)));
        assert_eq!(of(&[Decimal128(5, 2), Float32]), Some(Float64));
        assert_eq!(of(&[Decimal128(38, 2), Decimal256(76, 70)]), None);
        assert_eq!(of(&[Decimal128(38, 2), Decimal256(76, 70), Int8, Float32]), Some(Float64));
        assert_eq!(of(&[Int8, UInt64, Decimal256(76, 70)]), None);
        assert_eq!(of(&[Int8, UInt64, Utf8]), None);
        assert_eq!(of(&[Int8, UInt64, DataType::FixedSizeBinary(4)]), None);
    }

    #[test]
    fn a_conflict_names_the_file_that_made_it_and_no_type_that_there_is_not() {
        let field = |data_type| Field::new("x", data_type, false);
        let mut column = MergedColumn::of(&field(DataType::Int8), 0, false);
        column.add(&field(DataType::Int16), 1, false).unwrap();
        column.add(&field(DataType::Decimal256(76, 75)), 2, false).unwrap();
        column.add(&field(DataType::Decimal256(76, 75)), 3, true).unwrap();
        let failed = column.add(&field(DataType::Utf8), 4, false).unwrap_err();
        assert_eq!((failed.file, failed.other, failed.before), (4, 3, DataType::Int16));
        let (field, conflict) = column.finished(5);
        let conflict = conflict.unwrap();
        assert_eq!((conflict.file, conflict.other), (2, 1));
        assert_eq!(conflict.data_type, DataType::Decimal256(76, 75));
        assert_eq!(conflict.before, DataType::Int16);
        assert_eq!(*field.data_type(), DataType::Int16);
    }
}
