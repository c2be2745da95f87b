//! Opens files and directories beneath a folder, and nothing outside it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};

use crate::Durability;

/// Maximum attempts of an operation while other writers keep removing its directory because it is empty.
const MAX_DIRECTORY_ATTEMPTS: u32 = 64;
/// Number of attempts without a wait in between.
const PROMPT_ATTEMPTS: u32 = 4;
/// Unit of the wait before later attempts, multiplied by the attempt's number: one second in total.
const ATTEMPT_WAIT: Duration = Duration::from_micros(500);

/// Yields the number of each attempt of an operation whose directory other writers may remove because it is empty,
/// and sleeps before later attempts: a removed directory can still be opened until the removing thread runs again.
pub(super) fn directory_attempts() -> impl Iterator<Item = u32> {
    (0..MAX_DIRECTORY_ATTEMPTS).inspect(|attempt| {
        if *attempt >= PROMPT_ATTEMPTS {
            std::thread::sleep(ATTEMPT_WAIT * *attempt);
        }
    })
}

/// A folder, held by an open descriptor.
#[derive(Debug)]
pub(super) struct FolderRoot {
    path: PathBuf,
    descriptor: OwnedFd,
    options: FolderOptions,
    /// The path and number of links of each descriptor that was synced.
    #[cfg(test)]
    pub(super) synced: parking_lot::Mutex<Vec<(PathBuf, u64)>>,
}

/// Options for reading and writing a folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FolderOptions {
    /// True if links that lead out of the folder are followed. Otherwise, they are not objects.
    pub(crate) follows_links: bool,
    /// Durability of a completed change.
    pub(crate) durability: Durability,
}

impl FolderRoot {
    /// Opens the folder.
    pub(super) fn open(path: &Path, options: FolderOptions) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            descriptor,
            options,
            #[cfg(test)]
            synced: parking_lot::Mutex::default(),
        })
    }

    /// Returns the options for reading and writing the folder.
    pub(super) fn options(&self) -> FolderOptions {
        self.options
    }

    /// Returns whether changes are to survive a power loss.
    pub(super) fn is_durable(&self) -> bool {
        self.options.durability == Durability::Fsync
    }

    /// Writes the bytes and attributes of a file to the disk, if changes are to survive a power loss.
    pub(super) fn sync_file(&self, file: &File) -> io::Result<()> {
        if !self.is_durable() {
            return Ok(());
        }
        self.note_sync(file.as_fd());
        file.sync_all()
    }

    /// Writes the names in a directory to the disk, if changes are to survive a power loss.
    pub(super) fn sync_directory(&self, directory: impl AsFd) -> io::Result<()> {
        if !self.is_durable() {
            return Ok(());
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = match openat(directory, ".", flags, Mode::empty()) {
            // Another writer removed the directory, and with it all names in it.
            Err(Errno::NOENT | Errno::STALE) => return Ok(()),
            // The directory is writable, but not readable.
            #[cfg(target_os = "linux")]
            Err(Errno::ACCESS) => return Ok(rustix::fs::syncfs(&self.descriptor)?),
            opened => File::from(opened?),
        };
        self.note_sync(opened.as_fd());
        match opened.sync_all() {
            // A file system that cannot sync a directory.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP)) => {
                Ok(())
            }
            synced => synced,
        }
    }

    #[cfg(test)]
    fn note_sync(&self, descriptor: std::os::fd::BorrowedFd<'_>) {
        use std::os::fd::AsRawFd;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        let links = rustix::fs::fstat(descriptor).unwrap().st_nlink;
        self.synced.lock().push((path, links));
    }

    #[cfg(not(test))]
    fn note_sync(&self, _: std::os::fd::BorrowedFd<'_>) {}

    /// Returns the path by which the folder was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the entry at a relative path. Anything outside the folder is not found.
    pub(super) fn open_at(&self, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = flags | OFlags::CLOEXEC;
        if self.options.follows_links {
            return Ok(openat(&self.descriptor, relative, flags, Mode::empty())?);
        }

        match open_beneath(&self.descriptor, relative, flags) {
            // An absolute link may still lead to a target within the folder.
            Err(Errno::XDEV) => {
                let resolved = self.resolved(relative)?;
                open_beneath(&self.descriptor, &resolved, flags).map_err(|error| match error {
                    Errno::XDEV => io::ErrorKind::NotFound.into(),
                    error => error.into(),
                })
            }
            // The kernel or a sandbox does not allow this call.
            Err(Errno::NOSYS | Errno::PERM) => {
                let resolved = self.resolved(relative)?;
                Ok(openat(&self.descriptor, &resolved, flags, Mode::empty())?)
            }
            opened => Ok(opened?),
        }
    }

    /// Resolves all links of a path and returns it relative to the folder.
    fn resolved(&self, relative: &Path) -> io::Result<PathBuf> {
        let real = std::fs::canonicalize(self.path.join(relative))?;
        match real.strip_prefix(&self.path) {
            Ok(within) if within.as_os_str().is_empty() => Ok(PathBuf::from(".")),
            Ok(within) => Ok(within.to_owned()),
            Err(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Opens a file for reading. Anything but a regular file is not found.
    pub(super) fn open_file(&self, relative: &Path) -> io::Result<File> {
        // A pipe would block its reader until a writer opens it.
        let file = File::from(self.open_at(relative, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Opens a directory by an `O_PATH` descriptor.
    pub(super) fn open_directory(&self, relative: &Path) -> io::Result<OwnedFd> {
        self.open_at(relative, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens a directory, creating it if it is missing.
    pub(super) fn make_directory(&self, relative: &Path) -> io::Result<OwnedFd> {
        for _ in directory_attempts() {
            match self.open_directory(relative) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
                return Err(io::ErrorKind::NotFound.into());
            };

            let parent = self.make_directory(parent)?;
            match rustix::fs::mkdirat(parent.as_fd(), name, Mode::from_raw_mode(0o777)) {
                Ok(()) => self.sync_directory(&parent)?,
                // Do not replace a link that is dangling or leads out of the folder.
                Err(Errno::EXIST) if is_no_directory(parent.as_fd(), name) => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                // Another writer created it, and may not have synced it yet.
                Err(Errno::EXIST) => self.sync_directory(&parent)?,
                // Another writer removed the empty parent.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }

        Err(io::ErrorKind::NotFound.into())
    }
}

/// Returns whether an entry with this name exists and is not a directory.
fn is_no_directory(parent: impl AsFd, name: &std::ffi::OsStr) -> bool {
    let found = rustix::fs::statat(parent, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| !rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir())
}

/// Opens an entry if neither the path nor its links lead out of the folder; returns `EXDEV` otherwise.
#[cfg(target_os = "linux")]
fn open_beneath(folder: &OwnedFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(folder, relative, flags, Mode::empty(), resolve) {
            // A concurrent rename interfered with the check.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: &OwnedFd, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Folders {
        _all: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
    }

    fn folders() -> Folders {
        let all = tempfile::tempdir().unwrap();
        let real = all.path().canonicalize().unwrap();
        let inside = real.join("in");
        let outside = real.join("out");
        for folder in [&inside, &outside] {
            std::fs::create_dir_all(folder.join("d")).unwrap();
            std::fs::write(folder.join("d/f"), "x").unwrap();
        }
        Folders { _all: all, inside, outside }
    }

    #[test]
    fn links_are_followed_within_the_folder_only() {
        let Folders { _all, inside, outside } = folders();
        symlink("d/f", inside.join("relative")).unwrap();
        symlink(inside.join("d"), inside.join("absolute")).unwrap();
        symlink("../out/d/f", inside.join("leaves")).unwrap();
        symlink(&outside, inside.join("away")).unwrap();

        let root = FolderRoot::open(&inside, FolderOptions::default()).unwrap();
        for path in ["d/f", "relative", "absolute/f"] {
            assert!(root.open_file(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["leaves", "away/d/f", "absent", "../out/d/f"] {
            let error = root.open_file(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
        }
        assert!(root.make_directory(Path::new("away/new")).is_err());
        assert!(!outside.join("new").exists());

        let root =
            FolderRoot::open(&inside, FolderOptions { follows_links: true, ..FolderOptions::default() })
                .unwrap();
        assert!(root.open_file(Path::new("leaves")).is_ok() && root.open_file(Path::new("away/d/f")).is_ok());
    }

    #[test]
    fn a_pipe_is_not_found_and_does_not_block() {
        let Folders { _all, inside, .. } = folders();
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("pipe"), Mode::from_raw_mode(0o600));
        made.unwrap();
        let error = FolderRoot::open(&inside, FolderOptions::default())
            .unwrap()
            .open_file(Path::new("pipe"))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn missing_directories_are_created() {
        let Folders { _all, inside, .. } = folders();
        let root = FolderRoot::open(&inside, FolderOptions::default()).unwrap();
        root.make_directory(Path::new("d/e/g")).unwrap();
        assert!(inside.join("d/e/g").is_dir());
        let error = root.make_directory(Path::new("d/f/g")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }
}
