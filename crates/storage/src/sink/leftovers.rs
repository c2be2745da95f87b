//! Temporary files left in a folder by killed processes. The next writer of the same name removes them; once a
//! file of that name exists, the next writer that lists the folder does.
//!
//! ```text
//! .<name>.<16 hexadecimal digits>.part     locked by the process that writes it
//! ```

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

const SUFFIX: &str = ".part";
/// Lifetime of a cached listing: listing the folder for each new file would take time quadratic in the number of
/// files.
const LISTING_TERM: Duration = Duration::from_secs(10);
/// Maximum number of cached listings.
const MAX_LISTINGS: usize = 64;

static LISTINGS: LazyLock<Mutex<HashMap<PathBuf, Listing>>> = LazyLock::new(Mutex::default);

/// Snapshot of the temporary files in a folder.
struct Listing {
    taken: Instant,
    /// Includes files that were still being written: their writers may have been killed since.
    staged: Vec<String>,
}

/// Returns a new temporary name for a file.
pub(super) fn staged_name(name: &str) -> String {
    format!(".{name}.{:016x}{SUFFIX}", rand::random::<u64>())
}

/// Removes temporary files for `name` that no process writes. May miss files created within the last ten seconds,
/// because listings are cached.
pub(super) fn remove_leftovers(folder: &Path, name: &str) -> io::Result<()> {
    remove_listed(folder, name, LISTING_TERM)
}

fn remove_listed(folder: &Path, name: &str, term: Duration) -> io::Result<()> {
    for staged in staged_in(folder, name, term)? {
        let Ok(file) = File::open(&staged) else { continue };
        if file.try_lock().is_ok()
            && let Err(error) = fs::remove_file(&staged)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %staged.display(), %error, "unfinished file of another process not removed");
        }
    }
    Ok(())
}

/// Returns the temporary files for `name` in a listing of a folder that is younger than `term`; in a new listing, also
/// those for names that exist.
fn staged_in(folder: &Path, name: &str, term: Duration) -> io::Result<Vec<PathBuf>> {
    let of_names = |listing: &Listing, is_wanted: &dyn Fn(&str) -> bool| {
        let names = listing.staged.iter().filter(|found| name_of(found).is_some_and(is_wanted));
        names.map(|found| folder.join(found)).collect()
    };
    let is_fresh = |listing: &Listing| listing.taken.elapsed() < term;
    if let Some(listing) = LISTINGS.lock().get(folder).filter(|listing| is_fresh(listing)) {
        return Ok(of_names(listing, &|found| found == name));
    }

    let taken = Instant::now();
    let mut staged = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        staged.extend(name.to_str().filter(|name| name_of(name).is_some()).map(str::to_owned));
    }

    let listing = Listing { taken, staged };
    let found = of_names(&listing, &|found| found == name || folder.join(found).exists());
    let mut listings = LISTINGS.lock();
    if listings.len() >= MAX_LISTINGS {
        listings.retain(|_, listing| is_fresh(listing));
    }
    if listings.len() < MAX_LISTINGS {
        listings.insert(folder.to_owned(), listing);
    }
    Ok(found)
}

/// Returns the final name of a file that has a temporary one.
fn name_of(staged: &str) -> Option<&str> {
    let (name, digits) = staged.strip_prefix('.')?.strip_suffix(SUFFIX)?.rsplit_once('.')?;
    let is_staged = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_staged.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_told_from_others() {
        assert_eq!(name_of(&staged_name("a.b")), Some("a.b"));
        assert_eq!(name_of(".a.0123456789abcdef.part"), Some("a"));
        for other in ["a.0123456789abcdef.part", ".a.0123456789abcdeg.part", ".a.0123.part", ".a.part", "a"] {
            assert_eq!(name_of(other), None);
        }
    }

    #[test]
    fn a_folder_is_not_listed_for_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let leave = |name: &str| {
            let staged = folder.path().join(staged_name(name));
            fs::write(&staged, "x").unwrap();
            staged
        };
        let left = [leave("a"), leave("b"), leave("b")];
        let of_existing = leave("c");
        fs::write(folder.path().join("c"), "x").unwrap();
        remove_listed(folder.path(), "a", Duration::ZERO).unwrap();
        assert_eq!(left.each_ref().map(|staged| staged.exists()), [false, true, true]);
        assert!(!of_existing.exists());

        let later = leave("b");
        remove_listed(folder.path(), "b", Duration::MAX).unwrap();
        assert_eq!(left.each_ref().map(|staged| staged.exists()), [false, false, false]);
        assert!(later.exists());
        remove_listed(folder.path(), "b", Duration::ZERO).unwrap();
        assert!(!later.exists());
    }
}
