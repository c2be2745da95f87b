//! A column of several files: the type that it has in all of them together.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};

use crate::schema::{Unit, coarser, finer, widened};

/// A column as the files so far have it together.
pub(crate) struct MergedColumn {
    pub(crate) field: Field,
    /// The last file that has it.
    pub(crate) file: usize,
    /// How many files have it, and never as null.
    required: usize,
    /// As it was written, where all files so far say the same and it has a dictionary.
    written: Option<FieldRef>,
    /// What the files make of it whose unit of time was chosen by their values, and the others.
    chosen: Option<DataType>,
    others: Option<DataType>,
}

impl MergedColumn {
    /// The column of the first file that has it.
    pub(crate) fn of(field: &Field, written: &FieldRef, file: usize, is_chosen: bool) -> Self {
        let of = |are: bool| are.then(|| field.data_type().clone());
        let required = usize::from(!field.is_nullable());
        Self {
            field: field.clone().with_nullable(true),
            file,
            required,
            written: Some(written.clone()).filter(|written| written.data_type() != field.data_type()),
            chosen: of(is_chosen),
            others: of(!is_chosen),
        }
    }

    /// The column as it appears in a table of `files` files. It is non-nullable only if every file has it and says so.
    pub(crate) fn finished(self, files: usize) -> Field {
        self.field.with_nullable(self.required < files)
    }

    /// The column as it was written, if that is another type than its values have.
    pub(crate) fn written(&self, files: usize) -> Option<FieldRef> {
        let written = self.written.as_ref()?.as_ref().clone();
        let said = self.field.metadata().clone();
        Some(Arc::new(written.with_nullable(self.required < files).with_metadata(said)))
    }

    /// The column with one file more; `None` if there is no type that has the values of all.
    pub(crate) fn add(
        &mut self,
        field: &Field,
        written: &FieldRef,
        file: usize,
        is_chosen: bool,
    ) -> Option<()> {
        self.file = file;
        // A dictionary that is ordered and one that is not are two.
        self.written.take_if(|known| {
            known.data_type() != written.data_type() || known.dict_is_ordered() != written.dict_is_ordered()
        });
        self.required += usize::from(!field.is_nullable());
        let (mine, others, unit): (_, _, Unit) = match is_chosen {
            // They have nanoseconds unless their years are far, and where those of others are, microseconds mostly do.
            true => (&mut self.chosen, &self.others, coarser),
            false => (&mut self.others, &self.chosen, finer),
        };
        if mine.as_ref() != Some(field.data_type()) {
            let wider = match &*mine {
                Some(known) => widened(known, field.data_type(), unit)?,
                None => field.data_type().clone(),
            };
            let mine = mine.insert(wider);
            let data_type = match others {
                Some(others) => widened(others, mine, finer)?,
                None => mine.clone(),
            };
            self.field.set_data_type(data_type);
        }
        // What is said of a column holds of the table where all files say it.
        self.field.metadata_mut().retain(|key, value| field.metadata().get(key) == Some(value));
        Some(())
    }
}
