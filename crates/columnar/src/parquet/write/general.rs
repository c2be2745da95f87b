//! Encodes columns of any type through the parquet crate.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::{FieldRef, Schema},
};
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::{
    arrow::{
        ArrowSchemaConverter,
        arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves},
    },
    column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory},
    errors::{ParquetError, Result},
    file::{properties::WriterPropertiesPtr, writer::SerializedFileWriter},
};

use super::{chunk::EncodedChunk, logical_types::with_geo_types};

/// Leaves of one top-level column.
pub(super) struct GenericColumnEncoder {
    field: FieldRef,
    leaves: Vec<(ArrowColumnWriter, PageBlobs)>,
}

/// Pages of a column writer: headers and bodies alternate, and the dictionary page comes last.
type PageBlobs = Arc<Mutex<Vec<Bytes>>>;

impl GenericColumnEncoder {
    /// Creates the encoder of arrays with the type of `physical`, for a column with the type of `field` in the file.
    pub(super) fn new(
        field: &FieldRef,
        physical: &FieldRef,
        properties: &WriterPropertiesPtr,
    ) -> Result<Self> {
        let converter = ArrowSchemaConverter::new().with_coerce_types(properties.coerce_types());
        let converted = converter.convert(&Schema::new(vec![field.clone()]))?;
        let root = with_geo_types(converted, std::iter::once(field))?.root_schema_ptr();
        let schema = Arc::new(Schema::new(vec![physical.clone()]));
        let file = SerializedFileWriter::new(std::io::sink(), root, properties.clone())?;
        let taps = Arc::new(PageCaptureFactory::default());
        let factory = ArrowRowGroupWriterFactory::new(&file, schema).with_page_store_factory(taps.clone());
        let writers = factory.create_column_writers(0)?;
        let blobs = std::mem::take(&mut *taps.blobs.lock());

        if blobs.len() != writers.len() {
            return Err(ParquetError::General("a leaf without pages".to_owned()));
        }

        Ok(Self { field: physical.clone(), leaves: writers.into_iter().zip(blobs).collect() })
    }

    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let arrays = compute_leaves(&self.field, array)?;
        self.leaves.iter_mut().zip(&arrays).try_for_each(|((writer, _), array)| writer.write(array))
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.leaves.iter().map(|(writer, _)| writer.memory_size()).sum()
    }

    /// Returns an estimate of the chunks' bytes.
    pub(super) fn encoded(&self) -> usize {
        self.leaves.iter().map(|(writer, _)| writer.get_estimated_total_bytes()).sum()
    }

    pub(super) fn finish(self) -> Result<Vec<EncodedChunk>> {
        self.leaves.into_iter().map(|(writer, blobs)| finish(writer, &blobs)).collect()
    }
}

fn finish(writer: ArrowColumnWriter, blobs: &PageBlobs) -> Result<EncodedChunk> {
    let chunk = writer.close()?;
    let mut close = chunk.close().clone();
    let mut blobs = std::mem::take(&mut *blobs.lock());
    if let Some(offset) = close.metadata.dictionary_page_offset() {
        // The offset of the dictionary page is the number of bytes stored before it; it must move to the front.
        let mut before = 0;
        let at = blobs.iter().position(|blob| {
            let is_here = before == offset;
            before += blob.len() as i64;
            is_here
        });
        let at = at.ok_or_else(|| ParquetError::General("a dictionary that is not there".to_owned()))?;
        let length = blobs.iter().skip(at).take(2).map(Bytes::len).sum();
        blobs.get_mut(..at + 2).unwrap_or_default().rotate_right(2);
        close = close.update_dictionary_location(length)?;
    }

    Ok(EncodedChunk {
        blobs,
        metadata: close.metadata,
        column_index: close.column_index,
        offset_index: close.offset_index,
        bloom_filter: close.bloom_filter,
        rows: close.rows_written,
        hashes: None,
    })
}

/// Factory of writers that capture the pages of each leaf.
#[derive(Debug, Default)]
struct PageCaptureFactory {
    blobs: Mutex<Vec<PageBlobs>>,
}

impl PageStoreFactory for PageCaptureFactory {
    fn create(&self, _: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let blobs = PageBlobs::default();
        self.blobs.lock().push(blobs.clone());
        Ok(Box::new(PageCapture(blobs)))
    }
}

struct PageCapture(PageBlobs);

impl PageStore for PageCapture {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let mut blobs = self.0.lock();
        blobs.push(value);
        Ok(PageKey::new(blobs.len() as u64 - 1))
    }

    fn take(&mut self, _: PageKey) -> Result<Bytes> {
        Err(ParquetError::General("pages are taken elsewhere".to_owned()))
    }

    fn memory_size(&self) -> usize {
        self.0.lock().iter().map(Bytes::len).sum()
    }
}
