//! What a run writes down: what it was asked for, and of each file that is whole what it holds.

use serde::{Deserialize, Serialize};
use stylobate_storage::Error as StorageError;

use crate::{Benchmark, Error, FileFormat, Output, Part, Result, Scale};

/// The version of what a manifest looks like, and of how checksums are made.
const VERSION: u32 = 1;

/// What a run made. Written as `manifest.json` beside the files, anew after each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// What was asked for.
    #[serde(flatten)]
    pub run: Run,
    /// Whether all files are there.
    pub complete: bool,
    /// The files that are whole.
    pub files: Vec<FileEntry>,
}

/// What a run was asked for, as far as it shows in its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The scale.
    pub scale: Scale,
    /// What made the rows.
    pub generator: String,
    /// What chance began with, where the rows are made by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The tables, in the order in which they are made.
    pub tables: Vec<String>,
    /// How many parts tables are cut into.
    pub parts: u32,
    /// The only part that was made; else all of them were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// How the files are written.
    #[serde(flatten)]
    pub format: FileFormat,
}

/// A file and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Where it is, from the folder of the manifest.
    pub path: String,
    /// Its table.
    pub table: String,
    /// Which part of it, from 1.
    pub part: u32,
    /// Its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// XXH3 of its bytes, 64 bits with seed 0, as 16 hexadecimal digits.
    pub xxh3: String,
    /// Its columns.
    pub columns: Vec<ColumnEntry>,
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Its name.
    pub name: String,
    /// Its checksum (see [`Checksums`](crate::Checksums)), as 16 hexadecimal digits.
    pub checksum: String,
}

impl Manifest {
    pub(crate) fn new(run: Run) -> Self {
        Self { version: VERSION, run, complete: false, files: Vec::new() }
    }

    /// The manifest of this name, if there is one.
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

    /// Writes it in place of what it was before.
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
}

impl Run {
    /// The name of its manifest: runs that make one part each may share a folder.
    pub fn manifest(&self) -> String {
        match self.part {
            None => "manifest.json".to_owned(),
            Some(part) => format!("manifest.{part}-of-{}.json", self.parts),
        }
    }

    /// The files that it makes, in order.
    pub(crate) fn files(&self) -> Result<Vec<PlannedTableFile>> {
        let mut files = Vec::new();
        for name in &self.tables {
            let table = self.benchmark.table(name)?;
            let table = self.seed.map_or(table, |seed| table.with_seed(seed));
            let (extension, is_cut) = (self.format.extension(), self.parts > 1 && table.is_cut(self.scale)?);
            let parts = match (is_cut, self.part) {
                (true, Some(part)) => part..=part,
                (true, None) => 1..=self.parts,
                (false, Some(part)) if part > 1 => continue,
                (false, _) => 1..=1,
            };
            for number in parts {
                files.push(match is_cut {
                    true => PlannedTableFile {
                        table,
                        part: Part::new(number, self.parts)?,
                        path: format!("{name}/{name}.{number}.{extension}"),
                    },
                    false => {
                        PlannedTableFile { table, part: Part::WHOLE, path: format!("{name}.{extension}") }
                    }
                });
            }
        }
        Ok(files)
    }

    /// In what it differs from another run, if it does; not in which part it makes.
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

/// A file that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedTableFile {
    pub(crate) table: crate::Table,
    pub(crate) part: Part,
    pub(crate) path: String,
}

/// A number of 64 bits as a manifest has it.
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
    fn a_file_for_each_part_and_one_where_there_is_one_part() {
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
    fn a_manifest_reads_itself_and_says_in_what_runs_differ() {
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
}
