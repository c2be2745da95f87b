#!/usr/bin/env bash
# Starts a cluster of three nodes on this machine, and a fourth node that serves a folder as their S3 origin.
#
#   examples/cluster/run.sh FOLDER      until Ctrl-C; STYLOBATE=target/release/stylobate names another binary
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?usage: run.sh FOLDER, whose files are the objects}
stylobate=${STYLOBATE:-stylobate}
unset AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3

random_secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
CLUSTER_SECRET=$(random_secret)
TICKET_SECRET=$(random_secret)
export CLUSTER_SECRET TICKET_SECRET

started=()
stop() {
    trap - EXIT INT TERM
    # The origin stops last: the nodes read from it until they have ended.
    kill "${started[@]:1}" 2>/dev/null || true
    wait "${started[@]:1}" 2>/dev/null || true
    kill "${started[0]}" 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 130' INT TERM

"$stylobate" serve --origin "lake=$folder" --listen 127.0.0.1:9900 --admin 127.0.0.1:9901 --flight off >/dev/null &
started+=($!)
until (: </dev/tcp/127.0.0.1/9900) 2>/dev/null; do
    kill -0 "${started[0]}" || exit 1
    sleep 0.1
done

tens=0
for id in a b c; do
    STYLOBATE_CLUSTER_ID=$id STYLOBATE_CLUSTER_LISTEN=127.0.0.1:90${tens}3 "$stylobate" serve \
        --config "$here/cluster.toml" \
        --listen 127.0.0.1:90${tens}0 --admin 127.0.0.1:90${tens}1 --flight 127.0.0.1:90${tens}2 >/dev/null &
    started+=($!)
    tens=$((tens + 1))
done

for tens in 0 1 2; do
    until (: </dev/tcp/127.0.0.1/90${tens}1) 2>/dev/null; do
        kill -0 "${started[$((tens + 1))]}" || exit 1
        sleep 0.1
    done
done

# A node has asked the others after two probes.
sleep 2
"$stylobate" cluster status
cat <<END

S3 doors     http://127.0.0.1:9000, :9010 and :9020, bucket lake
admin doors  http://127.0.0.1:9001, :9011 and :9021
Ctrl-C stops all nodes.
END
wait
