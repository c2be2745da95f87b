//! A run: the files of a benchmark, one after another, and a manifest of their contents.
//!
//! The manifest is written before the first file and after each file. A run that finds the manifest of a run with the
//! same parameters resumes it: files whose size and hash still match the manifest are kept, and the others are
//! generated. A run that overwrites another lists the files of that one in its manifest. Once its own files are complete,
//! it removes those of its tables that it does not have itself.

use std::num::NonZeroUsize;

use futures::future::BoxFuture;
use stylobate_storage::run_blocking;

use crate::{
    Benchmark, Checksums, Error, FileFormat, Manifest, Output, Part, Result, Run, Scale, Table,
    columns::TableColumns,
    files::{
        file_writer::TableFileWriter,
        manifest::{ColumnEntry, FileEntry, PlannedTableFile, hexadecimal},
        output::FileDigest,
    },
    snb::SEED,
    stream::chunks,
};

/// Callback for events.
type EventObserver<'a> = Box<dyn FnMut(Event) + Send + 'a>;

/// Parameters of the files to generate.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    run: Run,
    threads: usize,
    overwrite: bool,
}

/// Progress of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A file of an earlier run is intact.
    Kept(FileEntry),
    /// Progress in the current file since the last event.
    Rows {
        /// Additional rows.
        rows: u64,
        /// Additional bytes.
        bytes: u64,
    },
    /// A file is complete.
    Written(FileEntry),
}

impl GenerateRequest {
    /// Creates a request for all tables of a benchmark, each in one part.
    pub fn new(benchmark: Benchmark, scale: Scale) -> Self {
        let tables = benchmark.tables().iter().map(|table| table.name().to_owned()).collect();
        let generator = match benchmark {
            Benchmark::TpcH => "tpchgen 4.0",
            Benchmark::TpcDs => "tpcdsgen 4.0",
            Benchmark::Snb => "stylobate snb 1",
        };

        let generator = generator.to_owned();
        let seed = (benchmark == Benchmark::Snb).then_some(SEED);
        let format = FileFormat::PARQUET;
        let run = Run { benchmark, scale, generator, seed, tables, parts: 1, part: None, format };
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { run, threads, overwrite: false }
    }

    /// Limits the run to these tables, generated in the benchmark's order. Default: [`Benchmark::tables`].
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`] if the benchmark lacks one of them.
    pub fn with_tables<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        let tables = names.iter().map(|name| self.run.benchmark.table(name.as_ref()));
        let tables: Vec<Table> = tables.collect::<Result<_>>()?;
        let wanted = self.run.benchmark.all_tables().into_iter().filter(|table| tables.contains(table));
        self.run.tables = wanted.map(|table| table.name().to_owned()).collect();
        Ok(self)
    }

    /// Sets the random seed of the social network. The rows of TPC-H and TPC-DS are fixed, so they ignore it.
    /// Default: 42.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.run.seed = self.run.seed.map(|_| seed);
        self
    }

    /// Generates a file for each of `parts` parts, or for one of them. Tables too small to be divided belong to part
    /// 1. Default: one part.
    ///
    /// # Errors
    ///
    /// [`Error::Part`] if there is no such part.
    pub fn with_parts(mut self, parts: u32, part: Option<u32>) -> Result<Self> {
        Part::new(part.unwrap_or(1), parts)?;
        (self.run.parts, self.run.part) = (parts, part);
        Ok(self)
    }

    /// Sets the format of the files. Default: [`FileFormat::PARQUET`].
    pub fn with_format(mut self, format: FileFormat) -> Self {
        self.run.format = format;
        self
    }

    /// Sets the number of threads that generate rows, and of those that encode them if the format allows it. With a
    /// single thread, it alternates between both. Default: the number of cores.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets whether the run starts over: existing files are replaced, and files of its tables that only the manifest of
    /// the previous run lists are removed at the end. Default: no.
    pub fn with_overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Returns the approximate number of rows in all files.
    pub fn estimated_rows(&self) -> Result<u64> {
        let rows = |file: PlannedTableFile| file.table.estimated_rows(self.run.scale, file.part);
        self.run.files()?.into_iter().map(rows).sum()
    }

    /// Generates the files. Nothing is written if the output contains other files ([`Error::Occupied`]). A dropped or
    /// failed run leaves only complete files, and repeating it resumes it. Must be used within a tokio runtime.
    pub fn generate<'a>(
        &'a self,
        output: &'a Output,
        observe: impl FnMut(Event) + Send + 'a,
    ) -> BoxFuture<'a, Result<Manifest>> {
        let observe: EventObserver<'a> = Box::new(observe);
        Box::pin(self.make(output, observe))
    }

    async fn make(&self, output: &Output, mut observe: EventObserver<'_>) -> Result<Manifest> {
        let mut manifest = self.begin(output).await?;
        let planned = self.run.files()?;
        let known = std::mem::take(&mut manifest.files);

        let mut missing = Vec::new();
        for file in planned {
            let entry = known.iter().find(|entry| entry.path == file.path);
            match entry {
                Some(entry) if is_as_noted(output, entry).await? => {
                    observe(Event::Kept(entry.clone()));
                    manifest.files.push(entry.clone());
                }
                _ => missing.push(file),
            }
        }

        if missing.is_empty() && manifest.complete {
            return Ok(manifest);
        }
        manifest.complete = false;
        manifest.write(output).await?;
        for file in missing {
            let entry = self.file(&file, output, &mut observe).await?;
            manifest.files.push(entry.clone());
            manifest.write(output).await?;
            observe(Event::Written(entry));
        }

        manifest.remove_superseded(output).await?;
        let order = |entry: &FileEntry| self.run.tables.iter().position(|name| *name == entry.table);
        manifest.files.sort_by_key(|entry| (order(entry), entry.part));
        manifest.complete = true;
        manifest.write(output).await?;
        Ok(manifest)
    }

    /// Returns the manifest to resume, or a new one.
    async fn begin(&self, output: &Output) -> Result<Manifest> {
        if self.overwrite {
            return Manifest::overwriting(output, self.run.clone()).await;
        }
        let fresh = Manifest::new(self.run.clone());
        let occupied = |reason: String| Error::Occupied { output: output.name().to_owned(), reason };
        if let Some(found) = Manifest::read(output, &self.run.manifest()).await? {
            return match self.run.difference(&found.run) {
                None => Ok(found),
                Some(difference) => Err(occupied(format!("holds another run: {difference}"))),
            };
        }

        // Other parts of the same run may exist.
        let names = output.names().await?;
        let manifests = names.iter().filter(|name| self.run.part.is_some() && is_manifest_of_part(name));

        let mut has_other_parts = false;
        for name in manifests {
            let Some(found) = Manifest::read(output, name).await? else { continue };
            if let Some(difference) = self.run.difference(&found.run) {
                return Err(occupied(format!("holds another run: {difference}")));
            }
            has_other_parts = true;
        }

        if has_other_parts {
            return Ok(fresh);
        }
        match names.first() {
            None => Ok(fresh),
            Some(name) => Err(occupied(format!("not empty ({name} is there), and no run that could go on"))),
        }
    }

    async fn file(
        &self,
        file: &PlannedTableFile,
        output: &Output,
        observe: &mut EventObserver<'_>,
    ) -> Result<FileEntry> {
        let format = self.run.format;
        let table = file.table;
        let columns = TableColumns::new(table, self.run.scale, format.representation());
        let schema = columns.schema();
        let mut chunks = chunks(table, self.run.scale, file.part, self.threads, &columns, || {
            let mut preparer = format.preparer(table, schema);
            move |batches| preparer.prepare(batches)
        })?;

        let sink = output.sink(&file.path).await?;
        let name = output.name_of(&file.path);
        let mut writer = TableFileWriter::new(format, self.run.benchmark, schema, self.threads, name, sink)?;

        let mut sums = Checksums::with_columns(schema.fields().len());
        let mut bytes = 0;
        loop {
            let (rest, chunk) = run_blocking(move || {
                let chunk = chunks.next();
                (chunks, chunk)
            })
            .await?;
            chunks = rest;
            let Some(chunk) = chunk else { break };

            let chunk = chunk.map_err(|reason| Error::Generator { table: table.name(), reason })?;
            sums.merge(&chunk.sums);
            let rows = chunk.sums.rows();
            writer.write(chunk).await?;
            observe(Event::Rows { rows, bytes: writer.bytes() - bytes });
            bytes = writer.bytes();
        }

        let digest = writer.finish().await?;
        observe(Event::Rows { rows: 0, bytes: digest.bytes.saturating_sub(bytes) });
        let columns = schema.fields().iter().zip(sums.sums());
        Ok(FileEntry {
            path: file.path.clone(),
            table: table.name().to_owned(),
            part: file.part.number(),
            rows: sums.rows(),
            bytes: digest.bytes,
            xxh3: hexadecimal(digest.xxh3),
            columns: columns
                .map(|(field, sum)| ColumnEntry { name: field.name().clone(), checksum: hexadecimal(sum) })
                .collect(),
        })
    }
}

fn is_manifest_of_part(name: &str) -> bool {
    name.starts_with("manifest.") && name.ends_with(".json") && name.contains("-of-")
}

/// Returns whether a file still has the size and hash recorded in the manifest.
async fn is_as_noted(output: &Output, entry: &FileEntry) -> Result<bool> {
    let digest = output.digest(&entry.path).await?;
    let is = |digest: FileDigest| digest.bytes == entry.bytes && hexadecimal(digest.xxh3) == entry.xxh3;
    Ok(digest.is_some_and(is))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use stylobate_storage::SinkOptions;

    use super::*;

    fn output(location: &str) -> Output {
        Output::open(location, &[], SinkOptions::default()).unwrap()
    }

    fn request(parts: u32) -> GenerateRequest {
        let request = GenerateRequest::new(Benchmark::TpcH, Scale::new(0.01).unwrap());
        let request = request.with_tables(&["orders", "region"]).unwrap();
        request.with_parts(parts, None).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    async fn make(request: GenerateRequest, output: &Output) -> Manifest {
        request.generate(output, |_| {}).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_of_an_overwritten_run_are_removed_unless_the_new_run_has_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nation.parquet"), "mine").unwrap();
        let output = output(folder.path().to_str().unwrap());
        make(request(4).with_overwrite(true), &output).await;
        assert_eq!(names(&folder.path().join("orders")).len(), 4);

        let manifest = make(request(2).with_overwrite(true), &output).await;
        assert_eq!(names(&folder.path().join("orders")), ["orders.1.parquet", "orders.2.parquet"]);
        assert_eq!(Manifest::read(&output, "manifest.json").await.unwrap().unwrap(), manifest);
        assert!(manifest.complete && manifest.superseded.is_empty());

        make(request(1).with_overwrite(true), &output).await;
        let left = ["manifest.json", "nation.parquet", "orders.parquet", "region.parquet"];
        assert_eq!(names(folder.path()), left);

        // Other tables are kept.
        make(request(1).with_tables(&["region"]).unwrap().with_overwrite(true), &output).await;
        assert_eq!(names(folder.path()), left);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_of_an_overwritten_run_are_removed_unless_the_new_run_has_them() {
        let output = output("memory:///bench/tpch");
        make(request(4), &output).await;
        make(request(2).with_overwrite(true), &output).await;
        for (part, is_there) in [(1, true), (2, true), (3, false), (4, false)] {
            let digest = output.digest(&format!("orders/orders.{part}.parquet")).await.unwrap();
            assert_eq!(digest.is_some(), is_there, "part {part}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_that_overwrites_another_and_is_resumed_removes_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let output = output(folder.path().to_str().unwrap());
        make(request(4), &output).await;

        // Interrupted before its first file, started over, and interrupted again.
        for _ in 0..2 {
            let begun = Manifest::overwriting(&output, request(2).run).await.unwrap();
            begun.write(&output).await.unwrap();
        }
        assert_eq!(names(&folder.path().join("orders")).len(), 4);

        make(request(2), &output).await;
        assert_eq!(names(&folder.path().join("orders")), ["orders.1.parquet", "orders.2.parquet"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_damaged_manifest_removes_nothing_outside_of_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        let mine = parent.path().join("orders.parquet");
        fs::write(&mine, "mine").unwrap();
        let folder = parent.path().join("out");
        let output = output(folder.to_str().unwrap());
        let mut damaged = make(request(2), &output).await;
        let paths = ["../orders.parquet".to_owned(), mine.to_str().unwrap().to_owned()];
        for (file, path) in damaged.files.iter_mut().zip(paths) {
            file.path = path;
        }
        damaged.write(&output).await.unwrap();

        make(request(1).with_overwrite(true), &output).await;
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");

        fs::write(folder.join("manifest.json"), "{").unwrap();
        assert!(make(request(1).with_overwrite(true), &output).await.complete);
    }
}
