//! Sorted keys of a base and their indexes, in chunks. The first keys of all chunks locate the chunk of a key.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, StringArray},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stylobate_columnar::{Columns, ColumnsUse};

use crate::{
    Error, Result,
    graphar::{ChunkFiles, ExpectedRowCount, FileType, GraphFolder, gathering, unwritable},
    store::take::{ChunkInterner, MAX_CONCURRENT_CHUNKS},
};

/// Column of keys.
pub(crate) const KEY: &str = "key";
/// Column of their indexes.
pub(crate) const INDEX: &str = "index";

/// Description of a base's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeysInfo {
    pub(crate) count: u64,
    /// Maximum keys of a chunk.
    pub(crate) chunk_size: u64,
    pub(crate) fences: KeyFences,
}

/// First key of each chunk, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyFences {
    Numbers(Vec<i64>),
    /// In byte order.
    Texts(Vec<String>),
}

/// Lookup keys, cast to the stored type.
pub(crate) enum LookupKeys {
    Numbers(Int64Array),
    Texts(StringArray),
}

impl KeyFences {
    /// Returns the Arrow type of lookup keys.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Numbers(_) => DataType::Int64,
            Self::Texts(_) => DataType::Utf8,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Numbers(fences) => size_of_val(fences.as_slice()),
            Self::Texts(fences) => fences.iter().map(|fence| size_of::<String>() + fence.len()).sum(),
        };
        bytes as u64
    }

    pub(crate) fn chunks(&self) -> usize {
        match self {
            Self::Numbers(fences) => fences.len(),
            Self::Texts(fences) => fences.len(),
        }
    }

    /// Casts keys to the stored type; those that it cannot represent become null.
    pub(crate) fn wanted(&self, of: &str, keys: &ArrayRef) -> Result<LookupKeys> {
        let from = match keys.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let fits = match self {
            Self::Numbers(_) => from.is_integer(),
            Self::Texts(_) => matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        };

        let to = self.data_type();
        if !fits {
            let reason = format!("its keys are {to}, and these are {}", keys.data_type());
            return Err(unwritable(format!("vertices of type {of}"), reason));
        }
        let keys = if *keys.data_type() == to { keys.clone() } else { cast(keys, &to).map_err(gathering)? };

        Ok(match self {
            Self::Numbers(_) => LookupKeys::Numbers(keys.as_primitive::<Int64Type>().clone()),
            Self::Texts(_) => LookupKeys::Texts(keys.as_string::<i32>().clone()),
        })
    }

    /// Returns the chunk that may contain a key.
    fn chunk(&self, wanted: &LookupKeys, row: usize) -> Option<u64> {
        let after = match (self, wanted) {
            (Self::Numbers(fences), LookupKeys::Numbers(keys)) if keys.is_valid(row) => {
                let key = keys.value(row);
                fences.partition_point(|fence| *fence <= key)
            }
            (Self::Texts(fences), LookupKeys::Texts(keys)) if keys.is_valid(row) => {
                let key = keys.value(row);
                fences.partition_point(|fence| fence.as_str() <= key)
            }
            _ => 0,
        };

        after.checked_sub(1).map(|chunk| chunk as u64)
    }
}

impl LookupKeys {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(keys) => keys.len(),
            Self::Texts(keys) => keys.len(),
        }
    }

    /// Returns the index of a key if the chunk contains it.
    fn find(&self, row: usize, chunk: &Columns) -> Option<i64> {
        let [keys, indexes] = chunk.as_slice() else { return None };
        let position = match self {
            Self::Numbers(wanted) => {
                let keys = keys.as_primitive_opt::<Int64Type>()?.values();
                keys.binary_search(&wanted.value(row)).ok()?
            }
            Self::Texts(wanted) => {
                let keys = keys.as_string_opt::<i32>()?;
                text_position(keys, wanted.value(row))?
            }
        };

        indexes.as_primitive_opt::<Int64Type>()?.values().get(position).copied()
    }
}

fn text_position(keys: &StringArray, wanted: &str) -> Option<usize> {
    let mut start = 0;
    let mut end = keys.len();
    while start < end {
        let middle = start + (end - start) / 2;
        match keys.value(middle).cmp(wanted) {
            std::cmp::Ordering::Less => start = middle + 1,
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Greater => end = middle,
        }
    }

    None
}

/// Key files of a base.
pub(crate) struct KeyFiles {
    info: KeysInfo,
    /// Their folder, with a trailing slash.
    folder: String,
    files: ChunkFiles,
}

/// Keys with the chunks that may contain them.
struct LocatedKeys {
    chunks: ChunkInterner,
    /// Position of each key's chunk among the chunks; `None` if no chunk can contain it.
    positions: Vec<Option<u32>>,
}

impl KeyFiles {
    /// Opens the keys of the base at `path`.
    pub(crate) fn open(store_folder: &GraphFolder, path: &str, info: &KeysInfo) -> Self {
        let field = |name, data_type| -> FieldRef { Arc::new(Field::new(name, data_type, false)) };
        let fields = [field(KEY, info.fences.data_type()), field(INDEX, DataType::Int64)];
        let files = ChunkFiles::new(store_folder.clone(), FileType::Parquet, fields.into());
        Self { info: info.clone(), folder: folder(path), files }
    }

    pub(crate) fn usage(&self) -> ColumnsUse {
        self.files.usage()
    }

    pub(crate) fn info(&self) -> &KeysInfo {
        &self.info
    }

    /// Returns the file of a chunk.
    pub(crate) fn file(&self, chunk: u64) -> String {
        format!("{}{}", self.folder, file(chunk))
    }

    /// Reads keys and indexes of a chunk.
    pub(crate) async fn chunk(&self, chunk: u64) -> Result<Columns> {
        let rows = ExpectedRowCount::Between(1, self.info.chunk_size);
        let columns = self.files.get(chunk, || self.file(chunk), rows, &[0, 1]).await?;
        let has_nulls = columns.iter().any(|column| column.null_count() > 0);
        if has_nulls {
            Err(Error::Data { file: self.file(chunk), reason: "a key is null".to_owned() })
        } else {
            Ok(columns)
        }
    }

    fn cached(&self, chunk: u64) -> Option<Columns> {
        let columns = Columns::from_iter([self.files.cached(chunk, 0)?, self.files.cached(chunk, 1)?]);
        // Nulls are reported by the load path.
        columns.iter().all(|column| column.null_count() == 0).then_some(columns)
    }

    fn locate(&self, wanted: &LookupKeys) -> LocatedKeys {
        let rows = wanted.len();
        let mut chunks = ChunkInterner::new(rows, self.info.fences.chunks() as u64);
        let position = |row| {
            let chunk = self.info.fences.chunk(wanted, row)?;
            Some(chunks.insert(chunk) as u32)
        };
        let positions = (0..rows).map(position).collect();
        LocatedKeys { chunks, positions }
    }

    /// Returns the indexes of keys if all required chunks are cached.
    pub(crate) fn find_cached(&self, of: &str, keys: &ArrayRef) -> Option<Result<Vec<Option<i64>>>> {
        let wanted = match self.info.fences.wanted(of, keys) {
            Ok(wanted) => wanted,
            Err(error) => return Some(Err(error)),
        };
        let LocatedKeys { chunks, positions } = self.locate(&wanted);

        let mut cached = Vec::with_capacity(chunks.numbers().len());
        for chunk in chunks.numbers() {
            cached.push(self.cached(*chunk)?);
        }
        let find =
            |(row, position): (usize, &Option<u32>)| wanted.find(row, cached.get((*position)? as usize)?);
        Some(Ok(positions.iter().enumerate().map(find).collect()))
    }

    /// Returns the indexes of keys; `None` for those that do not exist.
    pub(crate) async fn find(&self, of: &str, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        match self.find_cached(of, keys) {
            Some(found) => found,
            None => Box::pin(self.load_and_find(of, keys)).await,
        }
    }

    async fn load_and_find(&self, of: &str, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        let wanted = self.info.fences.wanted(of, keys)?;
        let LocatedKeys { chunks, positions } = self.locate(&wanted);
        let mut shares: Vec<Vec<usize>> = vec![Vec::new(); chunks.numbers().len()];
        for (row, position) in positions.iter().enumerate() {
            if let Some(share) = position.and_then(|position| shares.get_mut(position as usize)) {
                share.push(row);
            }
        }

        let wanted = &wanted;
        let loads = chunks.numbers().iter().copied().zip(shares).map(|(number, rows)| async move {
            let chunk = self.chunk(number).await?;
            Ok::<_, Error>(rows.into_iter().map(|row| (row, wanted.find(row, &chunk))).collect::<Vec<_>>())
        });

        let mut found = vec![None; positions.len()];
        let mut loaded = futures::stream::iter(loads).buffered(MAX_CONCURRENT_CHUNKS);
        while let Some(indexes) = loaded.try_next().await? {
            for (row, index) in indexes {
                if let Some(found) = found.get_mut(row) {
                    *found = index;
                }
            }
        }

        Ok(found)
    }
}

/// Returns the folder of a base's keys.
pub(crate) fn folder(path: &str) -> String {
    format!("{path}/keys/")
}

/// Returns the file of a chunk within the folder.
pub(crate) fn file(chunk: u64) -> String {
    format!("chunk{chunk}")
}
