//! File, environment and command line, laid over one another.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
};

use super::{
    Given, NodeConfig, Provenance, Setting, access_key,
    bucket::{self, Defaults},
    entries::{BucketEntry, KeyEntry},
    file,
    print::Report,
    values::Values,
};
use crate::{Result, ServerError};

/// What one source says: the file, the environment or the command line.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The first line of the file that this layer was read from.
    pub(super) file: Option<Provenance>,
    pub(super) settings: BTreeMap<Setting, Given>,
    pub(super) buckets: Vec<BucketEntry>,
    pub(super) access_keys: Vec<KeyEntry>,
}

impl Layer {
    /// The layer of a configuration file.
    pub fn file(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => file::parse(path.to_owned(), &text),
            Err(error) => {
                Provenance::Flag("--config".to_owned()).error(format!("{}: {error}", path.display()))
            }
        }
    }

    /// The layer of a text in the format of the file; `path` is what errors call it.
    pub fn toml(path: impl Into<PathBuf>, text: &str) -> Result<Self> {
        file::parse(path.into(), text)
    }

    /// The layer of the environment: a variable for each setting, and `STYLOBATE_ORIGIN` and
    /// `STYLOBATE_ACCESS_KEY`, which are lists with commas. An empty variable says nothing.
    pub fn environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let read = |name: &str| {
            let text = variable(name).filter(|text| !text.is_empty())?;
            Some(Given::new(text, Provenance::Env(name.to_owned())))
        };
        let mut layer = Self::default();
        for setting in Setting::ALL {
            layer.settings.extend(read(&setting.env()).map(|given| (setting, given)));
        }
        let list = |name| read(name).into_iter().flat_map(|given| split(&given)).collect::<Vec<_>>();
        for origin in list("STYLOBATE_ORIGIN") {
            layer.add_origin(&origin);
        }
        for key in list("STYLOBATE_ACCESS_KEY") {
            layer.access_keys.push(KeyEntry::parse(&key.value, key.from)?);
        }
        Ok(layer)
    }

    /// Adds a flag's text for a setting.
    pub fn with_flag(mut self, setting: Setting, text: impl Into<String>) -> Self {
        self.settings.insert(setting, Given::new(text, Provenance::Flag(setting.flag())));
        self
    }

    /// Adds an `--origin`: `NAME=URL`, or a URL that gives the name too.
    pub fn with_origin(mut self, text: &str) -> Self {
        self.add_origin(&Given::new(text, Provenance::Flag("--origin".to_owned())));
        self
    }

    /// Adds an `--option KEY=VALUE`, which goes to every origin of this layer.
    pub fn with_option(mut self, text: &str) -> Result<Self> {
        let from = Provenance::Flag("--option".to_owned());
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return from.error("an option is written KEY=VALUE, such as region=eu-west-1");
        };
        if self.buckets.is_empty() {
            return from.error("an option belongs to an --origin: give one");
        }
        for bucket in &mut self.buckets {
            bucket.options.push((key.to_owned(), Given::new(value, from.clone())));
        }
        Ok(self)
    }

    /// Adds an `--access-key`: `ID:SECRET`.
    pub fn with_access_key(mut self, text: &str) -> Result<Self> {
        self.access_keys.push(KeyEntry::parse(text, Provenance::Flag("--access-key".to_owned()))?);
        Ok(self)
    }

    fn add_origin(&mut self, given: &Given) {
        self.buckets.push(BucketEntry::parse(&given.value, given.from.clone()));
    }
}

fn split(given: &Given) -> Vec<Given> {
    let parts = given.value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| Given::new(part, given.from.clone())).collect()
}

/// The layers, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The configuration file.
    pub file: Layer,
    /// The environment.
    pub environment: Layer,
    /// The command line.
    pub flags: Layer,
}

/// A configuration, and where each value of it came from. Prints as a configuration file with the places as
/// comments, and without secrets.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The configuration.
    pub config: NodeConfig,
    report: Report,
    serves_default: bool,
}

impl Resolved {
    /// Fails with [`ServerError::NothingToServe`] where nothing names a bucket and there is no folder `./data`.
    pub fn check_default_folder(&self) -> Result<()> {
        match self.serves_default && !Path::new(DEFAULT_FOLDER).is_dir() {
            true => Err(ServerError::NothingToServe { folder: DEFAULT_FOLDER }),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)
    }
}

/// The folder that is served when nobody says what to serve.
const DEFAULT_FOLDER: &str = "./data";

impl Layers {
    /// The configuration that the layers make together. A bucket or access key of a stronger layer replaces the
    /// one of the same name or id; two of one layer are an error. `env` gives the variables that hold secrets.
    ///
    /// Where nothing names a bucket and there is no file, the folder `./data` is the bucket `data`.
    pub fn resolve(self, env: &dyn Fn(&str) -> Option<String>) -> Result<Resolved> {
        let layers = [self.file, self.environment, self.flags];
        let mut report = Report::default();
        let mut values = Values { layers: &layers, report: &mut report };
        let server = values.server()?;
        let read_only = values.read_only()?;
        let cache = values.cache()?;
        let defaults = Defaults { consistency: values.consistency()?, read_only };

        let mut entries: Vec<_> = layers.iter().map(|layer| layer.buckets.clone()).collect();
        let serves_default = layers.iter().all(|layer| layer.buckets.is_empty());
        if serves_default {
            if let Some(file) = &layers[0].file {
                return file.error("there is no bucket: add a [[bucket]] with a url, or give --origin");
            }
            entries.push(vec![BucketEntry::parse(DEFAULT_FOLDER, Provenance::Default)]);
        }
        let buckets = buckets(entries, &defaults)?;
        let mut config = NodeConfig { server, cache, ..NodeConfig::default() };
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
            report.access_key(entry, &key);
            config.access_keys.push(key);
        }
        config.check_exposure()?;
        Ok(Resolved { config, report, serves_default })
    }
}

fn buckets(
    layers: Vec<Vec<BucketEntry>>,
    defaults: &Defaults,
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

fn access_keys<'a>(layers: &[&'a [KeyEntry]]) -> Result<BTreeMap<&'a str, &'a KeyEntry>> {
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
