//! Pages of listings as S3 returns them: any prefix, keys in order.

use std::{collections::BTreeMap, time::Instant};

use async_recursion::async_recursion as boxed;
use futures::TryStreamExt;
use object_store::{
    ObjectMeta,
    list::{PaginatedListOptions, PaginatedListResult},
    path::Path,
};

use crate::{
    Error, ListPage, ListRequest, ListedKey, ListedObject, Origin, ReadThrough, Result,
    threads::blocking::run_blocking, upload::is_reserved_key,
};

impl ReadThrough {
    /// Returns one page of a listing, always requested from the origin.
    #[boxed]
    pub async fn list_page(&self, request: ListRequest) -> Result<ListPage> {
        let asked = Instant::now();
        let mut request = request;

        if let Some(prefix) = request.past_prefix.as_ref().filter(|_| !self.origin().is_folder()) {
            request.start_after = Some(format!("{prefix}{}", char::MAX));
        }
        let failed = |error| Error::from_origin(&request.prefix, error);
        let page = match (self.origin().native(), self.origin().folder().cloned()) {
            (Some(_), _) => {
                let requests = &self.fetcher().requests;
                let page = async { native_page(self.origin(), &request).await.map_err(failed) };
                requests.with_deadline(&request.prefix, &requests.retry_state(), page).await
            }
            (None, Some(folder)) => {
                let request = request.clone();
                let listed = run_blocking(move || folder.list_page(&request)).await;
                listed.unwrap_or_else(|error| Err(error.into())).map_err(failed)
            }
            (None, None) => walked_page(self.origin(), &request).await.map_err(failed),
        }?;

        let listed = |ListedKey { meta, .. }: &ListedKey| ListedObject {
            path: meta.location.to_string(),
            size: meta.size,
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone().filter(|_| self.origin().is_folder()),
            last_modified: Some(meta.last_modified),
        };

        self.note_listing(asked, page.objects.iter().map(listed));
        Ok(page)
    }
}

/// Requests a page from an origin that paginates.
async fn native_page(origin: &Origin, request: &ListRequest) -> object_store::Result<ListPage> {
    let Some(native) = origin.native() else { return Ok(ListPage::default()) };
    let before = origin.key_prefix();
    let options = PaginatedListOptions {
        offset: request.start_after.as_ref().map(|key| format!("{before}{key}")),
        delimiter: (!request.delimiter.is_empty()).then(|| request.delimiter.clone().into()),
        max_keys: Some(request.max_keys),
        page_token: request.token.clone(),
        ..PaginatedListOptions::default()
    };

    let prefix = format!("{before}{}", request.prefix);

    let listed = native.list.list_paginated(Some(&prefix), options).await?;
    page_of(listed, &before, request)
}

/// Converts a page of an origin whose keys begin with `before`. Keys that the listing must hide are left out, so a page
/// may be short. So is a key without the requested prefix: the marker `a/`, listed below `a/`, becomes the path `a`.
fn page_of(
    listed: PaginatedListResult,
    before: &str,
    request: &ListRequest,
) -> object_store::Result<ListPage> {
    let own = |path: &Path| path.as_ref().strip_prefix(before).map(str::to_owned);
    let is_listed = |key: &str| {
        key.starts_with(&request.prefix)
            && request.start_after.as_ref().is_none_or(|start| key > start.as_str())
            && !is_reserved_key(key)
    };

    let mut page = ListPage { next_token: listed.page_token, ..ListPage::default() };

    for meta in listed.result.objects {
        if let Some(key) = own(&meta.location).filter(|key| is_listed(key)) {
            page.objects.push(ListedKey::of(ObjectMeta { location: Path::parse(key)?, ..meta }));
        }
    }
    for prefix in listed.result.common_prefixes {
        let key = own(&prefix).map(|key| format!("{key}/"));
        page.prefixes.extend(key.filter(|key| is_listed(key)));
    }

    page.objects.sort_by(|a, b| a.key.cmp(&b.key));
    page.prefixes.sort();
    Ok(page)
}

/// An entry of a listing before it is split into pages.
enum ListingEntry {
    Object(ObjectMeta),
    Prefix,
}

/// Builds a page for an origin that lists all keys in arbitrary order: the smallest keys after the previous page.
/// Holds at most one page at a time.
async fn walked_page(origin: &Origin, request: &ListRequest) -> object_store::Result<ListPage> {
    let start = [&request.start_after, &request.token].into_iter().flatten().max();
    let wanted = |key: &str| {
        key.starts_with(&request.prefix)
            && start.is_none_or(|start| key > start.as_str())
            && !is_reserved_key(key)
    };
    // One extra entry shows whether there is a next page.

    let mut entries: BTreeMap<String, ListingEntry> = BTreeMap::new();
    let mut take = |key: String, entry: ListingEntry| {
        if wanted(&key) {
            entries.insert(key, entry);
            if entries.len() > request.max_keys + 1 {
                entries.pop_last();
            }
        }
    };

    let folder = request.prefix.rsplit_once('/').map(|(folder, _)| Path::parse(folder)).transpose()?;
    if request.delimiter.is_empty() {
        let mut listed = origin.store().list(folder.as_ref());
        while let Some(meta) = listed.try_next().await? {
            take(meta.location.to_string(), ListingEntry::Object(meta));
        }
    } else {
        let listed = origin.store().list_with_delimiter(folder.as_ref()).await?;
        for meta in listed.objects {
            take(meta.location.to_string(), ListingEntry::Object(meta));
        }
        for prefix in listed.common_prefixes {
            take(format!("{prefix}/"), ListingEntry::Prefix);
        }
    }

    let more = entries.len() > request.max_keys;
    let mut page = ListPage::default();
    let mut last = None;
    for (key, entry) in entries.into_iter().take(request.max_keys) {
        last = Some(key.clone());
        match entry {
            ListingEntry::Object(meta) => page.objects.push(ListedKey::of(meta)),
            ListingEntry::Prefix => page.prefixes.push(key),
        }
    }

    page.next_token = last.filter(|_| more);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::{ListResult, ObjectStoreExt, memory::InMemory};

    use super::*;
    use crate::{ByteSize, CacheOptions, ConsistencyRules, PageCache, ReadOptions};

    async fn store(keys: &[&str]) -> ReadThrough {
        let memory = InMemory::new();
        for key in keys {
            memory.put(&Path::from(*key), "x".into()).await.unwrap();
        }
        let cache = PageCache::open(CacheOptions::new(ByteSize::ZERO)).await.unwrap();
        let origin = Origin::new("test", Arc::new(memory));
        ReadThrough::new(origin, cache, ConsistencyRules::default(), ReadOptions::default())
    }

    async fn all(store: &ReadThrough, prefix: &str, delimiter: &str, max_keys: usize) -> Vec<String> {
        let mut request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.to_owned(),
            max_keys,
            ..Default::default()
        };
        let mut keys = Vec::new();
        loop {
            let page = store.list_page(request.clone()).await.unwrap();
            assert!(page.objects.len() + page.prefixes.len() <= max_keys);
            let mut part: Vec<String> = page.objects.into_iter().map(|listed| listed.key).collect();
            part.extend(page.prefixes);
            part.sort();
            keys.extend(part);
            match page.next_token {
                Some(token) => request.token = Some(token),
                None => return keys,
            }
        }
    }

    const KEYS: [&str; 7] = ["a", "a-b", "a/1", "a/2", "ab/c/d", "b", ".stylobate-uploads/x/1"];

    #[tokio::test]
    async fn pages_of_any_size_add_up_to_all_keys_in_order() {
        let store = store(&KEYS).await;
        for max_keys in 1..10 {
            assert_eq!(all(&store, "", "", max_keys).await, ["a", "a-b", "a/1", "a/2", "ab/c/d", "b"]);
            assert_eq!(all(&store, "", "/", max_keys).await, ["a", "a-b", "a/", "ab/", "b"]);
        }
    }

    #[tokio::test]
    async fn a_prefix_need_not_be_a_whole_segment() {
        let store = store(&KEYS).await;
        assert_eq!(all(&store, "a", "", 9).await, ["a", "a-b", "a/1", "a/2", "ab/c/d"]);
        assert_eq!(all(&store, "a/", "/", 9).await, ["a/1", "a/2"]);
        assert_eq!(all(&store, "ab/c", "/", 9).await, ["ab/c/"]);
        assert_eq!(all(&store, "zzz", "/", 9).await, [] as [&str; 0]);
    }

    #[test]
    fn a_native_page_has_no_key_beyond_the_requested_prefix() {
        let object = |location: &str| ObjectMeta {
            location: Path::from(location),
            last_modified: chrono::DateTime::default(),
            size: 0,
            e_tag: None,
            version: None,
        };
        // The first one is the marker `data/`.
        let objects = ["at/data", "at/data/a", "at/data/b"].map(object).to_vec();
        let common_prefixes = vec![Path::from("at/data/c"), Path::from("at/database")];
        let result = ListResult { common_prefixes, objects };
        let listed = PaginatedListResult { result, page_token: None };

        let request = ListRequest { prefix: "data/".into(), max_keys: 9, ..ListRequest::default() };
        let page = page_of(listed, "at/", &request).unwrap();
        let keys: Vec<_> = page.objects.iter().map(|listed| listed.key.as_str()).collect();
        assert_eq!(keys, ["data/a", "data/b"]);
        assert_eq!(page.prefixes, ["data/c/"]);
    }
}
