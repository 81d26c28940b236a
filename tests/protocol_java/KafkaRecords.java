import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Reads the records of Fetch responses as Kafka's consumer does: message sets, record batches, or both.
 *
 * A line on standard input asks: the bytes in hex. A line on standard output answers: the records that were read, and
 * "end", or "failed" with the exception and its causes. A record is its offset, timestamp, key and value, then the keys
 * and values of its headers, with commas between them; bytes and text (UTF-8) are in hex, null is "-".
 */
class KafkaRecords {
    public static void main(String[] args) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line; (line = questions.readLine()) != null; ) {
                var answer = new StringBuilder();
                try {
                    read(ByteBuffer.wrap(HexFormat.of().parseHex(line)), answer);
                    answer.append("end");
                } catch (Throwable e) {
                    answer.append("failed ").append(withCauses(e));
                }
                answers.println(answer);
            }
        }
    }

    private static void read(ByteBuffer fetched, StringBuilder answer) {
        for (RecordBatch batch : MemoryRecords.readableRecords(fetched).batches()) {
            batch.ensureValid();
            try (var records = batch.streamingIterator(BufferSupplier.create())) {
                while (records.hasNext()) {
                    Record record = records.next();
                    record.ensureValid();
                    answer.append(shown(record)).append(' ');
                }
            }
        }
    }

    private static String shown(Record record) {
        var shown = new StringBuilder();
        shown.append(record.offset()).append(',').append(record.timestamp());
        shown.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
        for (Header header : record.headers()) {
            shown.append(',').append(hex(StandardCharsets.UTF_8.encode(header.key())));
            shown.append(',').append(header.value() == null ? "-" : hex(ByteBuffer.wrap(header.value())));
        }
        return shown.toString();
    }

    private static String hex(ByteBuffer content) {
        if (content == null) {
            return "-";
        }
        byte[] bytes = new byte[content.remaining()];
        content.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String withCauses(Throwable error) {
        var causes = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            causes.append(" <- ").append(cause);
        }
        return causes.toString().replaceAll("\\R", " ");
    }
}
