import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.record.Records;

/**
 * As KafkaMessages.java, for a Kafka whose schemas were still written by hand (1.1.1).
 *
 * The values are one list in the order of the wire, with the lengths of arrays and, for records, the number of their
 * bytes. There is no header version (-1), and a message in which nothing was set is absent, like everything that is
 * neither a request nor a response.
 */
class KafkaSchemas {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line; (line = questions.readLine()) != null; ) {
                String[] question = line.split(" ", -1);
                answers.println(answer(question[0].split(":"), Integer.parseInt(question[1]), question[2]));
            }
        }
    }

    private static String answer(String[] which, int version, String hex) throws Exception {
        if (which.length == 1 || hex.equals("new") || !ApiKeys.hasId(Integer.parseInt(which[1]))) return "absent";
        ApiKeys api = ApiKeys.forId(Integer.parseInt(which[1]));
        Schema[] schemas = which[0].equals("request") ? api.requestSchemas : api.responseSchemas;
        if (version >= schemas.length) return "absent";
        ByteBuffer in = ByteBuffer.wrap(HEX.parseHex(hex));
        Struct message;
        try {
            message = schemas[version].read(in);
        } catch (RuntimeException e) {
            return "unreadable " + e;
        }
        ByteBuffer written = ByteBuffer.allocate(message.sizeOf());
        message.writeTo(written);
        List<Object> shown = new ArrayList<>();
        show(message, shown);
        String values = JSON.writeValueAsString(shown);
        return String.join(" ", "read", "-1", "" + in.remaining(), HEX.formatHex(written.array()), values);
    }

    private static void show(Object value, List<Object> shown) {
        if (value instanceof Struct) {
            for (BoundField field : ((Struct) value).schema().fields()) show(((Struct) value).get(field), shown);
        } else if (value instanceof Object[]) {
            shown.add(((Object[]) value).length);
            for (Object element : (Object[]) value) show(element, shown);
        } else if (value instanceof Records) {
            shown.add(((Records) value).sizeInBytes());
        } else if (value instanceof ByteBuffer) {
            // Jackson would begin at the start of the array that is behind it.
            byte[] bytes = new byte[((ByteBuffer) value).remaining()];
            ((ByteBuffer) value).duplicate().get(bytes);
            shown.add(bytes);
        } else {
            shown.add(value);
        }
    }
}
