//! The manifest of a run: its parameters, and the contents of each complete file.

use serde::{Deserialize, Serialize};
use stylobate_storage::Error as StorageError;

use crate::{Benchmark, Error, FileFormat, Output, Part, Result, Scale};

/// Version of the manifest's format and of the checksums.
const VERSION: u32 = 1;

/// Result of a run. Written as `manifest.json` beside the files, and rewritten after each file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// Parameters of the run.
    #[serde(flatten)]
    pub run: Run,
    /// True if all files are complete.
    pub complete: bool,
    /// The complete files.
    pub files: Vec<FileEntry>,
    /// Paths of the files of overwritten runs. Once all files of this run are complete, those of its tables that it does
    /// not have are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) superseded: Vec<String>,
}

/// Parameters of a run that affect its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The scale.
    pub scale: Scale,
    /// Generator of the rows.
    pub generator: String,
    /// Random seed, if rows are random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The tables, in the order in which they are generated.
    pub tables: Vec<String>,
    /// Number of parts of each table.
    pub parts: u32,
    /// The only part that was generated; `None` for all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Format of the files.
    #[serde(flatten)]
    pub format: FileFormat,
}

/// A file and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path relative to the folder of the manifest.
    pub path: String,
    /// Name of the table.
    pub table: String,
    /// Part number, from 1.
    pub part: u32,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3 of the file's bytes (64 bits, seed 0), as 16 hexadecimal digits.
    pub xxh3: String,
    /// The columns.
    pub columns: Vec<ColumnEntry>,
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Name of the column.
    pub name: String,
    /// Checksum (see [`Checksums`](crate::Checksums)), as 16 hexadecimal digits.
    pub checksum: String,
}

impl Manifest {
    pub(crate) fn new(run: Run) -> Self {
        Self { version: VERSION, run, complete: false, files: Vec::new(), superseded: Vec::new() }
    }

    /// Creates the manifest of a run that overwrites the one whose manifest has the same name, if any. A manifest that
    /// cannot be parsed names no files.
    pub(crate) async fn overwriting(output: &Output, run: Run) -> Result<Self> {
        let mut manifest = Self::new(run);
        match Self::read(output, &manifest.run.manifest()).await {
            Ok(Some(previous)) => {
                manifest.superseded = previous.superseded;
                manifest.superseded.extend(previous.files.into_iter().map(|file| file.path));
                manifest.superseded.sort_unstable();
                manifest.superseded.dedup();
            }
            Ok(None) | Err(Error::Manifest { .. }) => {}
            // A writer without the right to read or list cannot know.
            Err(Error::Storage(error)) if is_refused(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(manifest)
    }

    /// Reads the manifest with this name, if it exists.
    pub(crate) async fn read(output: &Output, name: &str) -> Result<Option<Self>> {
        let bytes = match output.read(name).await {
            Ok(bytes) => bytes,
            Err(Error::Storage(StorageError::NotFound { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        let wrong = |reason: String| Error::Manifest { manifest: output.name_of(name), reason };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;

        match manifest.version {
            VERSION => Ok(Some(manifest)),
            other => Err(wrong(format!("its version is {other}, where {VERSION} was expected"))),
        }
    }

    /// Writes the manifest, replacing the previous one.
    pub(crate) async fn write(&self, output: &Output) -> Result<()> {
        let name = self.run.manifest();
        let wrong = |reason: String| Error::Manifest { manifest: output.name_of(&name), reason };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| wrong(error.to_string()))?;
        text.push(b'\n');
        let mut sink = output.sink(&name).await?;
        sink.write(&text).await?;
        sink.finish().await?;
        Ok(())
    }

    /// Removes the files of this run's tables that overwritten runs had and this one does not.
    pub(crate) async fn remove_superseded(&mut self, output: &Output) -> Result<()> {
        for path in std::mem::take(&mut self.superseded) {
            let is_current = self.files.iter().any(|file| file.path == path);
            let is_of_run =
                table_of(&path).is_some_and(|table| self.run.tables.iter().any(|name| name == table));
            if !is_current && is_of_run {
                output.remove(&path).await?;
            }
        }
        Ok(())
    }
}

impl Run {
    /// Returns the name of the manifest. Runs that generate one part each may share a folder.
    pub fn manifest(&self) -> String {
        match self.part {
            None => "manifest.json".to_owned(),
            Some(part) => format!("manifest.{part}-of-{}.json", self.parts),
        }
    }

    /// Returns the files of the run, in order.
    pub(crate) fn files(&self) -> Result<Vec<PlannedTableFile>> {
        let mut files = Vec::new();
        for name in &self.tables {
            let table = self.benchmark.table(name)?;
            let table = self.seed.map_or(table, |seed| table.with_seed(seed));
            let extension = self.format.write_format().extension();
            let is_cut = self.parts > 1 && table.is_cut(self.scale)?;
            let parts = match (is_cut, self.part) {
                (true, Some(part)) => part..=part,
                (true, None) => 1..=self.parts,
                (false, Some(part)) if part > 1 => continue,
                (false, _) => 1..=1,
            };

            for number in parts {
                files.push(if is_cut {
                    PlannedTableFile {
                        table,
                        part: Part::new(number, self.parts)?,
                        path: format!("{name}/{name}.{number}.{extension}"),
                    }
                } else {
                    PlannedTableFile { table, part: Part::WHOLE, path: format!("{name}.{extension}") }
                });
            }
        }

        Ok(files)
    }

    /// Returns the first difference from another run, if any; ignores which part each generates.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let texts = |run: &Self| {
            [
                format!("{} at scale {}", run.benchmark, run.scale),
                run.seed.map_or_else(|| "no seed".to_owned(), |seed| format!("seed {seed}")),
                format!("made by {}", run.generator),
                format!("tables {}", run.tables.join(",")),
                format!("{} parts", run.parts),
                format!("{:?}", run.format),
            ]
        };
        let differs = texts(self).into_iter().zip(texts(other)).find(|(ours, theirs)| ours != theirs);
        differs.map(|(ours, theirs)| format!("{theirs}, not {ours}"))
    }
}

/// A file to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedTableFile {
    pub(crate) table: crate::Table,
    pub(crate) part: Part,
    /// Path relative to the folder of the manifest.
    pub(crate) path: String,
}

/// Returns whether a store refused a request for lack of rights.
fn is_refused(error: &StorageError) -> bool {
    use object_store::Error;

    let StorageError::Origin { source, .. } = error else { return false };
    matches!(**source, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
}

/// Returns the table of a file with such a path as runs write: `orders.parquet`, or `orders/orders.2.parquet` for part 2.
/// A damaged manifest may list any path, even one outside of its folder.
fn table_of(path: &str) -> Option<&str> {
    let (folder, name) = match path.split_once('/') {
        Some((folder, name)) => (Some(folder), name),
        None => (None, path),
    };
    let (stem, extension) = name.rsplit_once('.')?;
    let table = match folder {
        None => stem,
        Some(folder) => match stem.rsplit_once('.') {
            Some((table, part)) if table == folder && part.parse::<u32>().is_ok() => table,
            _ => return None,
        },
    };

    let is_table = |benchmark: Benchmark| benchmark.table(table).is_ok();
    (FileFormat::is_extension(extension) && Benchmark::ALL.into_iter().any(is_table)).then_some(table)
}

/// Formats a hash or checksum as in a manifest: 16 digits.
pub(crate) fn hexadecimal(number: u64) -> String {
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parts: u32, part: Option<u32>) -> Run {
        Run {
            benchmark: Benchmark::TpcH,
            scale: Scale::new(0.01).unwrap(),
            generator: "x".to_owned(),
            seed: None,
            tables: vec!["orders".to_owned(), "nation".to_owned()],
            parts,
            part,
            format: FileFormat::PARQUET,
        }
    }

    #[test]
    fn a_run_has_one_file_per_part_and_small_tables_have_one_part() {
        let paths = |parts, part| {
            let files = run(parts, part).files().unwrap();
            files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(1, None), ["orders.parquet", "nation.parquet"]);
        assert_eq!(paths(2, None), ["orders/orders.1.parquet", "orders/orders.2.parquet", "nation.parquet"]);
        assert_eq!(paths(2, Some(2)), ["orders/orders.2.parquet"]);
        assert_eq!(run(8, Some(3)).manifest(), "manifest.3-of-8.json");
    }

    #[test]
    fn a_manifest_is_read_back_and_names_the_first_difference_of_runs() {
        let manifest = Manifest::new(run(2, Some(1)));
        let text = serde_json::to_string(&manifest).unwrap();
        assert!(
            text.contains(r#""benchmark":"tpch""#) && text.contains(r#""compression":"snappy""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        assert_eq!(run(2, Some(1)).difference(&run(2, None)), None);
        assert_eq!(run(2, None).difference(&run(3, None)).unwrap(), "3 parts, not 2 parts");
    }

    #[test]
    fn paths_of_runs_are_recognized_and_others_are_not() {
        for parts in [1, 2] {
            for file in run(parts, None).files().unwrap() {
                assert!(table_of(&file.path).is_some(), "{}", file.path);
            }
        }
        for path in ["store_sales.orc", "likes_post/likes_post.12.csv", "region.arrow"] {
            assert!(table_of(path).is_some(), "{path}");
        }

        for path in [
            "",
            "orders",
            "mine.parquet",
            "manifest.json",
            "orders.json",
            "/orders.parquet",
            "../orders.parquet",
            "../orders/orders.1.parquet",
            "orders/nation.1.parquet",
            "orders/orders.parquet",
            "orders/orders.x.parquet",
            "orders/../orders.1.parquet",
        ] {
            assert_eq!(table_of(path), None, "{path}");
        }
    }
}
