import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;

/**
 * Reads payloads of the consumer protocol, their versions in front, as Kafka's consumers and group coordinators do.
 *
 * A line on standard input asks: "subscription", "assignment" or "coordinator" (a subscription, as that one calls for
 * it), and the payload in hex. A line on standard output answers: "read" with it as JSON, or "refused" with the exception.
 */
class ConsumerPayloads {
    public static void main(String[] args) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line; (line = questions.readLine()) != null; ) {
                String[] question = line.split(" ", -1);
                answers.println(answer(question[0], ByteBuffer.wrap(HexFormat.of().parseHex(question[1]))));
            }
        }
    }

    private static String answer(String kind, ByteBuffer payload) {
        try {
            if (kind.equals("assignment")) {
                return "read " + ConsumerProtocolAssignmentJsonConverter.write(
                    ConsumerProtocol.deserializeConsumerProtocolAssignment(payload),
                    ConsumerProtocolAssignment.HIGHEST_SUPPORTED_VERSION);
            }
            ConsumerProtocolSubscription subscription;
            if (kind.equals("coordinator")) {
                ConsumerProtocol.deserializeVersion(payload);
                subscription = ConsumerProtocol.deserializeConsumerProtocolSubscription(payload, (short) 0);
            } else {
                subscription = ConsumerProtocol.deserializeConsumerProtocolSubscription(payload);
            }
            return "read " + ConsumerProtocolSubscriptionJsonConverter.write(
                subscription, ConsumerProtocolSubscription.HIGHEST_SUPPORTED_VERSION);
        } catch (RuntimeException e) {
            return "refused " + e;
        }
    }
}
