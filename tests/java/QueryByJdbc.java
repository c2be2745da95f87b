// Runs statements by the Flight SQL JDBC driver, and prints what it returns.
//
// The arguments are a JDBC URL, and a user and a password or nothing. Each line of the standard input is one request:
// `query` and SQL, `prepared` and SQL and values for its parameters, `tables` and a pattern, `schemas`, or `columns` and
// the name of a table; parts are separated by tabs. Each answer is the names of the columns, the names of their SQL
// types, a line for each row with its values separated by tabs, and an empty line; or `error:` and its message on one
// line, and an empty line.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

public class QueryByJdbc {
  public static void main(String[] arguments) throws Exception {
    Properties login = new Properties();
    if (arguments.length > 1) {
      login.put("user", arguments[1]);
      login.put("password", arguments[2]);
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (Connection connection = DriverManager.getConnection(arguments[0], login)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        try {
          answer(connection, line.split("\t"));
        } catch (SQLException error) {
          System.out.println("error: " + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
        }
        System.out.println();
      }
    }
  }

  private static void answer(Connection connection, String[] request) throws SQLException {
    switch (request[0]) {
      case "query":
        try (Statement statement = connection.createStatement();
            ResultSet rows = statement.executeQuery(request[1])) {
          print(rows);
        }
        break;
      case "prepared":
        try (PreparedStatement statement = connection.prepareStatement(request[1])) {
          for (int at = 2; at < request.length; at++) {
            bind(statement, at - 1, request[at]);
          }
          try (ResultSet rows = statement.executeQuery()) {
            print(rows);
          }
        }
        break;
      case "tables":
        try (ResultSet rows = connection.getMetaData().getTables(null, null, request[1], null)) {
          print(rows);
        }
        break;
      case "schemas":
        try (ResultSet rows = connection.getMetaData().getSchemas()) {
          print(rows);
        }
        break;
      case "columns":
        try (ResultSet rows = connection.getMetaData().getColumns(null, null, request[1], null)) {
          print(rows);
        }
        break;
      default:
        throw new IllegalArgumentException(request[0]);
    }
  }

  private static void bind(PreparedStatement statement, int at, String value) throws SQLException {
    if (value.matches("-?\\d+")) {
      statement.setLong(at, Long.parseLong(value));
    } else {
      statement.setString(at, value);
    }
  }

  private static void print(ResultSet rows) throws SQLException {
    ResultSetMetaData shape = rows.getMetaData();
    List<String> names = new ArrayList<>();
    List<String> types = new ArrayList<>();
    for (int column = 1; column <= shape.getColumnCount(); column++) {
      names.add(shape.getColumnLabel(column));
      types.add(shape.getColumnTypeName(column));
    }
    System.out.println(String.join("\t", names));
    System.out.println(String.join("\t", types));
    while (rows.next()) {
      List<String> values = new ArrayList<>();
      for (int column = 1; column <= names.size(); column++) {
        values.add(String.valueOf(rows.getObject(column)));
      }
      System.out.println(String.join("\t", values));
    }
  }
}
