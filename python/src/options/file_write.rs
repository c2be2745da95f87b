//! Options of `write_parquet` and `write_orc`.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    DatasetMode, DatasetOptions, FileOptions, orc::OrcOptions, parquet::ParquetOptions,
};
use stylobate_storage::{Durability, Overwrite, SinkKind, SinkOptions};

use super::{
    orc, parquet,
    write::{parse_options, parsed, size},
};

/// The options of a `stylobate.write_parquet` or `stylobate.write_orc` call.
pub(crate) struct FileWriteRequest {
    pub(crate) options: FileOptions,
    pub(crate) sink: SinkOptions,
    pub(crate) overwrite: Overwrite,
    /// Set if the output is a folder of files, not one file.
    pub(crate) dataset: Option<DatasetOptions>,
}

/// Options of a call that has read some of its names.
#[derive(Default)]
struct GivenOptions<T> {
    options: T,
    sink: SinkOptions,
    overwrite: Overwrite,
    dataset: Option<DatasetOptions>,
}

impl FileWriteRequest {
    /// Reads names and values for Parquet, which the Python side has normalized.
    pub(crate) fn parquet(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        GivenOptions::<ParquetOptions>::read(options, parquet::with_option)
    }

    /// Reads names and values for ORC, which the Python side has normalized.
    pub(crate) fn orc(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        GivenOptions::<OrcOptions>::read(options, orc::with_option)
    }
}

impl<T: Default + Into<FileOptions>> GivenOptions<T> {
    fn read(
        options: &Bound<'_, PyDict>,
        with_option: impl Fn(T, &str, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> PyResult<FileWriteRequest> {
        let given: Self =
            parse_options(options, |given: Self, name, value| given.with(name, value, &with_option))?;
        let Self { options, sink, overwrite, dataset } = given;
        Ok(FileWriteRequest { options: options.into(), sink, overwrite, dataset })
    }

    fn with(
        mut self,
        name: &str,
        value: &Bound<'_, PyAny>,
        with_option: impl Fn(T, &str, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> PyResult<Self> {
        let dataset = || self.dataset.clone().unwrap_or_default();
        match name {
            "max_file_bytes" => self.dataset = Some(dataset().with_max_file_size(size(name, value)?)),
            "partition_by" => {
                self.dataset = Some(dataset().with_partition_by(value.extract::<Vec<String>>()?));
            }
            "mode" => self.dataset = Some(dataset().with_mode(parsed::<DatasetMode>(name, value)?)),
            "sink" => self.sink = self.sink.with_kind(parsed::<SinkKind>(name, value)?),
            "durability" => self.sink = self.sink.with_durability(parsed::<Durability>(name, value)?),
            "overwrite" => {
                self.overwrite = if value.extract()? { Overwrite::Replace } else { Overwrite::Refuse };
            }
            _ => self.options = with_option(self.options, name, value)?,
        }

        Ok(self)
    }
}
