//! Output destinations: standard output, or a file that becomes visible under its name once it is complete.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::{Builder, TempPath};

use crate::{failure::usage, out::of_output};

/// Maximum characters of the final name that are used in the name of the temporary file.
const MAX_PREFIX: usize = 40;

/// Policy for an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverwriteMode {
    Refuse,
    Replace,
}

/// The destination of an output. Nothing is created or written before it is opened.
#[derive(Clone, Debug)]
pub(crate) enum RowDestination {
    /// Standard output.
    Stdout,
    /// A new regular file.
    File { path: PathBuf, overwrite: OverwriteMode },
    /// An existing pipe or device, written in place: a rename would replace it by a regular file.
    InPlace(PathBuf),
}

/// A temporary file next to its destination, removed on drop.
#[derive(Debug)]
pub(crate) struct UnfinishedOutput {
    /// `None` for outputs that are written in place.
    file: Option<(TempPath, PathBuf, OverwriteMode)>,
}

impl RowDestination {
    /// Parses a path; `-` is standard output. Fails, before any work is done, if the path is a folder, a URL, or an
    /// existing file that must not be replaced.
    pub(crate) fn at(path: &Path, overwrite: OverwriteMode) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }

        let shown = path.display();
        if path.to_string_lossy().contains("://") {
            return Err(usage(format!(
                "{shown}: only Parquet and ORC can be written there; give a local file, or `-` for standard output"
            )));
        }

        // A symbolic link is kept, and its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => Err(usage(format!("{shown} is a folder: name a file in it"))),
            Ok(found) if !found.is_file() => Ok(Self::InPlace(target)),
            Ok(_) if overwrite == OverwriteMode::Refuse => Err(exists(path)),
            _ => {
                let folder = parent(&target);
                if !folder.is_dir() {
                    return Err(usage(format!("{shown}: there is no folder {}", folder.display())));
                }
                Ok(Self::File { path: target, overwrite })
            }
        }
    }

    /// Parses the path of a drawing or a report, which replaces an earlier one. Fails also if the path is an existing
    /// file with another extension, such as the one that is drawn.
    pub(crate) fn of_report(path: &Path, extension: &str) -> Result<Self> {
        let destination = Self::at(path, OverwriteMode::Replace)?;
        if let Self::File { path: target, .. } = &destination
            && target.exists()
            && !target.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
        {
            return Err(usage(format!(
                "{} exists already and has another extension than .{extension}: give another name",
                path.display()
            )));
        }

        Ok(destination)
    }

    /// Returns true if the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout) && io::IsTerminal::is_terminal(&io::stdout())
    }

    /// Writes a complete text.
    pub(crate) fn write_text(self, text: &str) -> Result<()> {
        let (mut file, unfinished) = self.open()?;
        file.write_all(text.as_bytes()).map_err(of_output).context("writing")?;
        unfinished.finish()
    }

    /// Opens the destination for writing.
    pub(crate) fn open(self) -> Result<(File, UnfinishedOutput)> {
        match self {
            Self::Stdout => {
                let stdout = io::stdout().as_fd().try_clone_to_owned().context("opening standard output")?;
                Ok((stdout.into(), UnfinishedOutput { file: None }))
            }
            Self::InPlace(path) => {
                let file = OpenOptions::new().write(true).open(&path);
                Ok((file.with_context(|| path.display().to_string())?, UnfinishedOutput { file: None }))
            }
            Self::File { path, overwrite } => {
                // Hidden, and short enough for any file system.
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name: String = [".", &name].concat().chars().take(MAX_PREFIX).collect();
                let mut builder = Builder::new();
                builder.prefix(&name).suffix(".unfinished").permissions(Permissions::from_mode(0o666));
                let unfinished = builder.tempfile_in(parent(&path));
                let unfinished = unfinished.with_context(|| format!("creating {}", path.display()))?;
                let (file, temporary) = unfinished.into_parts();

                Ok((file, UnfinishedOutput { file: Some((temporary, path, overwrite)) }))
            }
        }
    }
}

impl UnfinishedOutput {
    /// Publishes the complete file under its name.
    pub(crate) fn finish(self) -> Result<()> {
        let Some((temporary, path, overwrite)) = self.file else { return Ok(()) };
        let named = match overwrite {
            OverwriteMode::Replace => temporary.persist(&path),
            OverwriteMode::Refuse => temporary.persist_noclobber(&path),
        };

        named.map_err(|failed| match failed.error.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => anyhow::Error::new(failed.error).context(format!("naming {}", path.display())),
        })
    }
}

/// Returns the error for a file that must not be replaced.
pub(crate) fn exists(path: impl AsRef<Path>) -> anyhow::Error {
    let path = path.as_ref();
    usage(format!("{} exists already: give another name, or --force to replace it", path.display()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let (mut file, unfinished) =
            RowDestination::at(&path, OverwriteMode::Refuse).unwrap().open().unwrap();
        file.write_all(b"x").unwrap();
        assert!(!path.exists());
        unfinished.finish().unwrap();
        assert_eq!(names(folder.path()), ["out.csv"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
    }

    #[test]
    fn a_text_is_written_whole_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.svg");
        fs::write(&path, "a longer text than the next").unwrap();
        RowDestination::of_report(&path, "svg").unwrap().write_text("<svg/>").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "<svg/>");
        assert_eq!(names(folder.path()), ["out.svg"]);
    }

    #[test]
    fn a_report_replaces_no_file_of_another_kind() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.parquet");
        fs::write(&data, "data").unwrap();
        let link = folder.path().join("link.svg");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for path in [&data, &link] {
            let error = RowDestination::of_report(path, "svg").unwrap_err().to_string();
            assert!(error.contains("another extension than .svg"), "{error}");
        }
        for path in ["new.svg", "new", "-"] {
            RowDestination::of_report(&folder.path().join(path), "svg").unwrap();
        }
        fs::write(folder.path().join("OLD.SVG"), "").unwrap();
        RowDestination::of_report(&folder.path().join("OLD.SVG"), "svg").unwrap();
    }

    #[test]
    fn a_file_that_is_given_up_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        fs::write(&path, "before").unwrap();
        drop(RowDestination::at(&path, OverwriteMode::Replace).unwrap().open().unwrap());
        assert_eq!(names(folder.path()), ["out.csv"]);
        assert_eq!(fs::read_to_string(path).unwrap(), "before");
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let (_file, unfinished) = RowDestination::at(&path, OverwriteMode::Refuse).unwrap().open().unwrap();
        fs::write(&path, "another's").unwrap();
        assert!(unfinished.finish().unwrap_err().to_string().contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn what_a_link_points_to_is_replaced_and_a_device_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let link = folder.path().join("link");
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (_file, unfinished) = RowDestination::at(&link, OverwriteMode::Replace).unwrap().open().unwrap();
        unfinished.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
        let null = RowDestination::at(Path::new("/dev/null"), OverwriteMode::Refuse).unwrap();
        assert!(matches!(null, RowDestination::InPlace(_)));
    }

    #[test]
    fn a_folder_or_a_url_is_no_file() {
        for path in ["/tmp", "s3://bucket/out.csv", "/no/such/folder/out.csv"] {
            let error = RowDestination::at(Path::new(path), OverwriteMode::Refuse).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
        }
    }
}
