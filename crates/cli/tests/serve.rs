//! `stylobate serve` as a process: its output, shutdown and exit codes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../storage/tests/support/eventually.rs"]
mod eventually;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{self, Child, ChildStdout, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use eventually::eventually_blocking;

/// Creates the command in an empty folder, without the environment variables of the test process.
fn stylobate(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stylobate"));
    let own = |name: &str| ["STYLOBATE_", "AWS_", "OTEL_"].iter().any(|own| name.starts_with(own));
    for (name, _) in std::env::vars().filter(|(name, _)| own(name)) {
        command.env_remove(name);
    }
    command.current_dir(folder).arg("serve");
    command.env("STYLOBATE_FLIGHT", "127.0.0.1:0").env_remove("RUST_BACKTRACE");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    stylobate(folder).args(args).output().unwrap()
}

/// Returns the exit code and the error line.
fn failure(output: &Output) -> (i32, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), text.trim().to_owned())
}

/// A running node and its addresses.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    s3: String,
    admin: String,
    flight: String,
    python: String,
    export: String,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_with(folder, args, &[])
    }

    /// Starts a node with environment variables.
    fn start_with(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = stylobate(folder);
        command.envs(variables.iter().copied());
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB"]).args(args);

        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut s3 = String::new();
        let mut admin = String::new();
        let mut flight = String::new();
        let mut python = String::new();
        loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).unwrap() == 0 {
                let mut error = String::new();
                child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                panic!("the node did not start: {error}");
            }

            let address =
                |line: &str| line.trim().trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
            match line.split_whitespace().next() {
                Some("s3") => s3 = address(&line),
                Some("admin") => admin = address(&line),
                Some("flight") => flight = address(&line),
                Some("python") => python = line.trim().to_owned(),
                Some("export") => {
                    return Self { child, stdout, s3, admin, flight, python, export: line.trim().to_owned() };
                }
                _ => {}
            }
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the S3 door refuses new connections, which means that the drain has begun.
    fn refuses(&self) {
        eventually_blocking("new connections to be refused", || TcpStream::connect(&self.s3).is_err());
    }

    /// Waits for the process to exit; returns the exit code and the log.
    fn wait(&mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder_with_data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/hello"), "world").unwrap();
    folder
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn without_any_argument_the_folder_data_is_served() {
    let folder = folder_with_data();
    let node = Running::start(folder.path(), &[]);
    let answer = get(&node.s3, "/data/hello");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("world"), "{answer}");
    assert!(get(&node.admin, "/readyz").starts_with("HTTP/1.1 200"));
    assert_eq!(
        node.export,
        format!(
            "export AWS_ENDPOINT_URL=http://{} AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1",
            node.s3
        )
    );
}

#[test]
fn the_flight_door_is_told_as_a_line_to_type_and_can_be_turned_off() {
    let folder = folder_with_data();
    let node = Running::start(folder.path(), &[]);
    let said = format!("python  client = pyarrow.flight.connect(\"grpc://{}\")", node.flight);
    assert_eq!(node.python, said);
    assert!(TcpStream::connect(&node.flight).is_ok());

    let guarded = Running::start(folder.path(), &["--access-key", "me:hunter2"]);
    assert!(guarded.python.contains("b\"authorization\", b\"Bearer …\""), "{}", guarded.python);

    let off = Running::start(folder.path(), &["--flight", "off"]);
    assert_eq!((off.flight.as_str(), off.python.as_str()), ("", ""));
}

#[test]
fn without_the_folder_data_the_error_says_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let (code, error) = failure(&run(folder.path(), &[]));
    assert_eq!(code, 2);
    assert!(error.contains("./data") && error.contains("stylobate serve FOLDER"), "{error}");
}

#[test]
fn a_folder_that_does_not_exist_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for origin in [&["--origin", "lake=./sea"][..], &["lake=./sea"], &["sea"]] {
        let (code, error) = failure(&run(folder.path(), &[origin, &["--listen", "127.0.0.1:0"]].concat()));
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("sea"), "{error}");
    }
}

#[test]
fn folders_are_served_without_a_flag() {
    let folder = folder_with_data();
    fs::create_dir(folder.path().join("pond")).unwrap();
    let args = ["pond", "lake=./data", "--origin", "sea=./data", "--print-config"];
    let output = run(folder.path(), &args);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    for bucket in ["pond", "lake", "sea"] {
        assert!(printed.contains(&format!("name = \"{bucket}\"")), "{printed}");
    }
}

#[test]
fn the_printed_configuration_says_where_each_value_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[cache]\npolicy = \"lru\"\n[[bucket]]\nname = \"lake\"\nurl = \"s3://lake\"\n\
                [bucket.options]\nsecret_access_key = \"hunter2\"\n";
    fs::write(folder.path().join("node.toml"), file).unwrap();
    let output = stylobate(folder.path())
        .args(["--config", "node.toml", "--memory", "1GiB", "--print-config"])
        .env("STYLOBATE_PAGE_SIZE", "2MiB")
        .env("STYLOBATE_ACCESS_KEY", "me:hunter2")
        .output()
        .unwrap();

    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("hunter2"), "{text}");
    let lines: Vec<_> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();

    for line in [
        "memory = \"1GiB\" # flag --memory",
        "page_size = \"2MiB\" # env STYLOBATE_PAGE_SIZE",
        "policy = \"lru\" # node.toml:2",
        "name = \"lake\" # node.toml:4",
        "options.secret_access_key = \"***\" # node.toml:7",
        "secret = \"***\" # env STYLOBATE_ACCESS_KEY",
        "listen = \"127.0.0.1:9000\" # default",
    ] {
        assert!(lines.iter().any(|known| known == line), "no {line} in\n{text}");
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("node.toml"), "[cache]\nmemry = \"1GiB\"\n").unwrap();
    let (code, error) = failure(&run(folder.path(), &["--config", "node.toml"]));
    assert_eq!(code, 2);
    assert_eq!(error, "stylobate: node.toml:2: unknown key `memry` in [cache]; did you mean `memory`?");
}

#[test]
fn a_missing_configuration_file_is_blamed_on_what_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let missing = |args: &[&str], variable: &str| {
        let output = stylobate(folder.path()).env("STYLOBATE_CONFIG", variable).args(args).output().unwrap();
        failure(&output)
    };

    let (code, error) = missing(&[], "of-variable.toml");
    assert_eq!(code, 2);
    assert!(error.starts_with("stylobate: env STYLOBATE_CONFIG: of-variable.toml: No such file"), "{error}");

    let (code, error) = missing(&["--config", "of-flag.toml"], "of-variable.toml");
    assert_eq!(code, 2);
    assert!(error.starts_with("stylobate: flag --config: of-flag.toml: No such file"), "{error}");
}

#[test]
fn the_variable_names_a_configuration_file_unless_it_is_empty() {
    let folder = folder_with_data();
    let config = "[cache]\nmemory = \"1GiB\"\n\n[[bucket]]\nurl = \"data\"\n";
    fs::write(folder.path().join("node.toml"), config).unwrap();
    let shown = |variable: &str| {
        let mut command = stylobate(folder.path());
        let output = command.env("STYLOBATE_CONFIG", variable).arg("--print-config").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(shown("node.toml").contains("node.toml:2"));
    assert!(!shown("").contains("node.toml"));
}

#[test]
fn a_port_in_use_has_an_exit_code_of_its_own() {
    let folder = folder_with_data();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let free = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--flight", "127.0.0.1:0"];

    for (n, flag) in free.iter().enumerate().step_by(2) {
        let mut doors = free;
        doors[n + 1] = &address;
        let (code, error) = failure(&run(folder.path(), &doors));
        assert_eq!(code, 3);
        assert!(error.contains(&address) && error.contains(flag), "{error}");
    }
}

#[test]
fn beyond_loopback_keys_are_needed() {
    let folder = folder_with_data();
    for flag in ["--listen", "--admin", "--flight"] {
        let (code, error) = failure(&run(folder.path(), &[flag, "0.0.0.0:0"]));
        assert_eq!(code, 2);
        assert!(error.contains("--access-key"), "{error}");
    }
}

/// Returns a free port outside the ephemeral range, so that no outgoing connection takes it before the node does. Each
/// call starts at a different port.
fn free_port() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (process::id() % 10_000) as u16 + 10 * CALLS.fetch_add(1, Ordering::Relaxed);
    (first..).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn an_origin_that_is_the_node_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let doors = ["--listen", &listen, "--admin", "127.0.0.1:0", "--memory", "64MiB", "--attempts", "1"];
    let endpoint = format!("http://localhost:{port}");

    let option = format!("endpoint={endpoint}");
    let args = [&doors[..], &["--origin", "lake=s3://lake", "--option", &option]].concat();
    let (code, error) = failure(&run(folder.path(), &args));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("bucket lake") && error.contains("option endpoint"), "{error}");

    let mut command = stylobate(folder.path());
    command.args(doors).args(["--origin", "lake=s3://lake"]).env("AWS_ENDPOINT_URL", &endpoint);
    let (code, error) = failure(&command.output().unwrap());
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("env AWS_ENDPOINT_URL") && error.contains(&endpoint), "{error}");
}

#[test]
fn a_filter_of_events_that_is_none_is_an_error_that_says_where_it_stands() {
    let folder = folder_with_data();
    let (code, error) = failure(&run(folder.path(), &["--log", "stylobate=loud"]));
    assert_eq!(code, 2, "{error}");
    assert!(error.starts_with("stylobate: flag --log: \"stylobate=loud\" is not a filter"), "{error}");
}

#[test]
fn a_node_that_listens_everywhere_names_loopback_to_its_clients() {
    let folder = folder_with_data();
    let mut command = stylobate(folder.path());
    command.args(["--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0", "--access-key", "me:secret"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let export = lines.into_iter().find(|line| line.starts_with("export "));
    child.kill().unwrap();
    child.wait().unwrap();
    let export = export.unwrap();
    assert!(export.starts_with("export AWS_ENDPOINT_URL=http://127.0.0.1:"), "{export}");
}

#[test]
fn an_origin_that_does_not_answer_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let origin = format!("far=http://127.0.0.1:{}/", free_port());
    let doors = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--attempts", "1", "--log", "off"];
    let args = [&doors[..], &["--origin", &origin, "--option", "allow_http=true"]].concat();
    let (code, error) = failure(&run(folder.path(), &args));
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("bucket far"), "{error}");
}

#[test]
fn a_cache_folder_serves_one_process() {
    let folder = folder_with_data();
    let disk = format!("{}=64MiB", folder.path().join("cache").display());
    let _first = Running::start(folder.path(), &["--disk", &disk]);
    let doors = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB", "--log", "off"];
    let (code, error) = failure(&run(folder.path(), &[&doors[..], &["--disk", &disk]].concat()));
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("in use by another process"), "{error}");
}

#[test]
fn a_cache_folder_that_cannot_be_made_is_an_error() {
    let folder = folder_with_data();
    let doors = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB", "--log", "off"];
    let (code, error) = failure(&run(folder.path(), &[&doors[..], &["--disk", "data/hello/cache"]].concat()));
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("data/hello/cache"), "{error}");
}

/// Waits until the node has read everything that was sent on a connection.
fn wait_until_read(connection: &TcpStream) {
    let client = connection.local_addr().unwrap().port();
    let node = connection.peer_addr().unwrap().port();
    eventually_blocking("the request to arrive", || has_empty_queues(client, node));
    eventually_blocking("the request to be read", || has_empty_queues(node, client));
}

/// Returns whether the socket from one port of this machine to another has nothing to send, and nothing to be read.
fn has_empty_queues(local: u16, remote: u16) -> bool {
    let is_empty = |socket: &str| {
        let fields: Vec<_> = socket.split_whitespace().collect();
        let [_, from, to, _, queues, ..] = fields.as_slice() else { return false };
        from.ends_with(&format!(":{local:04X}"))
            && to.ends_with(&format!(":{remote:04X}"))
            && *queues == "00000000:00000000"
    };
    fs::read_to_string("/proc/net/tcp").unwrap().lines().any(is_empty)
}

#[test]
fn a_node_that_is_told_to_stop_finishes_and_exits_with_0() {
    for name in ["-TERM", "-INT"] {
        let folder = folder_with_data();
        let mut node = Running::start(folder.path(), &[]);
        // Keeps a request in flight.
        let mut in_flight = TcpStream::connect(&node.s3).unwrap();
        write!(in_flight, "GET /data/hello HTTP/1.1\r\nhost: {}\r\n", node.s3).unwrap();
        wait_until_read(&in_flight);
        node.signal(name);
        node.refuses();
        write!(in_flight, "\r\n").unwrap();
        let mut answer = String::new();
        in_flight.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("world"), "{name}: {answer}");
        let (code, log) = node.wait();
        assert_eq!(code, Some(0), "{name}: {log}");
        assert!(log.contains("stopped"), "{name}: {log}");
        let mut rest = String::new();
        node.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let folder = folder_with_data();
    let mut node = Running::start(folder.path(), &[]);
    let mut in_flight = TcpStream::connect(&node.s3).unwrap();
    write!(in_flight, "GET /data/hello HTTP/1.1\r\n").unwrap();
    wait_until_read(&in_flight);
    let begun = Instant::now();
    node.signal("-TERM");
    node.refuses();
    node.signal("-TERM");
    assert_eq!(node.wait().0, Some(130));
    assert!(begun.elapsed() < Duration::from_secs(10), "the drain would have taken thirty");
}

#[test]
fn events_are_json_where_that_is_asked_for() {
    let folder = folder_with_data();
    let mut node = Running::start(folder.path(), &["--log-format", "json"]);
    node.signal("-TERM");
    let (_, log) = node.wait();
    assert!(log.lines().count() > 0);
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["level"].is_string(), "{line}");
    }
}

/// Receives one batch of traces; returns its head and body.
fn take_batch(collector: &TcpListener) -> (String, Vec<u8>) {
    let (stream, _) = collector.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }

    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();

    (head, body)
}

#[test]
fn traces_go_where_the_standard_variables_say() {
    let folder = folder_with_data();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=hunter2"),
        ("OTEL_SERVICE_NAME", "lakehouse"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging"),
        ("OTEL_TRACES_SAMPLER", "always_on"),
    ];

    let mut node = Running::start_with(folder.path(), &[], &variables);
    assert!(get(&node.s3, "/data/hello").ends_with("world"));
    node.signal("-TERM");
    let (head, body) = take_batch(&collector);
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("x-tenant: hunter2"), "{head}");

    for text in ["lakehouse", "staging", "GetObject", "/data/hello", "service.version"] {
        assert!(body.windows(text.len()).any(|bytes| bytes == text.as_bytes()), "no {text}");
    }

    let (code, log) = node.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn a_sampler_that_takes_nothing_sends_nothing() {
    let folder = folder_with_data();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let variables = [("OTEL_TRACES_SAMPLER", "always_off")];
    let mut node = Running::start_with(folder.path(), &["--otlp-endpoint", &endpoint], &variables);
    assert!(get(&node.s3, "/data/hello").ends_with("world"));
    node.signal("-TERM");
    assert_eq!(node.wait().0, Some(0));
    collector.set_nonblocking(true).unwrap();
    assert!(collector.accept().is_err(), "a batch was sent");
}

#[test]
fn a_collector_that_is_not_there_is_one_warning() {
    let folder = folder_with_data();
    let endpoint = format!("http://me:hunter2@127.0.0.1:{}", free_port());
    let variables = [("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let mut node = Running::start_with(folder.path(), &["--otlp-endpoint", &endpoint], &variables);
    for _ in 0..5 {
        assert!(get(&node.s3, "/data/hello").ends_with("world"));
        thread::sleep(Duration::from_millis(150));
    }

    node.signal("-TERM");
    let (code, log) = node.wait();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(log.matches("takes no traces").count(), 1, "{log}");
    assert!(!log.contains("hunter2") && !log.contains("me:"), "{log}");
}

#[test]
fn an_endpoint_of_traces_that_is_none_is_an_error() {
    let folder = folder_with_data();
    let (code, error) = failure(&run(folder.path(), &["--otlp-endpoint", "localhost:4318"]));
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("--otlp-endpoint") && error.contains("http://127.0.0.1:4318/v1/traces"),
        "{error}"
    );

    let shown = run(folder.path(), &["--otlp-endpoint", "http://me:hunter2@h:4318", "--print-config"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("otlp_endpoint = \"http://***@h:4318/v1/traces\""), "{shown}");
}

fn top(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stylobate"));
    command.arg("top").args(args);
    command
}

#[test]
fn top_prints_the_figures_of_a_node_once_or_as_json() {
    let folder = folder_with_data();
    let node = Running::start(folder.path(), &[]);
    get(&node.s3, "/data/hello");
    let url = format!("http://{}", node.admin);

    let once = top(&[&url, "--once"]).output().unwrap();
    assert!(once.status.success(), "{once:?}");
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(text.starts_with("stylobate ") && text.contains(&format!(" at {url}, up ")), "{text}");
    assert!(text.contains("\nbucket") && text.contains("\ndata ") && text.contains("data/hello"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");

    let json = top(&[&url, "--once", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["stats"]["buckets"][0]["name"], "data");
    assert_eq!(json["hot"]["objects"][0]["key"], "hello");
    assert!(json["samples"].is_array() && json["reads"].is_array());
}

#[test]
fn top_goes_on_until_its_reader_has_enough() {
    let folder = folder_with_data();
    let node = Running::start(folder.path(), &[]);
    let url = format!("http://{}", node.admin);
    let mut child = top(&[&url, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["stats"]["buckets"][0]["name"], "data");
    }
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn top_says_what_it_needs() {
    let folder = folder_with_data();
    let node = Running::start(folder.path(), &["--access-key", "me:hunter2"]);
    let url = format!("http://{}", node.admin);
    let (code, error) = failure(&top(&[&url, "--once"]).output().unwrap());
    assert_eq!(code, 1);
    assert!(error.contains("it needs the secret of an access key"), "{error}");

    let secret = folder.path().join("secret");
    fs::write(&secret, "hunter2\n").unwrap();
    let with = top(&[&url, "--once", "--secret-file", secret.to_str().unwrap()]).output().unwrap();
    assert!(with.status.success(), "{with:?}");

    let (code, error) = failure(&top(&["http://127.0.0.1:1", "--once"]).output().unwrap());
    assert_eq!(code, 1);
    assert!(error.contains("http://127.0.0.1:1: no answer"), "{error}");
}
