"""`Rows`: lazily read rows, the common base of scans, queries and views of graphs."""

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
    """Source of rows."""

    @property
    def schema(self) -> Any: ...
    def collect(self) -> Any: ...
    def batches(self) -> Iterator[Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Rows:
    """Rows that are read on demand, and again by each method."""

    _source: Source

    @property
    def schema(self) -> pyarrow.Schema | Schema:
        """The schema of the output: pyarrow's, or a `Schema` if pyarrow is not installed.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", columns=["fare"]).schema.names
        ['fare']
        """
        schema = self._source.schema
        pyarrow = optional.pyarrow_or_none()
        return schema if pyarrow is None else pyarrow.schema(schema)

    def to_arrow(self) -> pyarrow.Table:
        """Reads all rows as a pyarrow table."""
        return optional.pyarrow("to_arrow").table(self._source.collect())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Reads all rows as a pandas data frame; dictionaries become categoricals.

        Options are those of `pyarrow.Table.to_pandas`.

        >>> import stylobate as st
        >>> float(st.scan("trips.parquet").to_pandas()["fare"].sum())
        73.0
        """
        optional.pandas("to_pandas")
        table = self._with_categories(self.to_arrow())
        return signed_keys(plain_items(table)).to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Reads all rows as a Polars data frame; dictionaries become categoricals, and JSON becomes strings.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").to_polars().shape
        (5, 3)
        """
        frame = optional.polars("to_polars").DataFrame(self._source.collect())
        # Polars cannot compare values of extension types.
        json = [name for name, type in frame.schema.items() if is_polars_json(type)]
        return frame.with_columns(frame[name].ext.storage() for name in json) if json else frame

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns the rows as a DuckDB relation, in the default connection or in `con`.

        Each query streams the rows again, on demand.

        >>> import stylobate as st
        >>> fares = st.scan("trips.parquet").to_duckdb()
        >>> fares.max("fare").fetchone(), fares.min("fare").fetchone()
        ((30.0,), (7.5,))
        """
        duckdb = optional.duckdb("to_duckdb")
        optional.pyarrow("to_duckdb")
        return duckdb.from_arrow(self, connection=con) if con is not None else duckdb.from_arrow(self)

    def batches(self) -> Iterator[pyarrow.RecordBatch | RecordBatch]:
        """Returns an iterator over the batches, read on demand.

        Batches are pyarrow's, or `RecordBatch` if pyarrow is not installed.

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
        """Exports the rows as a stream of the Arrow PyCapsule interface."""
        return self._source.__arrow_c_stream__(requested_schema)

    def _with_categories(self, table: pyarrow.Table) -> pyarrow.Table:
        """Returns the rows with all categories of their source, including those that do not occur in the rows."""
        return table


def is_polars_json(type: Any) -> bool:
    """Returns whether a type of Polars is the extension type `arrow.json`. Polars before 1.36 has none."""
    return hasattr(type, "ext_name") and type.ext_name() == "arrow.json"


def with_dictionaries(table: pyarrow.Table, other: pyarrow.Table) -> pyarrow.Table:
    """Gives the columns of a table without rows the dictionaries of another table's columns."""
    pyarrow = optional.pyarrow("to_pandas")
    for at, field in enumerate(table.schema):
        column = other[field.name] if field.name in other.column_names else None
        if column is not None and column.type == field.type and column.num_chunks:
            empty = pyarrow.chunked_array([column.chunk(0).slice(0, 0)], field.type)
            table = table.set_column(at, field, empty)
    return table


def plain_items(table: pyarrow.Table) -> pyarrow.Table:
    """Replaces extension types of list items, such as `arrow.json`, by their storage: pyarrow cannot convert these."""
    for at, field in enumerate(table.schema):
        plain = plain_type(field.type)
        if plain != field.type:
            table = table.set_column(at, field.with_type(plain), table.column(at).cast(plain))
    return table


def plain_type(type: pyarrow.DataType, is_item: bool = False) -> pyarrow.DataType:
    """Returns the type without extension types of list items."""
    pyarrow = optional.pyarrow("to_pandas")
    types = pyarrow.types

    def item() -> Any:
        return type.value_field.with_type(plain_type(type.value_type, is_item=True))

    if isinstance(type, pyarrow.BaseExtensionType):
        return plain_type(type.storage_type, is_item) if is_item else type
    if types.is_list(type):
        return pyarrow.list_(item())
    if types.is_large_list(type):
        return pyarrow.large_list(item())
    if types.is_fixed_size_list(type):
        return pyarrow.list_(item(), type.list_size)
    if types.is_struct(type):
        return pyarrow.struct([field.with_type(plain_type(field.type)) for field in type])
    return type


def signed_keys(table: pyarrow.Table) -> pyarrow.Table:
    """Unifies the dictionaries of each column, and converts their keys to signed integers, which pandas requires."""
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
