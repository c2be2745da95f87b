// The nodes of the cluster, as this node sees them.

import { post } from "./api.js";
import { byId, setText, showRows } from "./elements.js";
import { bytes, milliseconds, percent } from "./format.js";

export class Cluster {
  constructor(node) {
    this.node = node;
    byId("drain").addEventListener("click", () => this.drain());
  }

  show() {
    const { stats: { cluster }, session } = this.node;
    byId("cluster-table").hidden = !cluster;
    byId("drain").hidden = !cluster || !session?.may_operate;
    if (!cluster) {
      setText("cluster-note", "This node is in no cluster.");
      return;
    }

    showRows(byId("nodes"), cluster.nodes, ({ id, address }) => id ?? address, ({ traffic, ...node }) => [
      { text: (node.id ?? "?") + (node.this ? " (this node)" : ""), head: true },
      { text: node.address ?? "", kind: "soft" },
      { text: node.state + (node.answers ? "" : ", no answer"), kind: node.answers ? undefined : "bad" },
      { text: percent(node.share), kind: "n" },
      { text: traffic ? bytes(traffic.bytes_read) : "", kind: "n" },
      { text: traffic?.bytes_read ? percent(traffic.bytes_cached / traffic.bytes_read) : "", kind: "n" },
      { text: traffic ? bytes(traffic.bytes_peer) : "", kind: "n" },
      { text: traffic ? bytes(traffic.bytes_to_peers) : "", kind: "n" },
      { text: node.probe_ms === null ? "" : milliseconds(node.probe_ms), kind: "n" },
      node.version ?? "",
      node.same_view === null ? "" : node.same_view ? "same" : "differs",
    ], "no nodes");
    const problems = cluster.nodes.filter(node => node.problem).map(node => `${node.id ?? node.address}: ${node.problem}`);
    setText("cluster-note", [...(cluster.problem ? [cluster.problem] : []), ...problems].join("; ")
      || `The list of nodes comes from ${cluster.source}. Nodes with the view ${cluster.digest} place objects alike.`);
    setText("drain", cluster.draining ? "Take this node back into placement" : "Drain: take this node out of placement");
  }

  async drain() {
    const { cluster } = this.node.stats;
    try {
      this.node.stats.cluster = await post("api/drain", { draining: !cluster.draining });
      setText("cluster-outcome", cluster.draining ? "This node is placed again." : "This node drains: the others keep what it had.");
    } catch (error) {
      setText("cluster-outcome", error.message);
    }
    this.show();
  }
}
