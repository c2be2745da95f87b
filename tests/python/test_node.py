"""A storage node inside the process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import boto3
import pytest
import stylobate as st

from conftest import settle


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "x.txt").write_text("hello")
    settle(folder / "x.txt")
    return folder


def s3(node: st.Node) -> object:
    return boto3.client(
        "s3",
        endpoint_url=node.s3_endpoint,
        aws_access_key_id="any",
        aws_secret_access_key="any",
        region_name="us-east-1",
    )


def test_a_node_serves_a_folder_over_s3_until_it_is_closed(lake: Path) -> None:
    with st.Node(origin=lake, memory="32MiB") as node:
        assert node.buckets == {"lake": str(lake)}
        client = s3(node)
        assert client.get_object(Bucket="lake", Key="x.txt")["Body"].read() == b"hello"
        stats = node.stats()
        assert stats["buckets"]["lake"]["bytes_origin"] == 5
        with urllib.request.urlopen(f"{node.admin_endpoint}/api/stats", timeout=10) as answer:
            assert json.load(answer)["buckets"][0]["name"] == "lake"
        assert not node.closed
    assert node.closed
    node.close()
    assert "closed" in repr(node)
    with pytest.raises(st.StylobateError, match="closed"):
        node.stats()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{node.admin_endpoint}/healthz", timeout=10)


def test_a_scan_reads_from_a_node_of_the_same_process(files: dict[str, Path]) -> None:
    with st.Node({"orders": files["parquet"].parent}) as node:
        options = {
            "endpoint": node.s3_endpoint,
            "allow_http": True,
            "access_key_id": "a",
            "secret_access_key": "b",
            "region": "us-east-1",
        }
        scan = st.scan("s3://orders/orders.parquet", storage_options=options)
        assert scan.count() == 30_000
        assert st.scan("s3://orders/*.orc", storage_options=options).count() == 30_000
        with pytest.raises(st.NotFoundError, match="none"):
            st.scan("s3://orders/none.parquet", storage_options=options)


def test_a_configuration_file_says_what_to_serve_and_arguments_override_it(
    lake: Path, tmp_path: Path
) -> None:
    config = tmp_path / "node.toml"
    config.write_text(
        f'[server]\nlisten = "127.0.0.1:1"\nadmin = "127.0.0.1:0"\n'
        f'[[bucket]]\nname = "pond"\nurl = "{lake}"\n'
        '[[access_key]]\nid = "me"\nsecret = "a-long-secret"\nbuckets = ["*"]\n'
    )
    with st.Node(config=config, listen="127.0.0.1:0") as node:
        assert list(node.buckets) == ["pond"]
        with pytest.raises(Exception, match="InvalidAccessKeyId|403|Forbidden"):
            s3(node).get_object(Bucket="pond", Key="x.txt")
    with st.Node({"lake": lake}, config=config, listen="127.0.0.1:0") as node:
        assert sorted(node.buckets) == ["lake", "pond"]
    config.write_text("[server]\nlisen = 3\n")
    with pytest.raises(st.ConfigError, match="lisen"):
        st.Node(config=config)
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(st.ConfigError, match=f"^config: {re.escape(missing)}: No such file"):
        st.Node(config=missing)


def test_what_a_node_cannot_do_is_a_config_error(lake: Path) -> None:
    with pytest.raises(st.ConfigError, match="loopback"):
        st.Node(lake, listen="0.0.0.0:0")
    with pytest.raises(st.ConfigError, match="no such folder"):
        st.Node({"lake": lake / "none"})
    with pytest.raises(st.ConfigError, match="name"):
        st.Node({"Not A Name": lake})
    with pytest.raises(st.ConfigError, match="origin"):
        st.Node()
    with st.Node(lake) as node, pytest.raises(st.ConfigError, match="in use"):
        st.Node(lake, listen=node.s3_endpoint.removeprefix("http://"))


def test_a_node_that_nobody_closes_ends_with_the_process(lake: Path) -> None:
    code = "import sys, stylobate as st; node = st.Node(sys.argv[1]); print(node.s3_endpoint)"
    subprocess.run([sys.executable, "-c", code, str(lake)], check=True, timeout=30)
