// Copies ORC files with the reference writer. Each line of the standard input is a source, a destination and, behind
// tabs, settings of the writer such as `orc.write.format=UNSTABLE-PRE-2.0`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;
import org.apache.orc.storage.ql.exec.vector.VectorizedRowBatch;

public class CopyOrc {
  public static void main(String[] arguments) throws Exception {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] command = line.split("\t");
      Configuration settings = new Configuration();
      for (int at = 2; at < command.length; ++at) {
        String[] setting = command[at].split("=", 2);
        settings.set(setting[0], setting[1]);
      }
      copy(new Path(command[0]), new Path(command[1]), settings);
    }
  }

  private static void copy(Path from, Path to, Configuration settings) throws Exception {
    // Reader and writer share a batch, so both must count days alike.
    boolean gregorian = settings.getBoolean("orc.proleptic.gregorian", false);
    OrcFile.ReaderOptions reading = OrcFile.readerOptions(settings).convertToProlepticGregorian(gregorian);
    try (Reader reader = OrcFile.createReader(from, reading); RecordReader rows = reader.rows()) {
      TypeDescription schema = reader.getSchema();
      OrcFile.WriterOptions writing = OrcFile.writerOptions(settings).setSchema(schema).overwrite(true);
      try (Writer writer = OrcFile.createWriter(to, writing)) {
        VectorizedRowBatch batch = schema.createRowBatch(TypeDescription.RowBatchVersion.ORIGINAL, 1000);
        while (rows.nextBatch(batch)) {
          writer.addRowBatch(batch);
        }
      }
    }
  }
}
