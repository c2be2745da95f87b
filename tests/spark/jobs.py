"""Spark jobs on a bucket through S3A: runs each once, and prints its outcome as a line of JSON.

Usage: jobs.py ENDPOINT KEY SECRET JARS, with the Python of an environment that has pyspark.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

ENDPOINT, KEY, SECRET, JARS = sys.argv[1:5]
LAKE = "s3a://lake"
ROWS = 100_000

Job = Callable[[SparkSession], Any]
JOBS: dict[str, Job] = {}


def job(work: Job) -> Job:
    JOBS[work.__name__] = work
    return work


def session() -> SparkSession:
    settings = {
        "spark.jars": ",".join(str(jar) for jar in Path(JARS).glob("*.jar")),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"{LAKE}/iceberg",
        "spark.hadoop.fs.s3a.endpoint": ENDPOINT,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        # No retries, so that nothing passes only at the second attempt.
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.hadoop.fs.s3a.multipart.size": "5M",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int = ROWS) -> Any:
    return spark.range(0, count).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS s")


def file_system(spark: SparkSession) -> tuple[Any, Any]:
    """Returns the S3A file system and its path class."""
    path = spark._jvm.org.apache.hadoop.fs.Path
    return path(LAKE).getFileSystem(spark._jsc.hadoopConfiguration()), path


def written_by(committer: str) -> Job:
    """Writes Parquet, ORC and CSV, each twice, the second time with fewer rows."""

    def work(spark: SparkSession) -> None:
        conf = spark._jsc.hadoopConfiguration()
        conf.set("fs.s3a.committer.name", committer)
        protocol = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
        usual = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
        spark.conf.set("spark.sql.sources.commitProtocolClass", usual if committer == "file" else protocol)
        if committer != "file":
            binding = "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
            spark.conf.set("spark.sql.parquet.output.committer.class", binding)
            factory = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
            conf.set("mapreduce.outputcommitter.factory.scheme.s3a", factory)
            conf.set("fs.s3a.committer.staging.conflict-mode", "replace")
        try:
            for form in ["parquet", "orc", "csv"]:
                path = f"{LAKE}/{committer}/{form}"
                for count in [ROWS, 10]:
                    writer = rows(spark, count).repartition(3).write.mode("overwrite")
                    getattr(writer, form)(path)
                    assert getattr(spark.read, form)(path).count() == count, (form, count)
        finally:
            spark.conf.unset("spark.sql.sources.commitProtocolClass")
            spark.conf.unset("spark.sql.parquet.output.committer.class")
            conf.unset("mapreduce.outputcommitter.factory.scheme.s3a")
            conf.unset("fs.s3a.committer.name")

    return work


for name in ["file", "directory", "magic"]:
    JOBS[f"written_by_the_{name}_committer"] = written_by(name)


@job
def partitions_are_appended_and_replaced(spark: SparkSession) -> None:
    path = f"{LAKE}/partitions"
    rows(spark).write.mode("overwrite").partitionBy("k").parquet(path)
    rows(spark).write.mode("append").partitionBy("k").parquet(path)
    assert spark.read.parquet(path).count() == 2 * ROWS
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    rows(spark).where("k = 3").write.mode("overwrite").partitionBy("k").parquet(path)
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert spark.read.parquet(path).count() == 2 * ROWS - rows(spark).where("k = 3").count()


@job
def tpch(spark: SparkSession) -> dict[str, Any]:
    for table in ["lineitem", "orders", "customer"]:
        spark.read.parquet(f"{LAKE}/tpch/{table}").createOrReplaceTempView(table)
    queries = json.loads(Path(__file__).with_name("queries.json").read_text())
    answers = {}
    for name, query in queries.items():
        found = spark.sql(query).collect()
        answers[name] = [[None if value is None else str(value) for value in row] for row in found]
    return answers


@job
def directories_do_what_hadoop_asks_of_them(spark: SparkSession) -> None:
    fs, path = file_system(spark)
    base = f"{LAKE}/contract"
    assert fs.mkdirs(path(f"{base}/a/b"))
    assert fs.getFileStatus(path(f"{base}/a/b")).isDirectory()
    assert fs.getFileStatus(path(f"{base}/a")).isDirectory()
    assert fs.mkdirs(path(f"{base}/a/b"))
    fs.create(path(f"{base}/a/b/file")).close()
    assert fs.getFileStatus(path(f"{base}/a/b/file")).getLen() == 0
    assert len(fs.listStatus(path(f"{base}/a"))) == 1

    assert fs.delete(path(f"{base}/a/b/file"), False)
    assert fs.exists(path(f"{base}/a/b")), "a directory outlives its last file"
    assert not fs.exists(path(f"{base}/a/b/file"))

    assert fs.mkdirs(path(f"{base}/target"))
    fs.create(path(f"{base}/a/b/c")).close()
    assert fs.rename(path(f"{base}/a/b"), path(f"{base}/target"))
    assert fs.exists(path(f"{base}/target/c")), "renamed to a directory that is there and empty"
    assert not fs.exists(path(f"{base}/a/b"))
    assert fs.delete(path(base), True)
    assert not fs.exists(path(base))


@job
def fs_shell(spark: SparkSession) -> None:
    shell = spark._jvm.org.apache.hadoop.fs.FsShell(spark._jsc.hadoopConfiguration())
    local = Path("/tmp") / f"stylobate-{time.time_ns()}"
    local.write_bytes(b"bytes" * 2_000_000)

    def run(*words: str) -> None:
        array = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, len(words))
        for at, word in enumerate(words):
            array[at] = word
        assert shell.run(array) == 0, words

    try:
        for _ in range(2):
            run("-mkdir", "-p", f"{LAKE}/shell/a")
            run("-put", str(local), f"{LAKE}/shell/a/file")
            run("-mv", f"{LAKE}/shell/a/file", f"{LAKE}/shell/moved")
            run("-cp", f"{LAKE}/shell/moved", f"{LAKE}/shell/copied")
            run("-touchz", f"{LAKE}/shell/empty")
            run("-ls", f"{LAKE}/shell")
            run("-rm", "-r", "-skipTrash", f"{LAKE}/shell")
    finally:
        local.unlink()


@job
def streams_go_on_from_their_checkpoint(spark: SparkSession) -> None:
    for at in [1, 2]:
        rows(spark).write.mode("append").parquet(f"{LAKE}/stream/in")
        stream = spark.readStream.schema(rows(spark).schema).parquet(f"{LAKE}/stream/in")
        writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{LAKE}/stream/checkpoint")
        writer.option("path", f"{LAKE}/stream/out").trigger(availableNow=True).start().awaitTermination()
        assert spark.read.parquet(f"{LAKE}/stream/out").count() == at * ROWS


@job
def rdds_are_checkpointed(spark: SparkSession) -> None:
    spark.sparkContext.setCheckpointDir(f"{LAKE}/rdd")
    numbers = spark.sparkContext.parallelize(range(1000), 2).map(lambda number: number * 2)
    numbers.checkpoint()
    assert numbers.count() == 1000
    assert numbers.isCheckpointed()


@job
def delta(spark: SparkSession) -> None:
    table = f"delta.`{LAKE}/delta`"
    rows(spark).write.format("delta").mode("overwrite").save(f"{LAKE}/delta")
    rows(spark, 10).write.format("delta").mode("append").save(f"{LAKE}/delta")
    rows(spark, 20).selectExpr("id + 99990 AS id", "k", "'new' AS s").createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO {table} t USING changes c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT *"
    )
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == ROWS + 20
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE s = 'new'").first()[0] == 20
    assert spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF 0").first()[0] == ROWS
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == ROWS + 20


@job
def iceberg(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE ice.db.t (id BIGINT, k BIGINT, s STRING) USING iceberg PARTITIONED BY (k)")
    rows(spark).writeTo("ice.db.t").append()
    first = spark.sql("SELECT snapshot_id FROM ice.db.t.snapshots").first()[0]
    rows(spark, 20).selectExpr("id + 99990 AS id", "k", "'new' AS s").createOrReplaceTempView("changes")
    spark.sql(
        "MERGE INTO ice.db.t t USING changes c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT *"
    )
    assert spark.sql("SELECT count(*) FROM ice.db.t").first()[0] == ROWS + 10
    assert spark.sql(f"SELECT count(*) FROM ice.db.t VERSION AS OF {first}").first()[0] == ROWS
    spark.sql("CALL ice.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
    assert spark.sql("SELECT count(*) FROM ice.db.t WHERE s = 'new'").first()[0] == 20
    spark.sql("DROP TABLE ice.db.t PURGE")


def main() -> None:
    spark = session()
    for name, work in JOBS.items():
        began = time.monotonic()
        outcome: dict[str, Any] = {"job": name}
        try:
            outcome["answer"] = work(spark)
        except Exception:
            outcome["error"] = traceback.format_exc()[-3000:]
        outcome["seconds"] = round(time.monotonic() - began, 1)
        print("outcome", json.dumps(outcome), flush=True)
    spark.stop()


main()
