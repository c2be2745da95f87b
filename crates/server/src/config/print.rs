//! Prints a configuration in the format of the file, with the provenance of each value and without secrets.

use std::fmt;

use stylobate_storage::{format_duration, without_credentials};

use super::{
    AccessKeyConfig, CorsRule, NodeSettings, Provenance, Setting,
    entry::{
        bucket::ResolvedBucket,
        entries::{AccessKeyEntry, SecretEntry},
    },
    literal::SettingLiteral,
    secret::{HIDDEN, is_secret_option},
};

/// A configuration to print, table by table.
#[derive(Clone, Debug)]
pub(super) struct ConfigReport {
    server: Vec<ConfigReportLine>,
    cache: Vec<ConfigReportLine>,
    flight: Vec<ConfigReportLine>,
    /// Empty if the node is in no cluster.
    cluster: Vec<ConfigReportLine>,
    /// Heading and lines of each `[[bucket]]` and `[[access_key]]`.
    entries: Vec<(&'static str, Vec<ConfigReportLine>)>,
}

#[derive(Clone, Debug)]
struct ConfigReportLine {
    text: String,
    from: String,
}

impl ConfigReportLine {
    fn new(key: &str, literal: impl fmt::Display, from: &Provenance) -> Self {
        Self { text: format!("{key} = {literal}"), from: from.to_string() }
    }

    fn of(setting: Setting, value: SettingLiteral, from: &Provenance) -> Self {
        let literal = match value {
            SettingLiteral::Text(text) => quoted(&text),
            SettingLiteral::Bare(text) => text,
            SettingLiteral::List(texts) => list(&texts),
            SettingLiteral::Absent => {
                return Self { text: format!("# {} is none", setting.key()), from: from.to_string() };
            }
        };
        Self::new(setting.key(), literal, from)
    }
}

/// Quotes a text as TOML does.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

impl ConfigReport {
    /// Creates a report of all settings.
    pub(super) fn new(settings: &NodeSettings, provenance: &dyn Fn(Setting) -> Provenance) -> Self {
        let section = |name| {
            let settings_of_section = Setting::ALL.into_iter().filter(|setting| setting.section() == name);
            settings_of_section
                .map(|it| ConfigReportLine::of(it, settings.literal(it), &provenance(it)))
                .collect()
        };
        Self {
            server: section("server"),
            cache: section("cache"),
            flight: section("flight"),
            cluster: if settings.has_cluster() { section("cluster") } else { Vec::new() },
            entries: Vec::new(),
        }
    }

    /// Adds the secret that signs tickets.
    pub(super) fn ticket_secret(&mut self, entry: &SecretEntry) {
        self.flight.push(secret("ticket_secret", entry));
    }

    /// Adds the secret of the cluster.
    pub(super) fn cluster_secret(&mut self, entry: &SecretEntry) {
        self.cluster.push(secret("secret", entry));
    }

    /// Adds a bucket.
    pub(super) fn bucket(&mut self, bucket: &ResolvedBucket) {
        let config = &bucket.config;
        let entry = &bucket.entry;
        let name_from = entry.name.as_ref().map_or(&entry.url.from, |name| &name.from);
        let mut lines = vec![
            ConfigReportLine::new("name", quoted(&config.name), name_from),
            ConfigReportLine::new("url", quoted(&without_credentials(&config.url)), &entry.url.from),
        ];

        for (key, given) in &entry.options {
            let value =
                if is_secret_option(key) { HIDDEN.to_owned() } else { without_credentials(&given.value) };
            lines.push(ConfigReportLine::new(
                &format!("options.{}", toml_key(key)),
                quoted(&value),
                &given.from,
            ));
        }

        let consistency = config.consistency.to_string();
        lines.push(ConfigReportLine::new("consistency", quoted(&consistency), &bucket.consistency_from));
        lines.push(ConfigReportLine::new("read_only", config.read_only, &bucket.read_only_from));
        if let Some(follow_links) = &entry.follow_links {
            lines.push(ConfigReportLine::new("follow_links", follow_links.value, &follow_links.from));
        }
        if let Some(durability) = &entry.durability {
            lines.push(ConfigReportLine::new("durability", quoted(&durability.value), &durability.from));
        }
        if !entry.rules.is_empty() {
            lines.push(ConfigReportLine { text: "rules = [".to_owned(), from: String::new() });
            for (prefix, given) in &entry.rules {
                let rule =
                    format!("    {{ prefix = {}, consistency = {} }},", quoted(prefix), quoted(&given.value));
                lines.push(ConfigReportLine { text: rule, from: given.from.to_string() });
            }
            lines.push(ConfigReportLine { text: "]".to_owned(), from: String::new() });
        }

        if !entry.cors.is_empty() {
            lines.push(ConfigReportLine { text: "cors = [".to_owned(), from: String::new() });
            for rule in &entry.cors {
                lines.push(ConfigReportLine { text: cors(&rule.value), from: rule.from.to_string() });
            }
            lines.push(ConfigReportLine { text: "]".to_owned(), from: String::new() });
        }
        self.entries.push(("bucket", lines));
    }

    /// Adds an access key.
    pub(super) fn access_key(&mut self, entry: &AccessKeyEntry, key: &AccessKeyConfig) {
        let buckets_from = match &entry.buckets {
            Some(buckets) => buckets.first().map_or(&entry.from, |bucket| &bucket.from),
            None => &Provenance::Default,
        };
        let mut lines = vec![
            ConfigReportLine::new("id", quoted(&key.id), &entry.id.from),
            secret("secret", &entry.secret),
        ];

        lines.extend(entry.token.as_ref().map(|token| secret("token", token)));
        lines.extend([
            ConfigReportLine::new("buckets", list(&key.buckets), buckets_from),
            ConfigReportLine::new("write", key.write, &entry.write.from),
        ]);
        if let Some(prefix) = entry.prefixes.as_ref().and_then(|prefixes| prefixes.first()) {
            lines.push(ConfigReportLine::new("prefixes", list(&key.prefixes), &prefix.from));
        }
        self.entries.push(("access_key", lines));
    }
}

/// Formats a CORS rule as in a file.
fn cors(rule: &CorsRule) -> String {
    format!(
        "    {{ origins = {}, methods = {}, headers = {}, expose = {}, max_age = {} }},",
        list(&rule.origins),
        list(&rule.methods),
        list(&rule.headers),
        list(&rule.expose),
        quoted(&format_duration(rule.max_age))
    )
}

/// Formats the location of a secret, never the secret.
fn secret(key: &str, entry: &SecretEntry) -> ConfigReportLine {
    match entry {
        SecretEntry::Text(given) => ConfigReportLine::new(key, quoted(HIDDEN), &given.from),
        SecretEntry::Env(given) => {
            ConfigReportLine::new(&format!("{key}_env"), quoted(&given.value), &given.from)
        }
        SecretEntry::File(given) => {
            ConfigReportLine::new(&format!("{key}_file"), quoted(&given.value), &given.from)
        }
    }
}

/// Formats a key as TOML does: bare if possible.
fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { quoted(key) }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [
            ("[server]", &self.server),
            ("\n[cache]", &self.cache),
            ("\n[flight]", &self.flight),
            ("\n[cluster]", &self.cluster),
        ];
        for (heading, lines) in tables.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            writeln!(f, "{heading}")?;
            print(lines, f)?;
        }
        for (heading, lines) in &self.entries {
            writeln!(f, "\n[[{heading}]]")?;
            print(lines, f)?;
        }
        Ok(())
    }
}

fn print(lines: &[ConfigReportLine], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0).min(60);
    for ConfigReportLine { text, from } in lines {
        match from.as_str() {
            "" => writeln!(f, "{text}")?,
            _ => writeln!(f, "{text:width$}  # {from}")?,
        }
    }
    Ok(())
}
