//! Finds the file that describes a graph in a folder.

use object_store::{Error as ObjectError, path::Path};
use stylobate_storage::{Error as StorageError, ReadThrough};

use crate::{Error, Result};

/// Returns the path itself if it may be such a file, or that of the only one in the folder.
pub(super) async fn graph_file(store: &ReadThrough, path: Path) -> Result<Path> {
    let origin = store.origin();
    // Web servers have no folders.
    let may_be_folder = !is_yaml(&path) && !origin.name().starts_with("http");
    if !may_be_folder {
        return Ok(path);
    }

    let listed = match origin.store().list_with_delimiter(Some(&path)).await {
        Ok(listed) => listed,
        Err(ObjectError::NotFound { .. }) => return Ok(path),
        Err(error) => return Err(StorageError::from_origin(path.as_ref(), error).into()),
    };
    if listed.objects.is_empty() && listed.common_prefixes.is_empty() {
        return Ok(path);
    }

    let mut found: Vec<Path> = listed.objects.into_iter().map(|object| object.location).collect();
    found.retain(|file| file.filename().is_some_and(is_graph));
    let folder = || origin.name_of(&path);
    match found.as_mut_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::NoGraphFile {
            folder: folder(),
            reason: "no file there ends in .graph.yml".to_owned(),
        }),
        several => {
            several.sort();
            let names: Vec<&str> = several.iter().filter_map(Path::filename).collect();
            Err(Error::NoGraphFile { folder: folder(), reason: format!("name one of {}", names.join(", ")) })
        }
    }
}

/// Returns true if a file name is that of a graph's description.
pub(super) fn is_graph(name: &str) -> bool {
    name.ends_with(".graph.yml") || name.ends_with(".graph.yaml")
}

fn is_yaml(path: &Path) -> bool {
    matches!(path.extension(), Some("yml" | "yaml"))
}
