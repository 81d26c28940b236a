import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The Java producer and consumer, 0.9 and newer. */
public final class JavaClient {
    private static final String DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer";

    public static void main(String[] args) {
        Contract.run(args, JavaProducer::produce, JavaClient::consume);
    }

    @SuppressWarnings("deprecation") // poll(Duration) came with 2.0
    private static void consume(String bootstrap, String topic, String group, int count, String zookeeper)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", DESERIALIZER);
        settings.put("value.deserializer", DESERIALIZER);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Collections.singletonList(topic));
            TopicPartition partition = new TopicPartition(topic, 0);
            int left = count;
            long next = -1;
            while (left > 0) {
                for (ConsumerRecord<String, String> each : consumer.poll(500).records(partition)) {
                    if (left == 0)
                        break; // a poll may give more than were asked for
                    Contract.print(each.offset(), each.key(), each.value(), timestamp(each));
                    next = each.offset() + 1;
                    left--;
                }
            }
            consumer.commitSync(Collections.singletonMap(partition, new OffsetAndMetadata(next)));
        }
    }

    /** Records have one since 0.10. */
    private static Long timestamp(ConsumerRecord<String, String> record) throws ReflectiveOperationException {
        Method timestamp;
        try {
            timestamp = ConsumerRecord.class.getMethod("timestamp");
        } catch (NoSuchMethodException error) {
            return null;
        }
        return (Long) timestamp.invoke(record);
    }
}
