import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** The first producer, in Scala (0.8.2). It is not told offsets. */
public final class ScalaProducer {
    public static void main(String[] args) {
        Contract.run(args, ScalaProducer::produce, null);
    }

    private static List<Long> produce(String bootstrap, String topic, String codec, List<String[]> records) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", bootstrap);
        settings.put("request.required.acks", "-1");
        settings.put("compression.codec", codec);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        settings.put("message.send.max.retries", "10");
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        List<KeyedMessage<String, String>> messages = new ArrayList<>();
        for (String[] each : records)
            messages.add(new KeyedMessage<>(topic, each[0], 0, each[1])); // 0 is what the partition is chosen by
        producer.send(messages);
        producer.close();
        return Collections.nCopies(records.size(), null);
    }
}
