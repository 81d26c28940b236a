import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads and writes messages with Kafka's own classes: a line on standard input asks, a line on standard output answers.
 *
 * A question is a message (request:KEY, response:KEY or the name of a class), a version, and its bytes in hex, or "new"
 * for a message in which nothing was set. Answers: "absent" (no such message or version in these jars), "unreadable" or
 * "unwritable" with the exception, or "read" with the version of the header before it (-1 where there is none), the
 * number of bytes left over, the bytes written again, and what was read, as JSON.
 */
class KafkaMessages {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line; (line = questions.readLine()) != null; ) {
                String[] question = line.split(" ", -1);
                answers.println(answer(question[0].split(":"), Short.parseShort(question[1]), question[2]));
            }
        }
    }

    private static String answer(String[] which, short version, String hex) throws ReflectiveOperationException {
        boolean isRequest = which[0].equals("request");
        ApiMessageType api;
        Message message;
        try {
            api = which.length == 2 ? ApiMessageType.fromApiKey(Short.parseShort(which[1])) : null;
            message = api == null ? (Message) Class.forName(which[0]).getConstructor().newInstance()
                : isRequest ? api.newRequest() : api.newResponse();
        } catch (ClassNotFoundException | UnsupportedVersionException e) {
            return "absent";
        }
        if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) return "absent";
        ByteBuffer in = ByteBuffer.wrap(hex.equals("new") ? new byte[0] : HEX.parseHex(hex));
        try {
            if (!hex.equals("new")) message.read(new ByteBufferAccessor(in), version);
        } catch (RuntimeException e) {
            return "unreadable " + e;
        }
        byte[] written;
        try {
            var sizes = new ObjectSerializationCache();
            written = new byte[message.size(sizes, version)];
            message.write(new ByteBufferAccessor(ByteBuffer.wrap(written)), sizes, version);
        } catch (RuntimeException e) {
            return "unwritable " + e;
        }
        int header = api == null ? -1 : isRequest ? api.requestHeaderVersion(version) : api.responseHeaderVersion(version);
        Class<?> type = message.getClass();
        // Its last argument is whether records are shown; they are counted in bytes instead.
        Object shown = Class.forName(type.getName().replace("$", "JsonConverter$") + "JsonConverter")
            .getMethod("write", type, short.class, boolean.class).invoke(null, message, version, false);
        return String.join(" ", "read", "" + header, "" + in.remaining(), HEX.formatHex(written), shown.toString());
    }
}
