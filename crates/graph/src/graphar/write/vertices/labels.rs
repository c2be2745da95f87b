//! Labels of vertices, one bitmap per label.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use crate::{
    Result,
    graphar::write::{
        columns::{InputColumnCast, InputColumns},
        names::unwritable,
    },
};

/// Labels of all vertices of a type so far.
#[derive(Debug)]
pub(crate) struct LabelColumnsBuilder {
    of: String,
    /// Column of labels; without one, every vertex has all of them.
    column: Option<InputColumnCast>,
    /// True if the labels are fixed in advance.
    is_closed: bool,
    names: Vec<String>,
    positions: HashMap<String, usize>,
    bits: Vec<BooleanBufferBuilder>,
    rows: usize,
}

impl LabelColumnsBuilder {
    /// Returns a builder for the labels of a column, for the given labels, or for both if the column has no others;
    /// `None` without either.
    pub(crate) fn new(input: &InputColumns, column: Option<&str>, names: &[String]) -> Result<Option<Self>> {
        if column.is_none() && names.is_empty() {
            return Ok(None);
        }
        let column = column.map(|name| {
            let to = label_type(input.field(name)?.1.data_type());
            let to = to.ok_or_else(|| {
                unwritable(input.of(), format!("column {name}: labels are texts or lists of texts"))
            })?;
            input.column(name, to)
        });

        let mut labels = Self {
            of: input.of().to_owned(),
            column: column.transpose()?,
            is_closed: !names.is_empty(),
            names: Vec::new(),
            positions: HashMap::new(),
            bits: Vec::new(),
            rows: 0,
        };

        for name in names {
            labels.add(name)?;
        }
        Ok(Some(labels))
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bits.iter().map(|bits| bits.capacity() / 8).sum()
    }

    /// Adds the labels of the next vertices. `first_row` is the number of the batch's first row, for errors.
    pub(crate) fn push(&mut self, input: &InputColumns, batch: &RecordBatch, first_row: u64) -> Result<()> {
        let start = self.rows;
        self.rows += batch.num_rows();
        let Some(column) = self.column.clone() else {
            self.bits.iter_mut().for_each(|bits| bits.append_n(batch.num_rows(), true));
            return Ok(());
        };
        self.bits.iter_mut().for_each(|bits| bits.append_n(batch.num_rows(), false));
        let labels = input.values(&column, batch, first_row)?;
        let row_labels = |row: usize| match labels.as_list_opt::<i32>() {
            Some(lists) => lists.value(row),
            None => labels.slice(row, 1),
        };

        for row in (0..labels.len()).filter(|row| labels.is_valid(*row)) {
            for label in row_labels(row).as_string::<i32>().iter().flatten() {
                let position = self.label_position(label, column.name(), first_row + row as u64)?;
                if let Some(bits) = self.bits.get_mut(position) {
                    bits.set_bit(start + row, true);
                }
            }
        }

        Ok(())
    }

    /// Returns the position of a label, appending it if it is new.
    fn label_position(&mut self, label: &str, column: &str, row: u64) -> Result<usize> {
        if let Some(position) = self.positions.get(label) {
            return Ok(*position);
        }
        if self.is_closed {
            let known = self.names.join(", ");
            let reason = format!("column {column}: label {label:?} of row {row} is none of {known}");
            return Err(unwritable(&self.of, reason));
        }
        self.add(label)
    }

    fn add(&mut self, label: &str) -> Result<usize> {
        if label.is_empty() {
            return Err(unwritable(&self.of, "a label is an empty text"));
        }
        let position = self.names.len();
        if self.positions.insert(label.to_owned(), position).is_some() {
            return Err(unwritable(&self.of, format!("label {label} is there twice")));
        }

        self.names.push(label.to_owned());
        let mut bits = BooleanBufferBuilder::new(self.rows);
        bits.append_n(self.rows, false);
        self.bits.push(bits);
        Ok(position)
    }

    /// Returns the columns of all vertices.
    pub(crate) fn finish(mut self) -> LabelColumns {
        let fields = self.names.iter().map(|name| Field::new(name, DataType::Boolean, false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = self.bits.iter_mut().map(BooleanBufferBuilder::finish).collect();
        LabelColumns { schema, columns }
    }
}

/// Bitmap per label.
#[derive(Debug)]
pub(crate) struct LabelColumns {
    pub(crate) schema: SchemaRef,
    columns: Vec<BooleanBuffer>,
}

impl LabelColumns {
    /// Returns the labels of some vertices.
    pub(crate) fn rows(&self, start: usize, count: usize) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|bits| Arc::new(BooleanArray::new(bits.slice(start, count), None)) as ArrayRef);
        let batch = RecordBatch::try_new(self.schema.clone(), columns.collect());
        batch.map_err(|error| unwritable("labels", error.to_string()))
    }
}

/// Returns the type that a column of labels is cast to.
fn label_type(from: &DataType) -> Option<DataType> {
    let is_text = |from: &DataType| matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match from {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => match label_type(item.data_type()) {
            Some(DataType::Utf8) => Some(DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))),
            _ => None,
        },
        DataType::Dictionary(_, values) => label_type(values),
        from => is_text(from).then_some(DataType::Utf8),
    }
}
