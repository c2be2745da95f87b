"""`Rows`: what scans and views of graphs have in common, namely rows that are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from stylobate import _optional as optional
from stylobate._stylobate import RecordBatch, Schema

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

__all__ = ["Rows"]


class Source(Protocol):
    """Where rows come from."""

    @property
    def schema(self) -> Any: ...
    def collect(self) -> Any: ...
    def batches(self) -> Iterator[Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Rows:
    """Rows that are not read yet, and are read anew by each of its methods."""

    _source: Source

    @property
    def schema(self) -> pyarrow.Schema | Schema:
        """The schema of what comes out: pyarrow's, or where that is not installed, a `Schema`.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", columns=["fare"]).schema.names
        ['fare']
        """
        schema = self._source.schema
        pyarrow = optional.pyarrow_or_none()
        return schema if pyarrow is None else pyarrow.schema(schema)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a table of pyarrow."""
        return optional.pyarrow("to_arrow").table(self._source.collect())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a data frame of pandas; dictionaries become categories. Options are those of
        `pyarrow.Table.to_pandas`.

        >>> import stylobate as st
        >>> float(st.scan("trips.parquet").to_pandas()["fare"].sum())
        73.0
        """
        optional.pandas("to_pandas")
        return signed_keys(self.to_arrow()).to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a data frame of Polars; dictionaries become categories.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").to_polars().shape
        (5, 3)
        """
        return optional.polars("to_polars").DataFrame(self._source.collect())

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, in its default connection or another, pulled as they are needed and read
        again by each query.

        >>> import stylobate as st
        >>> fares = st.scan("trips.parquet").to_duckdb()
        >>> fares.max("fare").fetchone(), fares.min("fare").fetchone()
        ((30.0,), (7.5,))
        """
        duckdb = optional.duckdb("to_duckdb")
        optional.pyarrow("to_duckdb")
        return duckdb.from_arrow(self, connection=con) if con is not None else duckdb.from_arrow(self)

    def batches(self) -> Iterator[pyarrow.RecordBatch | RecordBatch]:
        """The rows in batches, read as they are asked for: pyarrow's, or without it `RecordBatch`es.

        >>> import stylobate as st
        >>> [batch.num_rows for batch in st.scan("trips.parquet", batch_rows=3).batches()]
        [3, 2]
        """
        batches = self._source.batches()
        pyarrow = optional.pyarrow_or_none()
        if pyarrow is None:
            return batches
        return (
            batch if isinstance(batch, pyarrow.RecordBatch) else pyarrow.record_batch(batch)
            for batch in batches
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of the Arrow PyCapsule interface."""
        return self._source.__arrow_c_stream__(requested_schema)


def signed_keys(table: pyarrow.Table) -> pyarrow.Table:
    """The table with one dictionary for each column, and with signed keys: pandas knows no other."""
    pyarrow = optional.pyarrow("to_pandas")
    table = table.unify_dictionaries()
    for at, field in enumerate(table.schema):
        if not pyarrow.types.is_dictionary(field.type) or pyarrow.types.is_signed_integer(
            field.type.index_type
        ):
            continue
        chunks = [
            pyarrow.DictionaryArray.from_arrays(chunk.indices.cast(pyarrow.int32()), chunk.dictionary, ordered=field.type.ordered)
            for chunk in table.column(at).chunks
        ]
        signed = pyarrow.dictionary(pyarrow.int32(), field.type.value_type, field.type.ordered)
        table = table.set_column(at, field.with_type(signed), pyarrow.chunked_array(chunks, signed))
    return table
