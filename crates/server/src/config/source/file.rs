//! The configuration file: TOML in which each value keeps its line number, and an unknown key is an error.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use stylobate_storage::parse_duration;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::layer::Layer;
use crate::{
    Result,
    config::{
        CorsRule, Given, Provenance, Setting, Sourced,
        entry::entries::{AccessKeyEntry, BucketEntry, SecretEntry},
        settings::unknown_key,
    },
};

const TOP: [&str; 6] = ["bucket", "access_key", "cache", "cluster", "flight", "server"];
const BUCKET: [&str; 9] =
    ["name", "url", "options", "consistency", "rules", "read_only", "follow_links", "durability", "cors"];
const CORS: [&str; 5] = ["origins", "methods", "headers", "expose", "max_age"];
const RULE: [&str; 2] = ["prefix", "consistency"];
const ACCESS_KEY: [&str; 10] = [
    "id",
    "secret",
    "secret_env",
    "secret_file",
    "token",
    "token_env",
    "token_file",
    "buckets",
    "prefixes",
    "write",
];
const TICKET_SECRET: [&str; 3] = ["ticket_secret", "ticket_secret_env", "ticket_secret_file"];
const CLUSTER_SECRET: [&str; 3] = ["secret", "secret_env", "secret_file"];

impl Layer {
    /// Reads the layer of a configuration file.
    pub fn file(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => parse(path.to_owned(), &text),
            Err(error) => {
                Provenance::Flag("--config".to_owned()).error(format!("{}: {error}", path.display()))
            }
        }
    }

    /// Parses the layer from text in the format of the file; `path` is its name in errors.
    pub fn toml(path: impl Into<PathBuf>, text: &str) -> Result<Self> {
        parse(path.into(), text)
    }
}

/// Parses `text`, the content of the file `path`.
fn parse(path: PathBuf, text: &str) -> Result<Layer> {
    let file = ConfigFile { path: Arc::new(path), text };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let at = file.at(error.span().map_or(0, |span| span.start));
            let what = error.message().lines().collect::<Vec<_>>().join("; ");
            return at.error(what);
        }
    };
    file.document(document.get_ref())
}

type TomlValue<'a> = Spanned<DeValue<'a>>;

/// The text of a file, used to find the line of a value.
struct ConfigFile<'a> {
    path: Arc<PathBuf>,
    text: &'a str,
}

impl ConfigFile<'_> {
    fn at(&self, offset: usize) -> Provenance {
        let line = 1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        Provenance::File { path: self.path.clone(), line }
    }

    fn of<T>(&self, value: &Spanned<T>) -> Provenance {
        self.at(value.span().start)
    }

    fn document(&self, document: &DeTable<'_>) -> Result<Layer> {
        self.check_keys(document, "at the top of the file", &TOP)?;
        let mut layer = Layer { file: Some(self.at(0)), ..Layer::default() };
        for section in ["server", "cache", "flight", "cluster"] {
            if let Some(value) = document.get(section) {
                self.section(section, value, &mut layer)?;
            }
        }

        if let Some(value) = document.get("flight") {
            layer.ticket_secret = self.secret(self.table(value, "flight")?, TICKET_SECRET)?;
        }
        if let Some(value) = document.get("cluster") {
            layer.cluster_secret = self.secret(self.table(value, "cluster")?, CLUSTER_SECRET)?;
        }
        for value in self.tables(document, "bucket")? {
            layer.buckets.push(self.bucket(value)?);
        }

        for value in self.tables(document, "access_key")? {
            layer.access_keys.push(self.access_key(value)?);
        }
        Ok(layer)
    }

    fn section(&self, section: &'static str, value: &TomlValue<'_>, layer: &mut Layer) -> Result<()> {
        let table = self.table(value, section)?;
        let secrets: &[&'static str] = match section {
            "flight" => &TICKET_SECRET,
            "cluster" => &CLUSTER_SECRET,
            _ => &[],
        };
        for (key, value) in table {
            let name: &str = key.get_ref();
            if secrets.contains(&name) {
                continue;
            }
            let Some(setting) = Setting::find(section, name) else {
                let context = format!("in [{section}]");
                let known = Setting::keys(section).chain(secrets.iter().copied());
                return self.of(key).error(unknown_key(name, &context, known));
            };

            let given = match value.get_ref() {
                DeValue::Array(_) if matches!(setting, Setting::Domains | Setting::ClusterNodes) => {
                    let texts: Vec<_> = self.texts(value, name)?.into_iter().map(|text| text.value).collect();
                    // An entry of a node list contains commas itself.
                    let separator = if setting == Setting::ClusterNodes { ";" } else { "," };
                    Given::new(texts.join(separator), self.of(value))
                }
                _ => self.scalar(value, name)?,
            };
            layer.settings.insert(setting, given);
        }

        Ok(())
    }

    fn bucket(&self, value: &TomlValue<'_>) -> Result<BucketEntry> {
        let table = self.table(value, "bucket")?;
        self.check_keys(table, "in [[bucket]]", &BUCKET)?;
        let from = self.of(value);
        let Some(url) = self.text(table, "url")? else {
            return from.error("a [[bucket]] needs a `url`: a folder, or a URL such as s3://…");
        };

        let mut options = Vec::new();
        if let Some(value) = table.get("options") {
            for (key, value) in self.table(value, "options")? {
                options.push((key.get_ref().to_string(), self.scalar(value, key.get_ref())?));
            }
        }

        let mut rules = Vec::new();
        for value in self.tables(table, "rules")? {
            let rule = self.table(value, "rules")?;
            self.check_keys(rule, "in a rule of [[bucket]]", &RULE)?;
            match (self.text(rule, "prefix")?, self.text(rule, "consistency")?) {
                (Some(prefix), Some(consistency)) => rules.push((prefix.value, consistency)),
                _ => return self.of(value).error("a rule needs a `prefix` and a `consistency`"),
            }
        }

        Ok(BucketEntry {
            name: self.text(table, "name")?,
            url,
            options,
            consistency: self.text(table, "consistency")?,
            rules,
            read_only: self.boolean(table, "read_only")?,
            follow_links: self.boolean(table, "follow_links")?,
            durability: self.text(table, "durability")?,
            cors: self
                .tables(table, "cors")?
                .into_iter()
                .map(|value| self.cors(value))
                .collect::<Result<_>>()?,
            from,
        })
    }

    fn cors(&self, value: &TomlValue<'_>) -> Result<Sourced<CorsRule>> {
        let table = self.table(value, "cors")?;
        self.check_keys(table, "in a CORS rule of [[bucket]]", &CORS)?;
        let texts = |key: &str| -> Result<Option<Vec<String>>> {
            let Some(value) = table.get(key) else { return Ok(None) };
            Ok(Some(self.texts(value, key)?.into_iter().map(|given| given.value).collect()))
        };
        let Some(origins) = texts("origins")?.filter(|origins| !origins.is_empty()) else {
            return self
                .of(value)
                .error("a CORS rule needs `origins`, such as [\"https://app.example.com\"]");
        };

        let mut rule = CorsRule::reading(origins);
        if let Some(methods) = texts("methods")? {
            rule.methods = methods;
        }
        if let Some(headers) = texts("headers")? {
            rule.headers = headers;
        }
        if let Some(expose) = texts("expose")? {
            rule.expose = expose;
        }
        if let Some(given) = self.text(table, "max_age")? {
            rule.max_age = given.parse("max_age", parse_duration)?.value;
        }

        Ok(Sourced::new(rule, self.of(value)))
    }

    fn access_key(&self, value: &TomlValue<'_>) -> Result<AccessKeyEntry> {
        let table = self.table(value, "access_key")?;
        self.check_keys(table, "in [[access_key]]", &ACCESS_KEY)?;
        let from = self.of(value);
        let Some(id) = self.text(table, "id")? else {
            return from.error("an [[access_key]] needs an `id`");
        };
        let Some(secret) = self.secret(table, ["secret", "secret_env", "secret_file"])? else {
            return from.error("an [[access_key]] needs one of `secret`, `secret_env` and `secret_file`");
        };

        let token = self.secret(table, ["token", "token_env", "token_file"])?;
        let texts = |key: &str| table.get(key).map(|value| self.texts(value, key)).transpose();
        let buckets = texts("buckets")?;
        let prefixes = texts("prefixes")?;
        let write = self.boolean(table, "write")?.unwrap_or(Sourced::new(false, Provenance::Default));
        Ok(AccessKeyEntry { from, id, secret, token, buckets, prefixes, write })
    }

    /// Reads a secret given as text, as an environment variable or as a file, from these three keys; `None` if all
    /// are absent.
    fn secret(&self, table: &DeTable<'_>, keys: [&str; 3]) -> Result<Option<SecretEntry>> {
        let [text, env, file] = keys;
        let entries = [
            self.text(table, text)?.map(SecretEntry::Text),
            self.text(table, env)?.map(SecretEntry::Env),
            self.text(table, file)?.map(SecretEntry::File),
        ];

        let mut entries = entries.into_iter().flatten();
        match (entries.next(), entries.next()) {
            (entry, None) => Ok(entry),
            (_, Some(second)) => {
                second.given().from.error(format!("give one of `{text}`, `{env}` and `{file}`"))
            }
        }
    }

    fn check_keys(&self, table: &DeTable<'_>, context: &str, known: &[&'static str]) -> Result<()> {
        match table.keys().find(|key| !known.contains(&&**key.get_ref())) {
            Some(key) => self.of(key).error(unknown_key(key.get_ref(), context, known.iter().copied())),
            None => Ok(()),
        }
    }

    fn table<'v, 'i>(&self, value: &'v TomlValue<'i>, key: &str) -> Result<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            other => self.mismatch(value, key, "a table", other),
        }
    }

    /// Returns the tables of `[[key]]`; empty if the key is absent.
    fn tables<'v, 'i>(&self, table: &'v DeTable<'i>, key: &str) -> Result<Vec<&'v TomlValue<'i>>> {
        match table.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(Vec::new()),
            Some((_, DeValue::Array(values))) => Ok(values.iter().collect()),
            Some((value, DeValue::Table(_))) => {
                self.of(value).error(format!("{key}: a list of tables is written [[{key}]], not [{key}]"))
            }
            Some((value, other)) => self.mismatch(value, key, "a list of tables", other),
        }
    }

    /// Returns a string, number or boolean in command-line notation.
    fn scalar(&self, value: &TomlValue<'_>, key: &str) -> Result<Given> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(boolean) => boolean.to_string(),
            other => return self.mismatch(value, key, "a text, number or boolean", other),
        };
        Ok(Given::new(text, self.of(value)))
    }

    fn text(&self, table: &DeTable<'_>, key: &str) -> Result<Option<Given>> {
        match table.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(None),
            Some((value, DeValue::String(text))) => Ok(Some(Given::new(text.to_string(), self.of(value)))),
            Some((value, other)) => self.mismatch(value, key, "a text", other),
        }
    }

    fn texts(&self, value: &TomlValue<'_>, key: &str) -> Result<Vec<Given>> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.mismatch(value, key, "a list of texts", value.get_ref());
        };
        let text = |item: &TomlValue<'_>| match item.get_ref() {
            DeValue::String(text) => Ok(Given::new(text.to_string(), self.of(item))),
            other => self.mismatch(item, key, "a list of texts", other),
        };
        items.iter().map(text).collect()
    }

    fn boolean(&self, table: &DeTable<'_>, key: &str) -> Result<Option<Sourced<bool>>> {
        match table.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(None),
            Some((value, DeValue::Boolean(boolean))) => Ok(Some(Sourced::new(*boolean, self.of(value)))),
            Some((value, other)) => self.mismatch(value, key, "true or false", other),
        }
    }

    fn mismatch<T>(&self, value: &TomlValue<'_>, key: &str, wanted: &str, got: &DeValue<'_>) -> Result<T> {
        let got = match got {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.of(value).error(format!("{key}: must be {wanted}, not {got}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Layer> {
        parse(PathBuf::from("node.toml"), text)
    }

    fn error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_bucket_says_which_pages_may_use_it() {
        let bucket = |cors: &str| read(&format!("[[bucket]]\nurl = \"./a\"\n{cors}\n"));
        let layer = bucket("[[bucket.cors]]\norigins = [\"https://a.example\"]\nmax_age = \"5m\"").unwrap();
        let rule = &layer.buckets[0].cors[0].value;
        assert!(rule.allows("https://a.example", "GET") && !rule.allows("https://a.example", "PUT"));
        assert_eq!(rule.max_age.as_secs(), 300);
        for wrong in [
            "[[bucket.cors]]\nmethods = [\"GET\"]",
            "[[bucket.cors]]\norigins = []",
            "[[bucket.cors]]\norigins = [\"*\"]\nmax_age = \"soon\"",
            "[[bucket.cors]]\norigin = [\"*\"]",
        ] {
            assert!(bucket(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_value_knows_its_line() {
        let layer = read("[server]\n\nlisten = \"127.0.0.1:1\"\nattempts = 3\n[cache]\npage_size = 65_536\n")
            .unwrap();
        let shown = |setting| {
            let given: &Given = &layer.settings[&setting];
            format!("{} {}", given.value, given.from)
        };
        assert_eq!(shown(Setting::Listen), "127.0.0.1:1 node.toml:3");
        assert_eq!(shown(Setting::Attempts), "3 node.toml:4");
        assert_eq!(shown(Setting::PageSize), "65536 node.toml:6");
    }

    #[test]
    fn a_bucket_and_a_key_are_read_whole() {
        let layer = read(
            "[[bucket]]\nname = 'lake'\nurl = 's3://b'\nread_only = true\nconsistency = 'strict'\n\
             rules = [{ prefix = 'a/', consistency = 'immutable' }]\n[bucket.options]\nallow_http = true\n\
             [[access_key]]\nid = 'me'\nsecret_env = 'S'\nbuckets = ['lake']\nwrite = true\n",
        )
        .unwrap();

        let bucket = &layer.buckets[0];
        assert_eq!(bucket.name.as_ref().unwrap().value, "lake");
        assert_eq!(bucket.url.value, "s3://b");
        assert_eq!(bucket.options[0].0, "allow_http");
        assert_eq!(bucket.options[0].1.value, "true");
        assert_eq!(bucket.rules[0].0, "a/");
        assert!(bucket.read_only.as_ref().unwrap().value);
        let key = &layer.access_keys[0];
        assert_eq!(format!("{} {:?}", key.id.value, key.secret), "me Env(S)");
        assert_eq!(key.buckets.as_ref().unwrap()[0].value, "lake");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_file_and_line() {
        let said = error("[server]\n\n\n[cache]\nmemry = 1\n");
        assert_eq!(said, "node.toml:5: unknown key `memry` in [cache]; did you mean `memory`?");
        let said = error("[[bucket]]\nurl = 'a'\nreadonly = true\n");
        assert_eq!(said, "node.toml:3: unknown key `readonly` in [[bucket]]; did you mean `read_only`?");
        assert!(
            error("[buckets]\n").starts_with("node.toml:1: unknown key `buckets` at the top of the file")
        );
        assert!(error("[[access_key]]\nid='a'\nkey='b'").starts_with("node.toml:3: unknown key `key`"));
        let said = error("[[bucket]]\nurl = 'a'\nrules = [\n  { prefx = 'a' },\n]\n");
        assert!(said.starts_with("node.toml:4: unknown key `prefx`"), "{said}");
    }

    #[test]
    fn what_is_not_toml_is_an_error_with_its_line() {
        assert!(error("[server]\nlisten = \n").starts_with("node.toml:2: "));
        assert!(error("[cache]\nmemory = 1\nmemory = 2\n").starts_with("node.toml:3: "));
        assert_eq!(error("[cache]\nmemory = ['a', 2").lines().count(), 1);
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_an_error_with_its_line() {
        assert_eq!(error("[[bucket]]\nurl = 5\n"), "node.toml:2: url: must be a text, not a number");
        assert!(error("[bucket]\nurl = 'a'\n").contains("[[bucket]]"));
        assert!(error("bucket = 5").contains("a list of tables"));
        assert!(error("[cache]\nmemory = [1]").contains("node.toml:2: memory: must be"));
        assert!(error("[[bucket]]\nurl = 'a'\nread_only = 'yes'").contains("true or false"));
    }

    #[test]
    fn a_bucket_needs_a_url_and_a_key_one_secret() {
        assert!(error("\n[[bucket]]\nname = 'a'").starts_with("node.toml:2: a [[bucket]] needs a `url`"));
        assert!(error("[[access_key]]\nid = 'a'").contains("needs one of `secret`"));
        assert!(error("[[access_key]]\nid = 'a'\nsecret='b'\nsecret_env='c'").contains("give one of"));
        assert!(error("[[access_key]]\nsecret = 'a'").contains("needs an `id`"));
    }
}
