//! The configuration as users write it: layers, provenance, and rejected input.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use stylobate_server::{
    ServerError,
    config::{Layer, Layers, NodeListSource, Resolved, Setting},
};
use stylobate_storage::{ByteSize, Consistency, Durability};

const NOTHING: &dyn Fn(&str) -> Option<String> = &|_| None;

fn resolve(file: &str, env: &[(&str, &str)], flags: Layer) -> Result<Resolved, ServerError> {
    let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let file = if file.is_empty() { Layer::default() } else { Layer::toml("node.toml", file)? };
    Layers { file, environment: Layer::environment(&env)?, flags }.resolve(&env)
}

fn error_of(file: &str) -> String {
    resolve(file, &[], Layer::default()).unwrap_err().to_string()
}

/// Returns the printed line that begins with `key`, without the padding before its comment.
fn line(resolved: &Resolved, key: &str) -> String {
    let text = resolved.to_string();
    let line = text.lines().find(|line| line.starts_with(&format!("{key} ")));
    let line = line.unwrap_or_else(|| panic!("no {key} in:\n{text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn without_any_argument_the_folder_data_is_served_on_loopback() {
    let resolved = resolve("", &[], Layer::default()).unwrap();
    let config = &resolved.config;
    assert_eq!((config.buckets[0].name.as_str(), config.buckets[0].url.as_str()), ("data", "./data"));
    assert!(config.access_keys.is_empty());
    assert!(config.settings.listen.ip().is_loopback() && config.settings.admin.ip().is_loopback());
    assert!(config.settings.memory > ByteSize::ZERO);
    assert_eq!(line(&resolved, "listen"), "listen = \"127.0.0.1:9000\" # default");
}

#[test]
fn a_flag_overrides_a_variable_which_overrides_the_file() {
    let file =
        "[cache]\nmemory = \"1GiB\"\npolicy = \"lru\"\npage_size = \"2MiB\"\n[[bucket]]\nurl = \"./a\"\n";
    let env = [("STYLOBATE_MEMORY", "2GiB"), ("STYLOBATE_POLICY", "lfu")];
    let flags = Layer::default().with_flag(Setting::Memory, "3GiB");
    let resolved = resolve(file, &env, flags).unwrap();
    assert_eq!(resolved.config.settings.memory, ByteSize::gib(3));
    assert_eq!(line(&resolved, "memory"), "memory = \"3GiB\" # flag --memory");
    assert_eq!(line(&resolved, "policy"), "policy = \"lfu\" # env STYLOBATE_POLICY");
    assert_eq!(line(&resolved, "page_size"), "page_size = \"2MiB\" # node.toml:4");
    assert_eq!(line(&resolved, "attempts"), "attempts = 4 # default");
}

#[test]
fn an_origin_of_the_command_line_replaces_the_bucket_of_its_name() {
    let file =
        "[[bucket]]\nname = 'lake'\nurl = 's3://far'\n[[bucket]]\nname = 'other'\nurl = 's3://other'\n";
    let resolved = resolve(file, &[], Layer::default().with_origin("lake=./near")).unwrap();
    let buckets: Vec<_> = resolved.config.buckets.iter().map(|b| (b.name.as_str(), b.url.as_str())).collect();
    assert_eq!(buckets, [("lake", "./near"), ("other", "s3://other")]);
}

#[test]
fn origins_and_keys_come_from_variables_too() {
    let env = [("STYLOBATE_ORIGIN", "a=./x, s3://b"), ("STYLOBATE_ACCESS_KEY", "me:secret")];
    let config = resolve("", &env, Layer::default()).unwrap().config;
    assert_eq!(config.buckets.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(config.access_keys[0].secret.expose(), "secret");
}

#[test]
fn a_rule_for_all_buckets_is_the_default_in_the_file_and_an_order_on_the_command_line() {
    let file = "[cache]\nconsistency = '5s'\n[[bucket]]\nname = 'a'\nurl = './a'\n\
                [[bucket]]\nname = 'b'\nurl = './b'\nconsistency = 'immutable'\n";
    let of = |flags| {
        let buckets = resolve(file, &[], flags).unwrap().config.buckets;
        [buckets[0].consistency, buckets[1].consistency].map(|rule| rule.to_string())
    };
    assert_eq!(of(Layer::default()), ["5s", "immutable"]);
    assert_eq!(of(Layer::default().with_flag(Setting::Consistency, "strict")), ["strict", "strict"]);
}

#[test]
fn read_only_for_all_overrides_what_the_file_says_of_one() {
    let file = "[[bucket]]\nurl = './a'\nread_only = false\n";
    let flags = Layer::default().with_flag(Setting::ReadOnly, "true");
    assert!(resolve(file, &[], flags).unwrap().config.buckets[0].read_only);
}

#[test]
fn the_size_of_the_disk_is_written_behind_its_folder_or_apart() {
    let capacity = |file: &str, disk: &str| {
        let flags = Layer::default().with_origin("./a").with_flag(Setting::Disk, disk);
        resolve(file, &[], flags).unwrap().config.settings.disk_capacity
    };
    assert_eq!(capacity("", "/c"), ByteSize::gib(10));
    assert_eq!(capacity("", "/c=1GiB"), ByteSize::gib(1));
    assert_eq!(capacity("[cache]\ndisk_capacity = '2GiB'\n", "/c"), ByteSize::gib(2));
    assert_eq!(capacity("[cache]\ndisk_capacity = '2GiB'\n", "/c=1GiB"), ByteSize::gib(1));
}

#[test]
fn what_is_printed_is_a_configuration_again() {
    let file = "[server]\ndomains = ['s3.example.org']\nhedge = 0.95\n[[bucket]]\nurl = './a'\n\
                rules = [{ prefix = 'x\"y/', consistency = 'immutable' }]\n\
                [bucket.options]\n'odd key' = 'é'\nregion = 'r'\n\
                [[access_key]]\nid = 'me'\nsecret = 's'\n";
    let printed = resolve(file, &[], Layer::default()).unwrap().to_string();
    let again = resolve(&printed, &[], Layer::default()).unwrap();
    assert_eq!(again.config.settings.hedge, Some(0.95));
    assert_eq!(again.config.settings.domains, ["s3.example.org"]);
    let bucket = &again.config.buckets[0];

    assert_eq!(
        (bucket.rules[0].prefix.as_str(), bucket.rules[0].consistency),
        ("x\"y/", Consistency::Immutable)
    );
    assert_eq!(bucket.options["region"], "r");
    assert_eq!(again.config.access_keys[0].id, "me");
}

#[test]
fn no_secret_is_printed() {
    let file = "[[bucket]]\nname = 'a'\nurl = 'https://me:hunter2@host/a?sig=hunter2'\n[bucket.options]\n\
                secret_access_key = 'hunter2'\naws_session_token = 'hunter2'\nendpoint = 'http://u:hunter2@h'\n\
                [[access_key]]\nid = 'me'\nsecret = 'hunter2'\n";
    let resolved = resolve(file, &[], Layer::default().with_access_key("you:hunter2").unwrap()).unwrap();
    assert!(!resolved.to_string().contains("hunter2"), "{resolved}");
    assert_eq!(line(&resolved, "secret"), "secret = \"***\" # node.toml:10");
    assert_eq!(resolved.config.buckets[0].options["secret_access_key"], "hunter2");
    assert!(!format!("{:?}", resolved.config.access_keys).contains("hunter2"));
}

#[test]
fn the_flight_door_is_told_where_it_listens_and_what_its_tickets_are() {
    let default = resolve("", &[], Layer::default()).unwrap();
    assert_eq!(default.config.settings.flight, Some("127.0.0.1:9002".parse().unwrap()));
    assert_eq!(line(&default, "ticket_lifetime"), "ticket_lifetime = \"3600s\" # default");
    assert!(default.config.ticket_secret.is_none());
    for off in ["off", "none"] {
        let flags = Layer::default().with_flag(Setting::Flight, off);
        let resolved = resolve("", &[], flags).unwrap();
        assert_eq!(resolved.config.settings.flight, None);
        assert_eq!(line(&resolved, "flight"), "flight = \"off\" # flag --flight");
    }

    let file =
        "[flight]\nticket_secret = 'sixteen hunter2!'\nticket_lifetime = '5m'\n[[bucket]]\nurl = './a'\n";
    let resolved = resolve(file, &[], Layer::default()).unwrap();
    assert_eq!(resolved.config.ticket_secret.as_ref().unwrap().expose(), "sixteen hunter2!");
    assert_eq!(line(&resolved, "ticket_secret"), "ticket_secret = \"***\" # node.toml:2");
    assert!(!format!("{resolved} {:?}", resolved.config).contains("hunter2"));
    let env = [("STYLOBATE_TICKET_SECRET", "another secret of 16"), ("STYLOBATE_FLIGHT", "127.0.0.1:7")];
    let resolved = resolve(file, &env, Layer::default()).unwrap();
    assert_eq!(resolved.config.ticket_secret.as_ref().unwrap().expose(), "another secret of 16");
    assert_eq!(line(&resolved, "flight"), "flight = \"127.0.0.1:7\" # env STYLOBATE_FLIGHT");
}

#[test]
fn what_the_flight_door_cannot_be_told_is_an_error() {
    for (file, said) in [
        ("[flight]\nticket_secret = 'hunter2'\n", "node.toml:2: ticket_secret: give at least 16"),
        ("[flight]\nticket_secret_env = 'NOT_SET'\n", "node.toml:2: ticket_secret_env: the variable NOT_SET"),
        (
            "[flight]\nticket_secret = 'a'\nticket_secret_env = 'b'\n",
            "node.toml:3: give one of `ticket_secret`",
        ),
        ("[flight]\nticket_secrt = 'a'\n", "did you mean `ticket_secret`?"),
        ("[flight]\nticket_lifetime = 'soon'\n", "node.toml:2: ticket_lifetime: \"soon\" is not a time"),
        ("[server]\nflight = '0.0.0.0:1'\n", "the flight door refuses 0.0.0.0:1: without access keys"),
        ("[server]\nflight = '127.0.0.1:9000'\n", "node.toml:2: listen and flight are both 127.0.0.1:9000"),
        ("[server]\nadmin = '127.0.0.1:9002'\n", "node.toml:2: admin and flight are both 127.0.0.1:9002"),
    ] {
        let error = error_of(&format!("{file}[[bucket]]\nurl = './a'\n"));
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
}

/// The secrets that a cluster requires.
const CLUSTER_SECRETS: &str =
    "secret = 'the secret hunter2'\n[flight]\nticket_secret = 'a secret of tickets'\n";

#[test]
fn a_cluster_has_nodes_and_one_secret() {
    let alone = resolve("", &[], Layer::default()).unwrap();
    assert!(alone.config.cluster.is_none() && !alone.to_string().contains("[cluster]"));

    let file = format!(
        "[[bucket]]\nurl = './a'\n[cluster]\nid = 'b'\nnodes = ['a=h:1', 'b=h:2,2']\n{CLUSTER_SECRETS}"
    );
    let resolved = resolve(&file, &[], Layer::default()).unwrap();
    let cluster = resolved.config.cluster.as_ref().unwrap();
    assert_eq!((cluster.id.as_str(), cluster.listen.to_string().as_str()), ("b", "127.0.0.1:9003"));
    let NodeListSource::Fixed(nodes) = &cluster.nodes else { panic!("{:?}", cluster.nodes) };
    let nodes: Vec<_> = nodes.iter().map(|node| (node.id().as_str(), node.weight().get())).collect();
    assert_eq!(nodes, [("a", 1), ("b", 2)]);

    assert_eq!(line(&resolved, "id"), "id = \"b\" # node.toml:4");
    assert_eq!(line(&resolved, "nodes"), "nodes = [\"a=h:1\", \"b=h:2,2\"] # node.toml:5");
    assert_eq!(line(&resolved, "secret"), "secret = \"***\" # node.toml:6");
    assert!(!format!("{resolved} {:?}", resolved.config).contains("hunter2"));

    let env = [
        ("STYLOBATE_CLUSTER_ID", "a"),
        ("STYLOBATE_CLUSTER_NODES", "a=h:1,2; c=h:3"),
        ("STYLOBATE_CLUSTER_LISTEN", "127.0.0.1:7"),
        ("STYLOBATE_CLUSTER_SECRET", "another secret of 16"),
    ];
    let cluster = resolve(&file, &env, Layer::default()).unwrap().config.cluster.unwrap();
    assert_eq!((cluster.id.as_str(), cluster.listen.port()), ("a", 7));
    assert_eq!(cluster.secret.expose(), "another secret of 16");
    let NodeListSource::Fixed(nodes) = &cluster.nodes else { panic!("{:?}", cluster.nodes) };
    assert_eq!(nodes[1].id().as_str(), "c");
}

#[test]
fn the_nodes_of_a_cluster_come_from_a_file_or_from_dns_too() {
    let nodes = |line: &str| {
        let file = format!("[[bucket]]\nurl = './a'\n[cluster]\nid = 'a'\n{line}\n{CLUSTER_SECRETS}");
        resolve(&file, &[], Layer::default()).unwrap().config.cluster.unwrap().nodes
    };
    assert_eq!(nodes("nodes_file = '/etc/nodes'"), NodeListSource::File("/etc/nodes".into()));
    let name = "stylobate.lake.svc:9003".parse().unwrap();
    assert_eq!(nodes("nodes_dns = 'stylobate.lake.svc:9003'"), NodeListSource::Dns(name));

    let file = "[server]\nflight = 'off'\n[cluster]\nid = 'a'\nnodes = ['a=h:1']\n\
                secret = 'the secret of it'\n[[bucket]]\nurl = './a'\n";
    assert!(resolve(file, &[], Layer::default()).is_ok(), "without a Flight door there are no tickets");
}

#[test]
fn what_cannot_be_a_cluster_is_an_error() {
    for (cluster, said) in [
        (
            "id = 'a'\nsecret = 'hunter2'",
            "node.toml:2: a cluster needs a list of its nodes: give one of `nodes`",
        ),
        ("nodes = []", "node.toml:2: a cluster needs a list of its nodes"),
        ("nodes = ['a=h:1']", "node.toml:2: a cluster needs a secret that all its nodes share"),
        ("nodes = ['a=h:1']\nsecret = 'hunter2'", "node.toml:3: secret: give at least 16 characters"),
        ("nodes = ['a=h:1']\nsecret_env = 'NOT_SET'", "node.toml:3: secret_env: the variable NOT_SET"),
        (
            "nodes = ['a=h:1']\nnodes_file = 'x'",
            "node.toml:3: give one of `nodes`, `nodes_file` and `nodes_dns`",
        ),
        (
            "nodes = ['a=h:1']\nsecret = 'a hunter2 of many letters'",
            "node.toml:3: a cluster needs one secret for the tickets of all its nodes",
        ),
        ("nodes = ['a=h:1', 'a=h:2']", "node.toml:2: nodes: two nodes have the id \"a\""),
        ("nodes = ['a=h']", "node.toml:2: nodes: \"h\" is not the address of a node: the port is missing"),
        ("nodes_dns = 'name'", "node.toml:2: nodes_dns: \"name\" is not the address of a node"),
        ("id = 'a b'", "node.toml:2: id: \"a b\" is not a node id"),
        ("nods = []", "node.toml:2: unknown key `nods` in [cluster]; did you mean `nodes`?"),
        (
            "nodes = ['a=h:1']\nlisten = '127.0.0.1:9001'",
            "node.toml:3: admin and listen of [cluster] are both 127.0.0.1:9001",
        ),
    ] {
        let error = error_of(&format!("[cluster]\n{cluster}\n[[bucket]]\nurl = './a'\n"));
        assert!(error.starts_with(said) && !error.contains("hunter2"), "{error}");
    }

    let file = format!(
        "[[bucket]]\nurl = './a'\n[cluster]\nid = 'a'\nnodes = ['a=h:1']\nlisten = '0.0.0.0:9003'\n{CLUSTER_SECRETS}"
    );
    assert!(error_of(&file).starts_with("the peer door refuses 0.0.0.0:9003: without access keys"));
}

#[test]
fn an_access_key_may_have_a_token_of_its_own() {
    let key = |id: &str, more: &str| format!("[[access_key]]\nid = '{id}'\nsecret = 'secret-{id}'\n{more}\n");
    let file = |keys: &[String]| format!("[[bucket]]\nurl = './a'\n{}", keys.concat());
    let env = [("TOKEN", "token-of-b")];
    let both = file(&[key("a", "token = 'hunter2'"), key("b", "token_env = 'TOKEN'"), key("c", "")]);
    let resolved = resolve(&both, &env, Layer::default()).unwrap();
    let shown: Vec<_> = resolved.config.access_keys.iter().map(|key| key.bearer().expose()).collect();
    assert_eq!(shown, ["hunter2", "token-of-b", "secret-c"]);
    assert_eq!(line(&resolved, "token"), "token = \"***\" # node.toml:6");
    assert_eq!(line(&resolved, "token_env"), "token_env = \"TOKEN\" # node.toml:10");
    assert!(!format!("{resolved} {:?}", resolved.config).contains("hunter2"));
    let same = error_of(&file(&[key("a", "token = 'hunter2'"), key("b", "token = 'hunter2'")]));
    assert_eq!(same, "node.toml:10: access keys a and b show the same token");
    assert!(error_of(&file(&[key("a", ""), key("b", "token = 'secret-a'")])).contains("same token"));
    assert!(error_of(&file(&[key("a", "token = 'b'\ntoken_file = 'c'")])).contains("give one of `token`"));
}

#[test]
fn a_wrong_value_is_an_error_that_names_its_place() {
    for (setting, text) in [
        (Setting::Listen, "9000"),
        (Setting::Memory, "lots"),
        (Setting::Policy, "random"),
        (Setting::PageSize, "100KiB"),
        (Setting::PageSize, "32MiB"),
        (Setting::Consistency, "often"),
        (Setting::Hedge, "2"),
        (Setting::DrainTimeout, "soon"),
        (Setting::Attempts, "0"),
        (Setting::MaxConnections, "none"),
        (Setting::LogFormat, "xml"),
        (Setting::Region, ""),
        (Setting::Domains, "http://x"),
        (Setting::Disk, "=1GiB"),
        (Setting::ReadOnly, "maybe"),
    ] {
        let error = resolve("", &[], Layer::default().with_flag(setting, text)).unwrap_err();
        let start = format!("flag {}: ", setting.flag());
        let shown = error.to_string();
        assert!(shown.starts_with(&start) && !shown.contains(&format!(": {setting}: ")), "{shown}");
        assert_eq!(error.exit_code(), 2);
    }

    let error = resolve("", &[("STYLOBATE_MEMORY", "lots")], Layer::default()).unwrap_err();
    assert!(error.to_string().starts_with("env STYLOBATE_MEMORY: \"lots\""), "{error}");
    assert!(error_of("\n[cache]\nmemory = 'lots'\n").starts_with("node.toml:3: memory: \"lots\""));
}

#[test]
fn a_fetch_holds_at_least_one_page() {
    let flags = Layer::default().with_flag(Setting::PageSize, "16MiB");
    let error = resolve("", &[], flags).unwrap_err().to_string();
    assert!(error.contains("max_fetch is 8MiB, less than one page of 16MiB"), "{error}");
}

#[test]
fn both_doors_cannot_be_in_one_place() {
    let both = |port: &str| {
        let flags = Layer::default().with_flag(Setting::Listen, port).with_flag(Setting::Admin, port);
        resolve("", &[], flags)
    };
    assert!(both("127.0.0.1:7000").is_err());
    assert!(both("127.0.0.1:0").is_ok());
}

#[test]
fn a_bucket_is_named_once_and_well() {
    assert_eq!(
        error_of("[[bucket]]\nurl = './lake'\n\n[[bucket]]\nname = 'lake'\nurl = 's3://b'\n"),
        "node.toml:4: bucket lake is given twice: give each origin its own NAME=URL"
    );
    assert!(
        error_of("[[bucket]]\nname = 'My Lake'\nurl = './a'\n").starts_with("node.toml:2: name: \"My Lake\"")
    );
    assert!(error_of("[[bucket]]\nurl = ''\nname = 'a'\n").contains("has no URL"));
    let error = resolve("", &[], Layer::default().with_origin("s3://b/day=1")).unwrap_err();
    assert!(error.to_string().contains("write NAME=s3://b/day=1"), "{error}");
}

#[test]
fn changes_to_a_folder_are_durable_unless_its_bucket_says_otherwise() {
    let bucket = |more: &str| format!("[[bucket]]\nurl = './lake'\n{more}");
    let durability = |file: &str| resolve(file, &[], Layer::default()).unwrap().config.buckets[0].durability;
    assert_eq!(durability(&bucket("")), Durability::Fsync);
    assert_eq!(durability(&bucket("durability = 'fsync'")), Durability::Fsync);
    assert_eq!(durability(&bucket("durability = 'none'")), Durability::None);

    let resolved = resolve(&bucket("durability = 'none'"), &[], Layer::default()).unwrap();
    assert_eq!(line(&resolved, "durability"), "durability = \"none\" # node.toml:3");
    let error = error_of(&bucket("durability = 'ram'"));
    assert_eq!(error, "node.toml:3: durability: there is no durability \"ram\": fsync or none");
}

#[test]
fn a_file_without_a_bucket_serves_nothing_by_accident() {
    assert!(error_of("[cache]\nmemory = '1GiB'\n").starts_with("node.toml:1: there is no bucket"));
}

#[test]
fn an_access_key_names_buckets_that_exist_and_is_given_once() {
    let file =
        "[[bucket]]\nurl = './lake'\n[[access_key]]\nid = 'a'\nsecret = 's'\nbuckets = ['lake', 'sea']\n";
    assert_eq!(error_of(file), "node.toml:6: buckets: there is no bucket \"sea\"");
    let twice = "[[bucket]]\nurl = './lake'\n[[access_key]]\nid = 'a'\nsecret = 's'\n\
                 [[access_key]]\nid = 'a'\nsecret = 't'\n";
    assert_eq!(error_of(twice), "node.toml:7: access key a is given twice");
}

#[test]
fn a_key_of_the_file_opens_all_buckets_for_reading_unless_it_says_otherwise() {
    let file = "[[bucket]]\nurl = './lake'\n[[access_key]]\nid = 'a'\nsecret = 's'\n";
    let config = resolve(file, &[], Layer::default()).unwrap().config;
    assert!(config.access_keys[0].opens("lake"));
    assert!(!config.access_keys[0].write);
}

#[test]
fn without_access_keys_a_door_stays_on_loopback() {
    for setting in [Setting::Listen, Setting::Admin] {
        let open = Layer::default().with_flag(setting, "0.0.0.0:9100");
        let error = resolve("", &[], open.clone()).unwrap_err();
        assert!(matches!(error, ServerError::Exposed { .. }), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert!(resolve("", &[], open.with_access_key("me:secret").unwrap()).is_ok());
    }
}

#[test]
fn a_missing_configuration_file_is_an_error_that_names_it() {
    let error = Layer::file("/nowhere/node.toml".as_ref()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/node.toml"), "{error}");
    assert!(Layer::environment(NOTHING).is_ok());
}

#[test]
fn options_of_the_command_line_go_to_its_origins() {
    let flags = Layer::default().with_origin("s3://a").with_option("region=r").unwrap();
    assert_eq!(resolve("", &[], flags).unwrap().config.buckets[0].options["region"], "r");
    assert!(Layer::default().with_option("region=r").is_err());
    assert!(Layer::default().with_origin("s3://a").with_option("region").is_err());
}

/// Returns the row of a setting in the settings reference.
fn reference_row(setting: Setting) -> String {
    let default = match setting.default_text() {
        words if words == "none" || words.contains(' ') => words,
        text => format!("`{text}`"),
    };
    let meaning = match setting.note() {
        "" => setting.help().to_owned(),
        note => format!("{}. {note}", setting.help()),
    };
    let flag = if setting.has_flag() { format!(" `{}` |", setting.flag()) } else { String::new() };
    format!("| `{}` |{flag} `{}` | {default} | {meaning} |", setting.key(), setting.env())
}

#[test]
fn the_reference_lists_the_settings_as_they_are_declared() {
    let reference = include_str!("../../../docs/reference/settings.md");
    let example = reference.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    Layer::toml("the example", example).unwrap();

    for section in ["server", "cache", "flight", "cluster"] {
        let of_section = || Setting::ALL.into_iter().filter(|setting| setting.section() == section);
        let heading = format!("## `[{section}]`\n");
        let text = reference.split(&heading).nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| `") && !line.contains("secret_file"));
        assert_eq!(rows.collect::<Vec<_>>(), of_section().map(reference_row).collect::<Vec<_>>());

        for setting in of_section() {
            let begins = format!("{} = ", setting.key());
            // Settings that exclude another setting are shown as comments.
            let mut lines = example.lines().map(|line| line.trim_start_matches("# "));
            assert!(lines.any(|line| line.starts_with(&begins)), "no {setting} in the example");
        }
    }
}
