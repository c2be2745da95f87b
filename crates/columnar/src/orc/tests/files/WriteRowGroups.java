import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.storage.ql.exec.vector.*;
import org.apache.orc.storage.serde2.io.HiveDecimalWritable;
import org.apache.orc.*;

/**
 * Writes a file whose stripe has several row groups with the reference writer; the one here is of orc-tools 2.1.2:
 * {@code java -Duser.timezone=UTC WriteRowGroups java-zlib.orc ZLIB 4096 3300}.
 */
public class WriteRowGroups {
  public static void main(String[] args) throws Exception {
    String schemaText = "struct<id:bigint,flag:boolean,tiny:tinyint,small:smallint,number:int,noise:bigint,single:float,"
        + "twice:double,day:date,money:decimal(12,2),wide:decimal(38,4),unique:string,few:string,bytes:binary,clock:timestamp,"
        + "instant:timestamp with local time zone,list:array<int>>";
    TypeDescription schema = TypeDescription.fromString(schemaText);
    OrcFile.WriterOptions options = OrcFile.writerOptions(new Configuration()).setSchema(schema)
        .rowIndexStride(1000).compress(CompressionKind.valueOf(args[1])).bufferSize(Integer.parseInt(args[2]))
        .overwrite(true).bloomFilterColumns("id,tiny,small,number,noise,single,twice,day,money,wide,unique,few,bytes,clock,instant")
        .bloomFilterFpp(0.05);
    int rows = Integer.parseInt(args[3]);
    Random random = new Random(11);
    try (Writer writer = OrcFile.createWriter(new Path(args[0]), options)) {
      VectorizedRowBatch batch = schema.createRowBatch(1000);
      for (int row = 0; row < rows; ++row) {
        int at = batch.size++;
        int group = row / 1000;
        boolean isNull = group % 4 == 3 || (group % 4 == 1 && random.nextInt(5) == 0);
        for (int column = 1; column < batch.cols.length; ++column) {
          ColumnVector vector = batch.cols[column];
          if (isNull) { vector.noNulls = false; vector.isNull[at] = true; }
        }
        ((LongColumnVector) batch.cols[0]).vector[at] = row;
        ((LongColumnVector) batch.cols[1]).vector[at] = row % 3 == 0 ? 1 : 0;
        ((LongColumnVector) batch.cols[2]).vector[at] = row % 100 - 50;
        ((LongColumnVector) batch.cols[3]).vector[at] = row / 3 - 400;
        ((LongColumnVector) batch.cols[4]).vector[at] = (long) row * 7919 % 1000003;
        ((LongColumnVector) batch.cols[5]).vector[at] = random.nextInt(50) == 0 ? random.nextLong() : random.nextInt(64);
        ((DoubleColumnVector) batch.cols[6]).vector[at] = row / 4.0;
        ((DoubleColumnVector) batch.cols[7]).vector[at] = row % 13 / 7.0;
        ((LongColumnVector) batch.cols[8]).vector[at] = row / 5 - 300;
        if (batch.cols[9] instanceof Decimal64ColumnVector) ((Decimal64ColumnVector) batch.cols[9]).vector[at] = row * 10L - 7000;
        else ((DecimalColumnVector) batch.cols[9]).set(at, new HiveDecimalWritable(java.math.BigDecimal.valueOf(row * 10L - 7000, 2).toPlainString()));
        ((DecimalColumnVector) batch.cols[10]).set(at, new HiveDecimalWritable((row - 99) + "00000000000000000." + row % 10));
        ((BytesColumnVector) batch.cols[11]).setVal(at, ("t" + (long) row * 7919 % 100000).getBytes(StandardCharsets.UTF_8));
        ((BytesColumnVector) batch.cols[12]).setVal(at, new String[] {"AIR", "FOB", "MAIL", "RAIL", "SHIP"}[row * 31 / 7 % 5].getBytes());
        ((BytesColumnVector) batch.cols[13]).setVal(at, new byte[row % 4]);
        TimestampColumnVector clock = (TimestampColumnVector) batch.cols[14];
        clock.time[at] = 600000000000L + row * 3600000L + row % 1000; clock.nanos[at] = (row % 1000) * 1000000;
        clock.time[at] = clock.time[at] / 1000 * 1000 + row % 1000;
        TimestampColumnVector instant = (TimestampColumnVector) batch.cols[15];
        instant.time[at] = row * 7777000L; instant.nanos[at] = 0;
        ListColumnVector list = (ListColumnVector) batch.cols[16];
        list.offsets[at] = list.childCount;
        list.lengths[at] = isNull ? 0 : row % 3;
        if (!isNull) {
          list.child.ensureSize(list.childCount + 3, true);
          for (int i = 0; i < row % 3; ++i) ((LongColumnVector) list.child).vector[list.childCount++] = row + i;
        }
        if (batch.size == 1000) { writer.addRowBatch(batch); batch.reset(); }
      }
      if (batch.size > 0) writer.addRowBatch(batch);
    }
  }
}
