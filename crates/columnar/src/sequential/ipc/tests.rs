//! Damaged files and streams, read without a scan: any change of one byte ends in batches or an error.

use std::{
    io::{self, Cursor},
    sync::Arc,
};

use arrow::{
    array::{
        ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, RunArray, StringArray,
        UnionArray,
    },
    datatypes::{DataType, Field, Int8Type, Int32Type, UnionFields},
    ipc::{
        CompressionType, MetadataVersion,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_storage::Corrupt;

use super::{file::IpcFileReader, stream::IpcStreamReader};

type Columns = Vec<(&'static str, ArrayRef)>;

fn numbers() -> Columns {
    vec![("n", Arc::new(Int64Array::from_iter_values(0..200)))]
}

fn words() -> Columns {
    let words: DictionaryArray<Int8Type> = [Some("a"), None, Some("b")].into_iter().collect();
    let text = StringArray::from(vec![Some("x"), Some(""), None]);
    vec![("w", Arc::new(words)), ("t", Arc::new(text))]
}

fn runs_and_unions() -> Columns {
    let ends = Int32Array::from(vec![2, 3, 6]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec!["a", "b", "c"])).unwrap();

    let fields = UnionFields::from_fields(vec![
        Field::new("i", DataType::Int32, true),
        Field::new("f", DataType::Float64, true),
    ]);
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5])), Arc::new(Float64Array::from(vec![0.5, 1.5]))];
    let types = vec![0_i8, 1, 0, 0, 1, 0].into();
    let offsets = vec![0, 0, 1, 2, 1, 3].into();
    let union = UnionArray::try_new(fields, types, Some(offsets), children).unwrap();
    vec![("r", Arc::new(runs)), ("u", Arc::new(union))]
}

/// Encodes columns with an alignment of 8 bytes: few changes hit padding.
fn written(columns: Columns, compression: Option<CompressionType>, is_file: bool) -> Vec<u8> {
    let fields = columns.iter().map(|(name, array)| (*name, array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(fields).unwrap();
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let options = options.try_with_compression(compression).unwrap();
    let mut bytes = Vec::new();
    if is_file {
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    } else {
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }

    bytes
}

/// Reads all batches, and returns the number of their rows.
fn read(bytes: &[u8], is_file: bool) -> io::Result<usize> {
    let batches: Box<dyn Iterator<Item = io::Result<RecordBatch>> + '_> = if is_file {
        Box::new(IpcFileReader::open(Cursor::new(bytes), bytes.len() as u64)?)
    } else {
        Box::new(IpcStreamReader::new(bytes)?)
    };

    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        rows += batch.num_rows();
    }
    Ok(rows)
}

fn check_every_change_of_one_byte(columns: Columns, compression: Option<CompressionType>) {
    let bytes = written(columns, compression, true);
    assert!(read(&bytes, true).unwrap() > 0);
    let mut damaged = bytes.clone();
    for (at, byte) in bytes.iter().enumerate() {
        for change in 1..=u8::MAX {
            damaged[at] = byte ^ change;
            let _ = read(&damaged, true);
        }
        damaged[at] = *byte;
    }
}

#[test]
fn every_change_of_one_byte_of_a_compressed_file_ends_in_batches_or_an_error() {
    check_every_change_of_one_byte(numbers(), Some(CompressionType::ZSTD));
}

#[test]
fn every_change_of_one_byte_of_a_file_with_a_dictionary_ends_in_batches_or_an_error() {
    check_every_change_of_one_byte(words(), None);
}

#[test]
fn changes_of_streams_and_of_other_types_end_in_batches_or_an_error() {
    let mut random = StdRng::seed_from_u64(11);
    let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    for columns in [numbers(), words(), runs_and_unions()] {
        for compression in codecs {
            for is_file in [true, false] {
                let bytes = written(columns.clone(), compression, is_file);
                assert!(read(&bytes, is_file).unwrap() > 0);
                for _ in 0..2_000 {
                    let mut damaged = bytes.clone();
                    for _ in 0..random.random_range(1..=2) {
                        let at = random.random_range(0..damaged.len());
                        damaged[at] = [random.random(), 0, 0x80, 0xFF][random.random_range(0..4_usize)];
                    }
                    let _ = read(&damaged, is_file);
                }
            }
        }
    }
}

#[test]
fn a_stream_that_is_cut_is_an_error_but_between_messages() {
    let bytes = written(words(), None, false);
    let whole = (0..=bytes.len()).filter(|end| read(&bytes[..*end], false).is_ok()).count();
    // After the schema, the dictionary, the batch and the marker of the end.
    assert_eq!(whole, 4);

    let error = read(&bytes[..bytes.len() / 2], false).unwrap_err();
    let corrupt = error.get_ref().and_then(|error| error.downcast_ref::<Corrupt>());
    assert!(corrupt.is_some(), "{error}");
}
