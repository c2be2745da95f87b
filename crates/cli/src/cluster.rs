//! `stylobate cluster`: shows the nodes of a cluster, and drains one.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::{Args, Subcommand};
use stylobate_server::{
    ClusterNodeStatus, ClusterStatus, NodeTraffic, fetch_cluster_status, set_cluster_draining,
};
use stylobate_storage::parse_duration;
use tokio::time::sleep;

use crate::{
    admin_door::{self, read_secret},
    out::{print, print_json},
    rows::until_stopped,
    table::{CellAlignment, align_by, bytes, count, milliseconds, percent},
};

const EXAMPLES: &str = "\
Examples:
  Show the cluster of the node on this machine:
    stylobate cluster status
  The ids of nodes that do not answer:
    stylobate cluster status --url http://node-1:9001 --json |
      jq -r '.nodes[] | select(.answers | not) | .id'

The status is the view of the node at the URL; views of other nodes may differ briefly.
Exit codes: 2 wrong command line; 1 anything else, such as a node outside a cluster.";

const DRAIN_EXAMPLES: &str = "\
Examples:
  Drain the node on this machine before it is stopped, and give load balancers time to notice:
    stylobate cluster drain --wait 10s && systemctl stop stylobate
  Take it back:
    stylobate cluster drain --undo

A draining node goes on serving. Other nodes become the homes of its keys, and get its pages from it.
Exit codes: 2 wrong command line; 1 anything else, such as a node outside a cluster.";

/// The arguments of `stylobate cluster`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    what: ClusterCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum ClusterCommand {
    /// Show each node: whether it answers, its share of the keys, and its traffic
    Status(ClusterStatusArgs),
    /// Take a node out of placement before it is stopped, or back
    Drain(ClusterDrainArgs),
}

/// The arguments of `stylobate cluster status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
struct ClusterStatusArgs {
    /// Admin door of any node of the cluster
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9001", value_parser = admin_door::url)]
    url: String,

    /// A file with the secret of an access key for all buckets, if the node has access keys
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Print the status as JSON
    #[arg(long)]
    json: bool,
}

/// The arguments of `stylobate cluster drain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = DRAIN_EXAMPLES)]
struct ClusterDrainArgs {
    /// Admin door of the node
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9001", value_parser = admin_door::url)]
    url: String,

    /// A file with the secret of an access key that writes to all buckets, if the node has access keys
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Take the node back into placement
    #[arg(long)]
    undo: bool,

    /// Time to wait after that, such as 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    wait: Duration,
}

/// Runs the command until it ends or the process is stopped.
pub(crate) async fn run(args: ClusterArgs) -> Result<()> {
    match args.what {
        ClusterCommand::Status(args) => until_stopped(status(&args)).await,
        ClusterCommand::Drain(args) => until_stopped(drain(&args)).await,
    }
}

async fn status(args: &ClusterStatusArgs) -> Result<()> {
    let secret = read_secret(args.secret_file.as_deref())?;
    let cluster = fetch_cluster_status(&args.url, secret.as_ref()).await?;

    if args.json { print_json(&cluster) } else { print(cluster_table(&cluster)) }
}

async fn drain(args: &ClusterDrainArgs) -> Result<()> {
    let secret = read_secret(args.secret_file.as_deref())?;
    let cluster = set_cluster_draining(&args.url, secret.as_ref(), !args.undo).await?;
    let state = if cluster.draining { "is draining" } else { "is in placement" };
    print(format!("node {} {state}; view {}\n", cluster.id, cluster.digest))?;

    sleep(args.wait).await;
    Ok(())
}

/// Formats a cluster as a table of its nodes, followed by lines that name problems.
fn cluster_table(cluster: &ClusterStatus) -> String {
    let nodes = count(cluster.nodes.len(), "node");
    let source = &cluster.source;
    let mut text =
        format!("{nodes}, as {} sees them; nodes from {source}; view {}\n\n", cluster.id, cluster.digest);

    let headings = [
        "node",
        "address",
        "state",
        "share",
        "read",
        "hits",
        "from peers",
        "to peers",
        "probe ms",
        "version",
        "view",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(cluster.nodes.iter().map(cells));
    let mut sides = [CellAlignment::Left; 11];
    sides[3..9].fill(CellAlignment::Right);
    text.push_str(&align_by(&rows, &sides));

    let problems = cluster.nodes.iter().filter_map(|node| {
        let name = node.id.as_deref().or(node.address.as_deref()).unwrap_or("?");
        Some(format!("{name}: {}", node.problem.as_deref()?))
    });
    let problems: Vec<_> = cluster.problem.iter().cloned().chain(problems).collect();
    if !problems.is_empty() {
        text.push('\n');
    }
    for problem in problems {
        text.push_str(&format!("{problem}\n"));
    }

    text
}

fn cells(node: &ClusterNodeStatus) -> Vec<String> {
    let id = node.id.as_deref().unwrap_or("?");
    let traffic = node.traffic.unwrap_or_default();
    let sum = |of: fn(&NodeTraffic) -> u64| node.traffic.as_ref().map(of).map(bytes).unwrap_or_default();
    let hits = if traffic.bytes_read == 0 { String::new() } else { percent(traffic.hit_ratio()) };
    let view = match node.same_view {
        Some(true) => "same",
        Some(false) => "differs",
        None => "",
    };

    vec![
        if node.this { format!("{id} *") } else { id.to_owned() },
        node.address.clone().unwrap_or_default(),
        if node.answers { node.state.clone() } else { format!("{}, no answer", node.state) },
        percent(node.share),
        sum(|traffic| traffic.bytes_read),
        hits,
        sum(|traffic| traffic.bytes_peer),
        sum(|traffic| traffic.bytes_to_peers),
        node.probe_ms.map(milliseconds).unwrap_or_default(),
        node.version.clone().unwrap_or_default(),
        view.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_a_table_of_its_nodes_and_what_is_wrong_with_them() {
        let node = |id: &str, more: serde_json::Value| {
            let mut node = json!({
                "id": id, "this": false, "address": format!("{id}:9003"), "state": "up", "answers": true,
                "weight": 1, "share": 0.5, "version": "0.1.0", "same_view": true, "probe_ms": 1.25,
                "traffic": {
                    "bytes_read": 2_000_000, "bytes_cached": 1_500_000, "bytes_peer": 300_000,
                    "bytes_to_peers": 700_000,
                },
            });
            node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            node
        };
        let down = json!({
            "state": "down", "answers": false, "share": 0.0, "traffic": null, "probe_ms": null,
            "same_view": null, "version": null, "problem": "its page_size is 2MiB",
        });
        let cluster = json!({
            "id": "a", "digest": "00ff", "draining": false, "source": "configuration",
            "nodes": [node("a", json!({ "this": true, "probe_ms": null })), node("b", json!({})), node("c", down)],
        });

        let cluster = serde_json::from_value(cluster).unwrap();
        let expected = "\
3 nodes, as a sees them; nodes from configuration; view 00ff

node  address  state            share    read   hits  from peers  to peers  probe ms  version  view
a *   a:9003   up               50.0%  2.0 MB  75.0%    300.0 kB  700.0 kB            0.1.0    same
b     b:9003   up               50.0%  2.0 MB  75.0%    300.0 kB  700.0 kB      1.25  0.1.0    same
c     c:9003   down, no answer   0.0%

c: its page_size is 2MiB
";
        assert_eq!(cluster_table(&cluster), expected);
    }
}
