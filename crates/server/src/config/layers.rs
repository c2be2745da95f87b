//! Merges the configuration file, the environment and the command line.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::Path,
};

use super::{
    AccessKeyConfig, Given, NodeConfig, Provenance, Setting, Sourced,
    entry::{
        access_key,
        bucket::{self, BucketDefaults},
        entries::{AccessKeyEntry, BucketEntry},
    },
    print::ConfigReport,
    settings::NodeSettings,
    shared_secret,
    source::layer::Layer,
    values::folder_and_size,
};
use crate::{Result, ServerError};

/// The layers, from lowest to highest precedence.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The configuration file.
    pub file: Layer,
    /// The environment.
    pub environment: Layer,
    /// The command line.
    pub flags: Layer,
}

/// A configuration with the provenance of each value. Its `Display` output is a configuration file with the
/// provenance as comments and without secrets.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The configuration.
    pub config: NodeConfig,
    report: ConfigReport,
    given_at: BTreeMap<Setting, Provenance>,
    serves_default: bool,
}

impl Resolved {
    /// Returns the provenance of a setting's value.
    pub fn provenance(&self, setting: Setting) -> Provenance {
        self.given_at.get(&setting).cloned().unwrap_or(Provenance::Default)
    }

    /// Checks that the default folder exists if it is served.
    ///
    /// # Errors
    ///
    /// [`ServerError::NothingToServe`] if no layer names a bucket and the folder `./data` does not exist.
    pub fn check_default_folder(&self) -> Result<()> {
        if self.serves_default && !Path::new(DEFAULT_FOLDER).is_dir() {
            Err(ServerError::NothingToServe { folder: DEFAULT_FOLDER })
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)
    }
}

/// Folder that is served by default.
const DEFAULT_FOLDER: &str = "./data";

impl Layers {
    /// Merges the layers into one configuration. A bucket or access key replaces one of the same name or id in a
    /// layer of lower precedence; duplicates within a layer are an error. `env` looks up the variables that hold
    /// secrets.
    ///
    /// If no layer names a bucket and there is no file, the folder `./data` is served as the bucket `data`.
    pub fn resolve(self, env: &dyn Fn(&str) -> Option<String>) -> Result<Resolved> {
        let layers = [self.file, self.environment, self.flags];
        let given = strongest(&layers);
        let settings = NodeSettings::parse(&given)?;
        let given_at: BTreeMap<_, _> =
            given.into_iter().map(|(setting, given)| (setting, given.from)).collect();
        let provenance = |setting| given_at.get(&setting).cloned().unwrap_or(Provenance::Default);

        settings.check(&provenance)?;
        let tls = settings.tls(&provenance)?;
        let defaults = BucketDefaults {
            consistency: Sourced::new(settings.consistency, provenance(Setting::Consistency)),
            read_only: Sourced::new(settings.read_only, provenance(Setting::ReadOnly)),
        };
        let mut report = ConfigReport::new(&settings, &provenance);

        let mut entries: Vec<_> = layers.iter().map(|layer| layer.buckets.clone()).collect();
        let serves_default = layers.iter().all(|layer| layer.buckets.is_empty());
        if serves_default {
            if let Some(file) = &layers[0].file {
                return file.error("there is no bucket: add a [[bucket]] with a url, or give --origin");
            }
            entries.push(vec![BucketEntry::parse(DEFAULT_FOLDER, Provenance::Default)]);
        }

        let buckets = buckets(entries, &defaults)?;
        let secret = layers.iter().rev().find_map(|layer| layer.ticket_secret.as_ref());
        let ticket_secret = shared_secret::resolve("ticket_secret", secret, env)?;
        if let Some(entry) = secret {
            report.ticket_secret(entry);
        }

        let secret = layers.iter().rev().find_map(|layer| layer.cluster_secret.as_ref());
        let cluster = settings.cluster(&provenance, secret, env)?;
        if cluster.is_some() && settings.flight.is_some() && ticket_secret.is_none() {
            let source = secret.map_or(Provenance::Default, |secret| secret.given().from.clone());
            return source.error(
                "a cluster needs one secret for the tickets of all its nodes: give `ticket_secret_file`, \
                 `ticket_secret_env` or `ticket_secret` in [flight], or turn the Flight door off",
            );
        }
        if let Some(entry) = secret {
            report.cluster_secret(entry);
        }

        let mut config = NodeConfig { settings, tls, ticket_secret, cluster, ..NodeConfig::default() };
        for bucket in buckets.into_values() {
            report.bucket(&bucket);
            config.buckets.push(bucket.config);
        }

        let entries: Vec<_> = layers.iter().map(|layer| layer.access_keys.as_slice()).collect();
        for entry in access_keys(&entries)?.into_values() {
            let key = access_key::resolve(entry, env)?;
            let known = |name: &str| name == "*" || config.buckets.iter().any(|bucket| bucket.name == name);
            if let Some(name) = entry.buckets.iter().flatten().find(|name| !known(&name.value)) {
                return name.from.error(format!("buckets: there is no bucket {:?}", name.value));
            }
            if let Some(other) = config.access_keys.iter().find(|other| shows_the_same(other, &key)) {
                let source = entry.token.as_ref().map_or(&entry.from, |token| &token.given().from);
                return source.error(format!("access keys {} and {} show the same token", other.id, key.id));
            }
            report.access_key(entry, &key);
            config.access_keys.push(key);
        }

        config.check_exposure()?;
        Ok(Resolved { config, report, given_at, serves_default })
    }
}

/// Returns the text of each setting from the layer of highest precedence that has one. The size in `FOLDER=SIZE` is
/// the disk capacity, unless a layer of higher precedence sets the capacity itself.
fn strongest(layers: &[Layer]) -> BTreeMap<Setting, Given> {
    let mut given: BTreeMap<_, _> = layers.iter().flat_map(|layer| layer.settings.clone()).collect();
    let Some(disk) = given.get_mut(&Setting::Disk) else { return given };
    let (folder, size) = folder_and_size(&disk.value);
    let size = size.map(|size| Given::new(size, disk.from.clone()));
    disk.value = folder.to_owned();

    if let Some(size) = size {
        let capacity = given.get(&Setting::DiskCapacity);
        if capacity.is_none_or(|capacity| capacity.from.rank() <= size.from.rank()) {
            given.insert(Setting::DiskCapacity, size);
        }
    }
    given
}

/// Returns true if the two keys cannot be distinguished by the token that a caller sends.
fn shows_the_same(one: &AccessKeyConfig, other: &AccessKeyConfig) -> bool {
    let has_token = one.token.is_some() || other.token.is_some();
    has_token && one.bearer().matches(other.bearer().expose())
}

fn buckets(
    layers: Vec<Vec<BucketEntry>>,
    defaults: &BucketDefaults,
) -> Result<BTreeMap<String, bucket::ResolvedBucket>> {
    let mut all = BTreeMap::new();
    for entries in layers {
        let mut layer = HashMap::new();
        for entry in entries {
            let from = entry.from.clone();
            let bucket = bucket::resolve(entry, defaults)?;
            let name = bucket.config.name.clone();
            if layer.insert(name.clone(), bucket).is_some() {
                return from
                    .error(format!("bucket {name} is given twice: give each origin its own NAME=URL"));
            }
        }
        all.extend(layer);
    }

    Ok(all)
}

fn access_keys<'a>(layers: &[&'a [AccessKeyEntry]]) -> Result<BTreeMap<&'a str, &'a AccessKeyEntry>> {
    let mut all = BTreeMap::new();
    for entries in layers {
        let mut layer = HashMap::new();
        for entry in *entries {
            if layer.insert(entry.id.value.as_str(), entry).is_some() {
                return entry.id.from.error(format!("access key {} is given twice", entry.id.value));
            }
        }
        all.extend(layer);
    }

    Ok(all)
}
