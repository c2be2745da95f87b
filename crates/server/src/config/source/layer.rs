//! One source of the configuration, and parsers for the environment and the command line.

use std::collections::BTreeMap;

use stylobate_storage::nearest_name;

use crate::{
    Result,
    config::{
        Given, Provenance, Setting,
        entry::entries::{AccessKeyEntry, BucketEntry, SecretEntry},
        otlp,
    },
};

/// Values of one source: the file, the environment or the command line.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The first line of the file that this layer was read from.
    pub(crate) file: Option<Provenance>,
    pub(crate) settings: BTreeMap<Setting, Given>,
    pub(crate) buckets: Vec<BucketEntry>,
    pub(crate) access_keys: Vec<AccessKeyEntry>,
    /// Secret that signs the tickets of several nodes.
    pub(crate) ticket_secret: Option<SecretEntry>,
    /// Secret that the nodes of a cluster share.
    pub(crate) cluster_secret: Option<SecretEntry>,
}

impl Layer {
    /// Reads the environment: a variable for each setting, `STYLOBATE_TICKET_SECRET`, `STYLOBATE_CLUSTER_SECRET`, the
    /// comma-separated lists `STYLOBATE_ORIGIN` and `STYLOBATE_ACCESS_KEY`, and OpenTelemetry's own variables for the
    /// endpoint of traces. An empty variable counts as unset.
    pub fn environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let read = |name: &str| {
            let text = variable(name).filter(|text| !text.is_empty())?;
            Some(Given::new(text, Provenance::Env(name.to_owned())))
        };
        let mut layer = Self::default();
        for setting in Setting::ALL {
            layer.settings.extend(read(&setting.env()).map(|given| (setting, given)));
        }
        if !layer.settings.contains_key(&Setting::OtlpEndpoint)
            && let Some(given) = otlp::of_environment(&read)
        {
            layer.settings.insert(Setting::OtlpEndpoint, given);
        }

        layer.ticket_secret = read("STYLOBATE_TICKET_SECRET").map(SecretEntry::Text);
        layer.cluster_secret = read("STYLOBATE_CLUSTER_SECRET").map(SecretEntry::Text);
        let list = |name| read(name).into_iter().flat_map(|given| split(&given)).collect::<Vec<_>>();
        for origin in list("STYLOBATE_ORIGIN") {
            layer.add_origin(&origin);
        }
        for key in list("STYLOBATE_ACCESS_KEY") {
            layer.access_keys.push(AccessKeyEntry::parse(&key.value, key.from)?);
        }

        Ok(layer)
    }

    /// Checks that each `STYLOBATE_` variable of the environment is a known one: a misspelt variable would silently
    /// leave its setting at the default. Variables that Kubernetes sets for a service named "stylobate" are accepted,
    /// as are those for which `also_known` returns true.
    ///
    /// # Errors
    ///
    /// [`ServerError::Config`](crate::ServerError::Config) for the first unknown variable.
    pub fn check_variables(
        names: impl IntoIterator<Item = String>,
        also_known: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        const OTHERS: [&str; 7] =
            ["ACCESS_KEY", "CLUSTER_SECRET", "CONFIG", "LOG", "ORIGIN", "TICKET_SECRET", "TOKEN"];
        for name in names {
            let Some(own) = name.strip_prefix("STYLOBATE_") else { continue };
            let is_setting = Setting::ALL.iter().any(|setting| setting.env() == name);
            if !is_setting && !OTHERS.contains(&own) && !is_of_kubernetes(own) && !also_known(&name) {
                let nearest =
                    nearest_name(own, Setting::ALL.iter().map(|setting| setting.name()).chain(OTHERS));
                let hint = match nearest {
                    Some(nearest) => format!("did you mean STYLOBATE_{}?", nearest.to_ascii_uppercase()),
                    None => "a flag such as --page-size has the variable STYLOBATE_PAGE_SIZE".to_owned(),
                };
                return Provenance::Env(name.clone()).error(format!("there is no such variable; {hint}"));
            }
        }
        Ok(())
    }

    /// Returns true if a secret is configured to come from this environment variable.
    pub fn reads_secret_from(&self, variable: &str) -> bool {
        let keys = self.access_keys.iter().flat_map(|key| [Some(&key.secret), key.token.as_ref()]);
        let mut secrets = keys.chain([self.ticket_secret.as_ref(), self.cluster_secret.as_ref()]).flatten();
        secrets.any(|secret| matches!(secret, SecretEntry::Env(name) if name.value == variable))
    }

    /// Adds the text of a flag for a setting.
    pub fn with_flag(mut self, setting: Setting, text: impl Into<String>) -> Self {
        self.settings.insert(setting, Given::new(text, Provenance::Flag(setting.flag())));
        self
    }

    /// Adds an `--origin`: `NAME=URL`, or a URL that also gives the name.
    pub fn with_origin(mut self, text: &str) -> Self {
        self.add_origin(&Given::new(text, Provenance::Flag("--origin".to_owned())));
        self
    }

    /// Adds an `--option KEY=VALUE`, which applies to every origin of this layer.
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
        self.access_keys.push(AccessKeyEntry::parse(text, Provenance::Flag("--access-key".to_owned()))?);
        Ok(self)
    }

    fn add_origin(&mut self, given: &Given) {
        self.buckets.push(BucketEntry::parse(&given.value, given.from.clone()));
    }
}

/// Returns true if Kubernetes sets a variable of this name, after the name of the service: `SERVICE_HOST`,
/// `SERVICE_PORT_HTTP`, `PORT`, `PORT_9000_TCP_ADDR`.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port = name.strip_prefix("PORT").is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    // A service may also be named "stylobate-s3".
    is_port
        || name.ends_with("_PORT")
        || name.contains("SERVICE_HOST")
        || name.contains("SERVICE_PORT")
        || name.contains("_PORT_")
}

fn split(given: &Given) -> Vec<Given> {
    let parts = given.value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| Given::new(part, given.from.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> Result<()> {
        Layer::check_variables([name.to_owned()], &|name| name == "STYLOBATE_MY_SECRET")
    }

    #[test]
    fn a_variable_that_is_misspelt_is_an_error() {
        for name in ["STYLOBATE_MEMROY", "STYLOBATE_", "STYLOBATE_PORTS"] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("no such variable"), "{error}");
        }
        let error = check("STYLOBATE_MEMROY").unwrap_err().to_string();
        assert!(error.ends_with("did you mean STYLOBATE_MEMORY?"), "{error}");
    }

    #[test]
    fn variables_that_are_read_and_those_of_others_are_none() {
        for name in [
            "STYLOBATE_MEMORY",
            "STYLOBATE_ORIGIN",
            "STYLOBATE_LOG",
            "STYLOBATE_MY_SECRET",
            "STYLOBATE_SERVICE_HOST",
            "STYLOBATE_SERVICE_PORT_S3",
            "STYLOBATE_PORT",
            "STYLOBATE_PORT_9000_TCP_ADDR",
            "STYLOBATE_S3_SERVICE_HOST",
            "STYLOBATE_S3_PORT",
            "PATH",
        ] {
            assert!(check(name).is_ok(), "{name}");
        }
    }
}
