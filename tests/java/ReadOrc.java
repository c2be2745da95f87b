// Reads ORC files with the reference reader, as a whole and with predicates that it pushes down, and compares each row
// with that of another file.
//
// The first argument is the file to compare with, whose first column counts the rows from 0, and which has microseconds
// as numbers where the others have timestamps. Each line of the standard input is a file to read and, behind tabs, a
// predicate: column, operator, type and literals, behind their number if it is of `in`; or `and`, `or` or `not` and the
// predicates that it is of. Behind `where`, the reader leaves out the rows that the predicate is not true of, too, and
// not just row groups. Each line of the output is the ranges of rows that were returned, `0-999 5000-5999`, or `wrong:`
// and what is.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.storage.ql.exec.vector.ColumnVector;
import org.apache.orc.storage.ql.exec.vector.LongColumnVector;
import org.apache.orc.storage.ql.exec.vector.TimestampColumnVector;
import org.apache.orc.storage.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.storage.ql.io.sarg.PredicateLeaf;
import org.apache.orc.storage.ql.io.sarg.SearchArgument;
import org.apache.orc.storage.ql.io.sarg.SearchArgumentFactory;
import org.apache.orc.storage.serde2.io.HiveDecimalWritable;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;

public class ReadOrc {
  private static final Configuration CONFIGURATION = new Configuration();

  public static void main(String[] arguments) throws Exception {
    List<String> expected = new ArrayList<>();
    try (Reader reader = open(arguments[0]); RecordReader rows = reader.rows()) {
      VectorizedRowBatch batch = reader.getSchema().createRowBatch();
      while (rows.nextBatch(batch)) {
        for (int row = 0; row < batch.size; ++row) {
          expected.add(text(batch, row));
        }
      }
    }
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String answer;
      try {
        answer = read(line.split("\t"), expected);
      } catch (Exception error) {
        answer = "wrong: " + error;
        error.printStackTrace();
      }
      System.out.println(answer.replace('\n', ' '));
    }
  }

  private static Reader open(String path) throws Exception {
    return OrcFile.createReader(new Path(path), OrcFile.readerOptions(CONFIGURATION));
  }

  private static String read(String[] command, List<String> expected) throws Exception {
    StringBuilder ranges = new StringBuilder();
    long first = -1;
    long last = -2;
    try (Reader reader = open(command[0])) {
      Reader.Options options = reader.options();
      if (command.length > 1) {
        boolean rowByRow = command[1].equals("where");
        options.allowSARGToFilter(rowByRow).useSelected(rowByRow);
        Iterator<String> words = Arrays.asList(command).subList(rowByRow ? 2 : 1, command.length).iterator();
        List<String> columns = new ArrayList<>(Collections.singletonList(null));
        SearchArgument.Builder builder = SearchArgumentFactory.newBuilder();
        predicate(words, builder, columns);
        options.searchArgument(builder.build(), columns.toArray(new String[0]));
      }
      VectorizedRowBatch batch = reader.getSchema().createRowBatch();
      try (RecordReader rows = reader.rows(options)) {
        while (rows.nextBatch(batch)) {
          for (int at = 0; at < batch.size; ++at) {
            int row = batch.selectedInUse ? batch.selected[at] : at;
            LongColumnVector ids = (LongColumnVector) batch.cols[0];
            long id = ids.vector[ids.isRepeating ? 0 : row];
            String found = text(batch, row);
            if (id <= last || id >= expected.size() || !found.equals(expected.get((int) id))) {
              return "wrong: row " + id + " is " + found;
            }
            if (id != last + 1) {
              ranges.append(first < 0 ? "" : first + "-" + last + " ");
              first = id;
            }
            last = id;
          }
        }
      }
    }
    return (ranges + (first < 0 ? "" : first + "-" + last)).trim();
  }

  private static String text(VectorizedRowBatch batch, int row) {
    StringBuilder text = new StringBuilder();
    for (ColumnVector column : batch.cols) {
      if (column instanceof TimestampColumnVector) {
        text.append(microseconds((TimestampColumnVector) column, column.isRepeating ? 0 : row));
      } else {
        column.stringifyValue(text, row);
      }
      text.append('|');
    }
    return text.toString();
  }

  private static String microseconds(TimestampColumnVector times, int row) {
    if (!times.noNulls && times.isNull[row]) {
      return "null";
    }
    return String.valueOf(Math.floorDiv(times.time[row], 1000) * 1_000_000 + times.nanos[row] / 1000);
  }

  private static void predicate(Iterator<String> words, SearchArgument.Builder builder, List<String> columns) {
    String word = words.next();
    switch (word) {
      case "and":
      case "or":
        builder = word.equals("and") ? builder.startAnd() : builder.startOr();
        predicate(words, builder, columns);
        predicate(words, builder, columns);
        builder.end();
        break;
      case "not":
        builder.startNot();
        predicate(words, builder, columns);
        builder.end();
        break;
      default:
        columns.add(word);
        comparison(word, words, builder);
    }
  }

  private static void comparison(String column, Iterator<String> words, SearchArgument.Builder builder) {
    String operator = words.next();
    PredicateLeaf.Type type = PredicateLeaf.Type.valueOf(words.next());
    switch (operator) {
      case "equals":
        builder.equals(column, type, literal(type, words.next()));
        break;
      case "less":
        builder.lessThan(column, type, literal(type, words.next()));
        break;
      case "most":
        builder.lessThanEquals(column, type, literal(type, words.next()));
        break;
      case "between":
        builder.between(column, type, literal(type, words.next()), literal(type, words.next()));
        break;
      case "in":
        Object[] literals = new Object[Integer.parseInt(words.next())];
        for (int at = 0; at < literals.length; ++at) {
          literals[at] = literal(type, words.next());
        }
        builder.in(column, type, literals);
        break;
      case "null":
        builder.isNull(column, type);
        break;
      default:
        throw new IllegalArgumentException(operator);
    }
  }

  private static Object literal(PredicateLeaf.Type type, String text) {
    switch (type) {
      case LONG:
        return Long.valueOf(text);
      case FLOAT:
        return Double.valueOf(text);
      case DATE:
        return Date.valueOf(text);
      case DECIMAL:
        return new HiveDecimalWritable(text);
      case TIMESTAMP:
        return Timestamp.valueOf(text);
      case BOOLEAN:
        return Boolean.valueOf(text);
      default:
        return text;
    }
  }
}
