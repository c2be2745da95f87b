//! What one source of the configuration says, and what the environment and the command line are read as.

use std::collections::BTreeMap;

use super::{
    Given, Provenance, Setting,
    entries::{BucketEntry, KeyEntry, SecretEntry},
};
use crate::Result;

/// What one source says: the file, the environment or the command line.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The first line of the file that this layer was read from.
    pub(super) file: Option<Provenance>,
    pub(super) settings: BTreeMap<Setting, Given>,
    pub(super) buckets: Vec<BucketEntry>,
    pub(super) access_keys: Vec<KeyEntry>,
    /// What the tickets of several nodes are signed with.
    pub(super) ticket_secret: Option<SecretEntry>,
}

impl Layer {
    /// The layer of the environment: a variable for each setting, `STYLOBATE_TICKET_SECRET`, and `STYLOBATE_ORIGIN`
    /// and `STYLOBATE_ACCESS_KEY`, which are lists with commas. An empty variable says nothing.
    pub fn environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let read = |name: &str| {
            let text = variable(name).filter(|text| !text.is_empty())?;
            Some(Given::new(text, Provenance::Env(name.to_owned())))
        };
        let mut layer = Self::default();
        for setting in Setting::ALL {
            layer.settings.extend(read(&setting.env()).map(|given| (setting, given)));
        }
        layer.ticket_secret = read("STYLOBATE_TICKET_SECRET").map(SecretEntry::Text);
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
