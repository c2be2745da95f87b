// Writes a file with the reference writer whose column `either` is a union of a number, a text and a record. Arguments
// are the file, the number of rows and, behind them, settings of the writer such as `orc.row.index.stride=1000`.
//
// Row `i` has, by `i % 7`: the number `i` (0, 4), the text `t<i % 50>` (1), the record of `i` (2), nothing (3), a
// number that is null (5), a text that is null (6).

import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;
import org.apache.orc.storage.ql.exec.vector.BytesColumnVector;
import org.apache.orc.storage.ql.exec.vector.LongColumnVector;
import org.apache.orc.storage.ql.exec.vector.StructColumnVector;
import org.apache.orc.storage.ql.exec.vector.UnionColumnVector;
import org.apache.orc.storage.ql.exec.vector.VectorizedRowBatch;

public class WriteUnions {
  private static final int[] TAGS = {0, 1, 2, 0, 0, 0, 1};

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    for (int at = 2; at < arguments.length; ++at) {
      String[] setting = arguments[at].split("=", 2);
      settings.set(setting[0], setting[1]);
    }
    TypeDescription schema =
        TypeDescription.fromString("struct<row:bigint,either:uniontype<bigint,string,struct<a:bigint>>>");
    OrcFile.WriterOptions options = OrcFile.writerOptions(settings).setSchema(schema).overwrite(true);
    try (Writer writer = OrcFile.createWriter(new Path(arguments[0]), options)) {
      VectorizedRowBatch batch = schema.createRowBatch(1000);
      int rows = Integer.parseInt(arguments[1]);
      for (int row = 0; row < rows; ++row) {
        add(batch, row);
        if (batch.size == batch.getMaxSize() || row + 1 == rows) {
          writer.addRowBatch(batch);
          batch.reset();
        }
      }
    }
  }

  private static void add(VectorizedRowBatch batch, int row) {
    int at = batch.size++;
    ((LongColumnVector) batch.cols[0]).vector[at] = row;
    UnionColumnVector either = (UnionColumnVector) batch.cols[1];
    LongColumnVector numbers = (LongColumnVector) either.fields[0];
    BytesColumnVector texts = (BytesColumnVector) either.fields[1];
    StructColumnVector records = (StructColumnVector) either.fields[2];
    either.tags[at] = TAGS[row % 7];
    numbers.vector[at] = row;
    texts.setVal(at, ("t" + row % 50).getBytes(StandardCharsets.UTF_8));
    ((LongColumnVector) records.fields[0]).vector[at] = row;
    if (row % 7 == 3) {
      either.noNulls = false;
      either.isNull[at] = true;
    } else if (row % 7 == 5) {
      numbers.noNulls = false;
      numbers.isNull[at] = true;
    } else if (row % 7 == 6) {
      texts.noNulls = false;
      texts.isNull[at] = true;
    }
  }
}
