//! Capabilities of the node and column types, as drivers request them.

use arrow_flight::{
    error::FlightError,
    sql::{
        Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
        XdbcDataType,
        metadata::{
            SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
        },
    },
};

/// The Arrow format version of streams.
const ARROW_VERSION: &str = "1.3";

/// Returns the name and the capabilities of the node.
pub(super) fn sql_info() -> Result<SqlInfoData, FlightError> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Stylobate");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, false);

    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    let lower_case = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64;
    info.append(SqlInfo::SqlIdentifierCase, lower_case);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    let as_written = SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i64;
    info.append(SqlInfo::SqlQuotedIdentifierCase, as_written);
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlSchemaTerm, "bucket");
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    info.append(SqlInfo::SqlCatalogAtStart, true);
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    info.append(SqlInfo::SqlBatchUpdatesSupported, false);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.build()
}

/// Returns the types that file columns can have, under their SQL names.
pub(super) fn type_info() -> Result<XdbcTypeInfoData, FlightError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, digits) in [
        ("TINYINT", XdbcDataType::XdbcTinyint, Some(3)),
        ("SMALLINT", XdbcDataType::XdbcSmallint, Some(5)),
        ("INTEGER", XdbcDataType::XdbcInteger, Some(10)),
        ("BIGINT", XdbcDataType::XdbcBigint, Some(19)),
        ("REAL", XdbcDataType::XdbcReal, Some(7)),
        ("DOUBLE", XdbcDataType::XdbcDouble, Some(15)),
        ("DECIMAL", XdbcDataType::XdbcDecimal, Some(76)),
    ] {
        types.append(XdbcTypeInfo {
            unsigned_attribute: Some(false),
            auto_increment: Some(false),
            fixed_prec_scale: false,
            column_size: digits,
            num_prec_radix: Some(10),
            ..column_type(name, data_type)
        });
    }
    for (name, data_type) in [
        ("BOOLEAN", XdbcDataType::XdbcBit),
        ("VARCHAR", XdbcDataType::XdbcVarchar),
        ("DATE", XdbcDataType::XdbcDate),
        ("TIME", XdbcDataType::XdbcTime),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp),
        ("VARBINARY", XdbcDataType::XdbcVarbinary),
    ] {
        let is_text = data_type == XdbcDataType::XdbcVarchar;
        let quote = (data_type != XdbcDataType::XdbcBit).then(|| "'".to_owned());
        types.append(XdbcTypeInfo {
            case_sensitive: is_text,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            ..column_type(name, data_type)
        });
    }
    types.build()
}

fn column_type(name: &str, data_type: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        local_type_name: Some(name.to_owned()),
        sql_data_type: data_type,
        ..XdbcTypeInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_written() {
        assert!(sql_info().unwrap().record_batch([]).unwrap().num_rows() > 20);
        assert_eq!(sql_info().unwrap().record_batch([3]).unwrap().num_rows(), 1);
        assert_eq!(type_info().unwrap().record_batch(None::<i32>).unwrap().num_rows(), 13);
    }
}
